// SPDX-License-Identifier: Apache-2.0
// scripted_backend: the I/O backend of a loop in virtual time, which performs requests according to
// the scripts of scripted_peers.
#pragma once

#include <gyre/base/timer_operation.hpp>
#include <gyre/base/unique_fd.hpp>
#include <gyre/exec/event_loop.hpp>
#include <gyre/io/backend.hpp>
#include <gyre/io/received.hpp>
#include <gyre/io/request.hpp>

#include <sys/uio.h>

#include <chrono>
#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace gyre::testing {
class virtual_poller;
}  // namespace gyre::testing

namespace gyre::testing::detail {

class scripted_backend;  // NOLINT(cppcoreguidelines-virtual-class-destructor): it is final

/// The script of a connection, and its state.
///
/// The peer performs its actions until one must wait. Bytes, errors and the end become arrivals,
/// which reads take. One timer ends a pause, and another one completes requests in the loop.
class scripted_connection : public std::enable_shared_from_this<scripted_connection> {
 public:
  struct sent {
    std::string bytes;
    std::size_t read_count = 0;  // how many of the bytes reads have taken
  };
  struct pause {
    std::chrono::nanoseconds duration;
  };
  struct expected {
    std::string text;
  };
  struct failure {
    int error;
  };
  struct end_of_stream {};
  using action = std::variant<sent, pause, expected, failure, end_of_stream>;
  struct short_write {
    std::size_t max_bytes;
  };
  using write_action = std::variant<short_write, pause, failure>;

  scripted_connection(scripted_backend& backend, event_loop& loop) noexcept
      : backend_(backend), loop_(loop) {}
  scripted_connection(const scripted_connection&) = delete;
  scripted_connection& operator=(const scripted_connection&) = delete;

  unique_fd open();
  /// Ends the connection: unregisters it from the loop and the backend.
  void close() noexcept;
  void add(action step);
  void add(write_action step) { write_script_.push_back(step); }

  const std::string& received() const noexcept { return received_bytes_; }
  bool is_done() const noexcept { return script_.empty() && arrivals_.empty(); }
  bool has_seen_end() const noexcept;
  bool has_arrivals() const noexcept { return !arrivals_.empty(); }

  // --- Called by scripted_backend ---
  /// Performs as much of the request as is possible now. Returns EAGAIN if nothing is possible.
  io::result perform(io::request& request, io::receive_memory& memory) noexcept;
  /// Completes the requests of the handle that can be performed.
  void serve();
  void serve_soon() noexcept;
  int fd() const noexcept { return fd_; }
  io::handle* handle = nullptr;

 private:
  template <void (scripted_connection::*Function)()>
  struct timer : timer_operation {
    explicit timer(scripted_connection& connection) noexcept
        : timer_operation([](timer_operation& expired_timer) {
            (static_cast<timer&>(expired_timer).owner.*Function)();
          }),
          owner(connection) {}
    scripted_connection& owner;
  };

  void continue_script();
  void end_pause();
  void end_write_delay();
  void start_timer(timer_operation& op, std::chrono::nanoseconds delay) noexcept;
  bool serve_one(io::request*& slot);
  io::result take_arrival(std::span<std::byte> buffer) noexcept;
  io::result read_whole(io::read_request& request) noexcept;
  io::result receive(io::request& request, io::receive_memory& memory) noexcept;
  io::result scatter(std::span<const iovec> pieces) noexcept;
  io::result write(std::span<const iovec> pieces) noexcept;
  io::result write_all(io::write_request& request) noexcept;
  io::result send_file(io::send_file_request& request) noexcept;
  /// Returns whether a write need not wait. If it must wait, starts the delay.
  bool begin_write() noexcept;

  scripted_backend& backend_;
  event_loop& loop_;
  int fd_ = -1;            // the program's end of a Unix socket that stands for the connection
  unique_fd peer_socket_;  // the other end of that socket
  bool is_pausing_ = false;
  bool is_write_delayed_ = false;
  std::deque<action> script_;
  std::deque<action> arrivals_;  // the bytes, failures and the end that reads can take
  std::deque<write_action> write_script_;
  std::string received_bytes_;
  // The position in received_bytes_ at which the search for the expected text begins.
  std::size_t search_begin_ = 0;
  timer<&scripted_connection::end_pause> pause_{*this};
  timer<&scripted_connection::end_write_delay> write_delay_{*this};
  timer<&scripted_connection::serve> service_{*this};
};

/// The connections of a loop; finds the connection of a handle by its descriptor.
class scripted_backend final : public io::backend {
 public:
  scripted_backend() = default;
  ~scripted_backend() = default;
  /// Returns the backend of a loop, which the first call constructs.
  static scripted_backend& find_or_create(virtual_poller& time);

  void add(scripted_connection& connection) { connections_.push_back(&connection); }
  void remove(scripted_connection& connection) noexcept { std::erase(connections_, &connection); }

  void attach(io::handle& handle) override;
  void detach(io::handle& handle) noexcept override;
  std::optional<io::result> start(io::request& request) noexcept override {
    return start_on(request.target(), request);
  }
  io::result attempt(io::request& request) noexcept override;
  std::size_t share_left(io::direction) const noexcept override { return std::size_t{1} << 20; }
  void charge(std::size_t) noexcept override {}
  std::optional<io::result> cancel(io::request& request) noexcept override;
  std::optional<io::result> start_receiving(io::handle& source,
                                            io::shared_receive_request& request) noexcept override {
    return start_on(source, request);
  }
  void stop_receiving(io::handle& source) noexcept override { source.reader = nullptr; }
  bool has_arrivals(const io::handle& target) noexcept override;
  bool end_receiving_ahead(io::handle& /*source*/) noexcept override { return false; }
  io::receive_memory& memory() noexcept override { return memory_; }

 private:
  scripted_connection* connection_of(const io::handle& handle) const noexcept;
  std::optional<io::result> start_on(io::handle& source, io::request& request) noexcept;

  std::vector<scripted_connection*> connections_;
  io::receive_memory memory_;
};

}  // namespace gyre::testing::detail
