// SPDX-License-Identifier: Apache-2.0
// What listeners of all kinds have in common: accepting, and what happens when there is no descriptor
// left for a connection.
#pragma once

#include <gyre/base/timer_operation.hpp>
#include <gyre/base/unique_fd.hpp>
#include <gyre/exec/event_loop.hpp>
#include <gyre/io/detail/open_descriptor.hpp>
#include <gyre/io/detail/request_awaiter.hpp>
#include <gyre/io/request.hpp>
#include <gyre/net/endpoint.hpp>
#include <gyre/net/socket.hpp>
#include <gyre/net/tcp_stream.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>

namespace gyre::net::detail {

class accepting_connection;

/// A listening socket, and a descriptor kept in reserve: when there is no other left, connections are
/// accepted with it and closed, so that their clients learn it and the loop need not look at them
/// again and again.
class listening final : public io::detail::open_descriptor {
 public:
  listening(event_loop& loop, socket listener);
  ~listening() { close(); }

  void close() noexcept;
  [[nodiscard]] unique_fd release() noexcept;

  /// There is no descriptor, or no memory, for a connection: refuses those that wait, if it can.
  void refuse_all(int error) noexcept;
  /// Notes that a connection was closed because the loop could not serve it.
  void note_refused(std::error_code why) noexcept;
  std::uint64_t refused() const noexcept { return refused_; }

  /// Lets an accept try again when some time has passed, each time more.
  void begin_pause(accepting_connection& waits) noexcept;
  /// Who waited for that, or null.
  accepting_connection* end_pause() noexcept;
  bool pausing() const noexcept { return retrying_ != nullptr; }
  /// A connection was accepted: the next pause is a short one.
  void forget_pauses() noexcept { pause_ = {}; }

 private:
  void report_once(const char* why) noexcept;
  bool refuse_one() noexcept;

  unique_fd reserve_;
  std::uint64_t refused_ = 0;
  bool told_ = false;
  accepting_connection* retrying_ = nullptr;
  std::chrono::milliseconds pause_{};
};

/// accept(2) as an Operation. Being out of descriptors does not end it.
class accepting_connection : public io::detail::single_request<io::accept_request> {
 public:
  static constexpr const char* name = "gyre::net: accept";

  accepting_connection(io::detail::open_descriptor* on, function report, endpoint* peer_to) noexcept
      : single_request(on, report), peer_to_(peer_to) {}

  listening& listener() const noexcept { return static_cast<listening&>(*descriptor()); }
  bool busy() const noexcept { return single_request::busy() || listener().pausing(); }
  std::optional<io::result> begin() noexcept;
  std::optional<io::result> advance(io::result made) noexcept;
  std::optional<io::result> cancel() noexcept;

  /// The accepted socket, whose address goes where it was asked for.
  socket take(io::result made) noexcept;

 protected:
  endpoint* peer_to_;

 private:
  struct retry_timer : timer_operation {
    explicit retry_timer(accepting_connection& of) noexcept
        : timer_operation(&on_expiry), self(of) {}
    accepting_connection& self;
  };
  static void on_expiry(timer_operation& expired);

  friend listening;
  retry_timer retry_{*this};
};

struct accepting_socket : accepting_connection {
  using value_type = socket;
  using accepting_connection::accepting_connection;
  accepting_socket(const accepting_socket& other, function report) noexcept
      : accepting_connection(other.descriptor(), report, other.peer_to_) {}
  socket value(io::result made) noexcept { return take(made); }
};

template <class Stream>
struct accepting : accepting_connection {
  using value_type = Stream;
  using accepting_connection::accepting_connection;
  accepting(const accepting& other, function report) noexcept
      : accepting_connection(other.descriptor(), report, other.peer_to_), home_(other.home_) {}

  std::optional<io::result> begin() noexcept {
    home_ = &descriptor()->loop();
    return attach(accepting_connection::begin());
  }
  std::optional<io::result> advance(io::result made) noexcept {
    return attach(accepting_connection::advance(made));
  }
  Stream value(io::result made) {
    return stream_ ? std::move(*stream_) : Stream(*home_, take(made));
  }

 private:
  // A connection that the loop cannot serve, for want of memory or of watches, is closed and the next
  // one accepted: an error would end the coroutine that accepts, and with it most servers.
  std::optional<io::result> attach(std::optional<io::result> accepted) noexcept {
    while (accepted && *accepted) {
      try {
        stream_.emplace(*home_, take(*accepted));
        return accepted;
      } catch (...) {
        listener().note_refused(io::detail::current_error());
      }
      accepted = accepting_connection::begin();
    }
    return accepted;
  }

  event_loop* home_ = nullptr;  // the listener may be closed when the coroutine goes on
  std::optional<Stream> stream_;
};

/// What tcp_listener and unix_listener are made of.
template <class Stream>
class listener {
 public:
  listener(listener&&) noexcept = default;
  listener& operator=(listener&&) noexcept = default;

  /// Waits for a connection and gives it, on the listener's loop; its address is written to `peer`.
  /// What io::stream says of reading holds for accepting: the forms, who may, how it ends early.
  ///
  /// When the process or the system has no descriptor left (EMFILE, ENFILE) connections that wait are
  /// refused, by closing them: counted by refused(), and said once on stderr. This, or a lack of
  /// memory, does not end it: it tries again after 10 ms, 20 ms and so on up to a second. A connection
  /// that the loop cannot serve (ENOSPC: too many watches; no memory) is refused in the same way, and
  /// the next one accepted. Errors: std::errc::operation_canceled when it is closed, timed_out;
  /// operation_cancelled when the coroutine is asked to stop.
  auto accept() noexcept { return accept_as<accepting<Stream>>(nullptr); }
  auto accept(endpoint& peer) noexcept { return accept_as<accepting<Stream>>(&peer); }
  /// The same, but gives a socket that no loop serves, for a stream on another loop.
  auto accept_socket() noexcept { return accept_as<accepting_socket>(nullptr); }
  auto accept_socket(endpoint& peer) noexcept { return accept_as<accepting_socket>(&peer); }

  /// How many connections were refused for want of a descriptor, a watch or memory.
  [[nodiscard]] std::uint64_t refused() const noexcept { return on_ ? on_->refused() : 0; }
  [[nodiscard]] bool is_open() const noexcept { return on_ != nullptr && on_->is_open(); }
  /// -1 once it is closed.
  [[nodiscard]] int fd() const noexcept { return is_open() ? on_->fd() : -1; }
  /// The address it listens on, with the port that the kernel chose. Throws std::system_error.
  [[nodiscard]] endpoint local_endpoint() const { return options().local_endpoint(); }
  /// To ask for options and to set them; valid until it is closed.
  [[nodiscard]] socket_ref options() const { return socket_ref(fd()); }

  /// Listens no more; connections that wait to be accepted are reset. Who waits gets
  /// std::errc::operation_canceled. Idempotent.
  void close() noexcept {
    if (on_ != nullptr) on_->close();
  }
  /// Gives the descriptor up, otherwise as close().
  [[nodiscard]] unique_fd release() noexcept {
    return on_ != nullptr ? on_->release() : unique_fd();
  }

 protected:
  listener(event_loop& loop, socket listening_socket)
      : on_(std::make_unique<listening>(loop, std::move(listening_socket))) {}

 private:
  template <class Operation>
  io::detail::request_awaiter<Operation> accept_as(endpoint* peer) noexcept {
    return io::detail::request_awaiter<Operation>(std::in_place, on_.get(), peer);
  }

  std::unique_ptr<listening> on_;
};

}  // namespace gyre::net::detail
