// SPDX-License-Identifier: Apache-2.0
// listener: base of tcp_listener and unix_listener, whose connections coroutines accept.
#pragma once

#include <gyre/base/timer_operation.hpp>
#include <gyre/io/detail/request_awaiter.hpp>
#include <gyre/net/detail/accept_policy.hpp>
#include <gyre/net/tcp_stream.hpp>

namespace gyre::net::detail {

class accept_operation;

/// Returns the peer of the connection that `request` has accepted.
endpoint peer_of(const io::accept_request& request) noexcept;

/// A listening socket, and the coroutine that waits for the end of a pause, if any.
class listening_socket final : public io::detail::open_descriptor {
 public:
  listening_socket(event_loop& loop, socket new_socket);
  ~listening_socket() { close(); }

  void close() noexcept;
  [[nodiscard]] unique_fd release() noexcept;

  /// Begins a pause because accept(2) failed with `error`; afterwards `waiter` tries again.
  void begin_pause(accept_operation& waiter, int error) noexcept;
  /// Ends the pause, and returns its waiter, or null.
  accept_operation* end_pause() noexcept;
  bool is_pausing() const noexcept { return waiter_ != nullptr; }
  void note_accepted() noexcept { policy_.reset(); }
  /// Notes that a connection was closed because the loop could not serve it.
  void note_refused(std::error_code error) noexcept;
  std::uint64_t refused() const noexcept { return refused_count_; }

 private:
  void report_once(int error) noexcept;

  accept_policy policy_;
  std::uint64_t refused_count_ = 0;
  bool was_reported_ = false;
  accept_operation* waiter_ = nullptr;
};

/// The Operation of request_awaiter that calls accept(2). A shortage of descriptors does not end
/// the operation.
class accept_operation : public io::detail::single_request<io::accept_request> {
 public:
  static constexpr const char* name = "gyre::net: accept";

  accept_operation(io::detail::open_descriptor* listening_handle, endpoint* peer_to) noexcept
      : single_request(listening_handle, nullptr), peer_to_(peer_to) {}
  accept_operation(const accept_operation& other) noexcept
      : accept_operation(other.descriptor(), other.peer_to_) {}

  listening_socket& listening() const noexcept {
    return static_cast<listening_socket&>(*descriptor());
  }
  bool busy() const noexcept { return single_request::busy() || listening().is_pausing(); }
  std::optional<io::result> begin() noexcept;
  std::optional<io::result> advance(io::result result) noexcept;
  std::optional<io::result> cancel() noexcept;

  /// Returns the accepted socket, and stores the peer's address in the endpoint that the caller has
  /// passed, if any.
  socket take(io::result result) noexcept;

 private:
  struct retry_timer : timer_operation {
    explicit retry_timer(accept_operation& operation) noexcept
        : timer_operation(&on_expiry), self(operation) {}
    accept_operation& self;
  };
  static void on_expiry(timer_operation& timer);

  friend listening_socket;
  endpoint* peer_to_;
  retry_timer retry_{*this};
};

struct accept_socket_operation : accept_operation {
  using value_type = socket;
  using accept_operation::accept_operation;
  socket value(io::result result) noexcept { return take(result); }
};

template <class Stream>
struct accept_stream_operation : accept_operation {
  using value_type = Stream;
  using accept_operation::accept_operation;
  accept_stream_operation(const accept_stream_operation& other) noexcept
      : accept_operation(other) {}

  std::optional<io::result> begin() noexcept {
    loop_ = &descriptor()->loop();
    return attach(accept_operation::begin());
  }
  std::optional<io::result> advance(io::result result) noexcept {
    return attach(accept_operation::advance(result));
  }
  Stream value(io::result result) {
    return stream_ ? std::move(*stream_) : Stream(*loop_, take(result));
  }

 private:
  // Attaches an accepted connection to the loop. If the loop cannot serve it, because memory or
  // watches are short, closes it and accepts the next one: an error would end the coroutine that
  // accepts, and with it most servers.
  std::optional<io::result> attach(std::optional<io::result> outcome) noexcept {
    while (outcome && *outcome) {
      try {
        stream_.emplace(*loop_, take(*outcome));
        return outcome;
      } catch (...) {
        listening().note_refused(io::detail::current_error());
      }
      outcome = accept_operation::begin();
    }
    return outcome;
  }

  event_loop* loop_ = nullptr;  // valid even if the listener is closed before the resumption
  std::optional<Stream> stream_;
};

/// Base of tcp_listener, which documents its members, and unix_listener.
template <class Stream>
class listener {
 public:
  listener(listener&&) noexcept = default;
  listener& operator=(listener&&) noexcept = default;

  auto accept() noexcept { return accept_as<accept_stream_operation<Stream>>(nullptr); }
  auto accept(endpoint& peer) noexcept { return accept_as<accept_stream_operation<Stream>>(&peer); }
  auto accept_socket() noexcept { return accept_as<accept_socket_operation>(nullptr); }
  auto accept_socket(endpoint& peer) noexcept { return accept_as<accept_socket_operation>(&peer); }

  [[nodiscard]] std::uint64_t refused() const noexcept { return socket_ ? socket_->refused() : 0; }
  [[nodiscard]] bool is_open() const noexcept { return socket_ != nullptr && socket_->is_open(); }
  [[nodiscard]] int fd() const noexcept { return is_open() ? socket_->fd() : -1; }
  [[nodiscard]] endpoint local_endpoint() const { return options().local_endpoint(); }
  [[nodiscard]] socket_ref options() const { return socket_ref(fd()); }

  void close() noexcept {
    if (socket_ != nullptr) socket_->close();
  }
  [[nodiscard]] unique_fd release() noexcept {
    return socket_ != nullptr ? socket_->release() : unique_fd();
  }

 protected:
  listener(event_loop& loop, socket new_socket)
      : socket_(std::make_unique<listening_socket>(loop, std::move(new_socket))) {}

 private:
  template <class Operation>
  io::detail::request_awaiter<Operation> accept_as(endpoint* peer) noexcept {
    return io::detail::request_awaiter<Operation>(std::in_place, socket_.get(), peer);
  }

  std::unique_ptr<listening_socket> socket_;
};

}  // namespace gyre::net::detail
