// SPDX-License-Identifier: Apache-2.0
// pipeline: one connection to a server of requests and replies, which the coroutines of a loop
// share without waiting for each other's replies.
//
// | state      | admit()           | login done | connection ends | attempts fail | close() |
// |------------|-------------------|------------|-----------------|---------------|---------|
// | idle       | connecting, waits | -          | -               | -             | closed  |
// | connecting | waits             | ready      | connecting (1)  | idle (2)      | closed  |
// | ready      | admits            | -          | connecting (1)  | -             | closed  |
// | closed     | fails             | -          | -               | -             | closed  |
//
// 1. Requests in flight fail; the client reconnects by itself. Idle if nobody needs a connection.
// 2. Calls that wait fail; the next one tries again.
#pragma once

#include <gyre/base/clock.hpp>
#include <gyre/base/duration.hpp>
#include <gyre/exec/detail/deferred_release.hpp>
#include <gyre/exec/event_loop.hpp>
#include <gyre/exec/timer.hpp>
#include <gyre/io/buffer.hpp>
#include <gyre/io/input.hpp>
#include <gyre/net/host_port.hpp>
#include <gyre/net/tcp_client.hpp>
#include <gyre/sync/event.hpp>
#include <gyre/sync/semaphore.hpp>
#include <gyre/task/task.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

namespace gyre::engines::detail {

/// A request whose reply has not come.
class pending_reply {
 public:
  pending_reply() noexcept = default;
  pending_reply& operator=(pending_reply&&) = delete;

  /// The connection has ended; `was_sent`: the server may have got the request.
  virtual void lose(const std::exception_ptr& error, bool was_sent) noexcept = 0;

 protected:
  ~pending_reply() = default;
};

struct pipeline_options {
  const char* name = "";                ///< for messages, such as "gyre::redis::client"
  std::error_code lost = {};            ///< the protocol's error of a connection that has ended
  std::error_code no_reply = {};        ///< its error after `reply_timeout`
  std::size_t max_in_flight = 1024;     ///< admitted requests
  std::size_t max_waiting = 64 * 1024;  ///< calls that wait for admission
  std::size_t attempts = 5;             ///< to connect, in a row
  duration reply_timeout =
      std::chrono::seconds{10};  ///< in which nothing comes, while a reply is due
  duration ping_interval = std::chrono::seconds{30};  ///< in which nothing comes, until ping()
};

/// Base of a client's core, which speaks the protocol. A request is written by a coroutine, and its
/// reply read within the connection's callback: no coroutine of its own reads or writes.
///
/// Thread-safety: the loop's thread.
/// Lifetime: shared by the client and its calls.
class pipeline : public std::enable_shared_from_this<pipeline> {
 public:
  pipeline(event_loop& loop, net::host_port server, net::tcp_client_options connecting,
           const pipeline_options& options);
  pipeline& operator=(pipeline&&) = delete;

  event_loop& loop() const noexcept { return loop_; }
  std::size_t in_flight() const noexcept { return count_; }
  bool is_connected() const noexcept { return client_->connected(); }
  /// Calls that wait in admit().
  std::size_t waiting() const noexcept { return waiting_; }
  /// The client and the server, for messages.
  std::string describe() const;

  // --- For calls ---

  /// Whether a request may be appended at once. If so, it counts as admitted.
  [[nodiscard]] bool try_admit() noexcept;
  /// Waits until a request may be appended; connects if need be. Errors: those of connecting and of
  /// the login; io::errc::waiting_limit; io::errc::not_open.
  [[nodiscard]] task<> admit();
  /// The output, to which one request is appended after it was admitted.
  io::buffer& output() noexcept { return output_; }
  /// Where the output ends, counted from the connection's first byte.
  std::uint64_t position() const noexcept { return given_ + output_.size(); }
  /// Makes memory for entries, so that to enter them cannot fail. Throws std::bad_alloc.
  void reserve_entries(std::size_t count);
  /// Enters an admitted request, which begins at `position`; null: nobody waits for the reply.
  /// Flushes the output in a later turn, or now if there is much of it.
  void enter(pending_reply* request, std::uint64_t position) noexcept;
  /// Gives an admission back that was not used.
  void cancel_admission() noexcept { admissions_.release(); }
  /// The reply, when it comes, is dropped.
  void forget(pending_reply& request) noexcept;
  /// Closes; requests and calls that wait fail with `error`. Idempotent.
  void close() noexcept;

 protected:
  virtual ~pipeline() = default;

  // --- The protocol. Called on the loop, within the connection's callbacks ---

  /// A connection has begun: forgets the earlier one, and appends the login's requests. Ends with
  /// finish_login().
  virtual void begin() = 0;
  /// Consumes complete messages, and completes the requests at front().
  virtual void read(io::input& input) = 0;
  /// Appends a request that does nothing, whose reply shows that the server lives.
  virtual void ping() = 0;
  /// Whether it stays connected even if no call needs that.
  virtual bool needs_connection() const noexcept { return false; }

  // --- For the protocol ---

  /// Connects unless it is connected or about to be. Throws the error of a login that was refused
  /// shortly before.
  void connect();
  /// The request whose reply comes next; none: no reply is due.
  std::optional<pending_reply*> front() noexcept;
  void pop_front() noexcept;
  /// The login has ended: without an error, calls are admitted; otherwise they fail with it.
  void finish_login(std::exception_ptr error);
  /// Enters a request of the protocol itself, which needs no admission.
  void enter_own(pending_reply* request, std::uint64_t position);
  /// Ends the connection because of what the server has sent.
  void fail(std::error_code error);

 private:
  enum class state : std::uint8_t { idle, connecting, ready, closed };
  struct entry {
    pending_reply* request;  // null: nobody waits for the reply
    std::uint64_t position;
    bool is_admitted;
  };
  /// The event for which calls wait together: a connection, or the reason why there is none.
  struct attempt {
    manual_reset_event done;
    std::exception_ptr error;
  };

  bool can_append() const noexcept;
  [[noreturn, gnu::cold]] void throw_closed() const;
  void add_entry(const entry& added) noexcept;
  entry& at(std::size_t index) noexcept;
  void flush() noexcept;

  void on_connected();
  void on_input(io::input& input);
  void on_closed(std::error_code why, std::uint64_t bytes_sent);
  void on_connect_failed(std::error_code why, std::size_t attempts);
  void end_attempt(std::exception_ptr error);
  void lose_entries(const std::exception_ptr& error, std::uint64_t sent) noexcept;
  std::exception_ptr error_of_end(std::error_code why) const noexcept;

  void note_input() noexcept;
  void start_health_timer();
  void check_health();

  event_loop& loop_;
  const net::host_port server_;
  const pipeline_options options_;
  const bool has_layer_;
  state state_ = state::idle;
  std::shared_ptr<attempt> attempt_;
  steady_time earliest_attempt_ = steady_time::min();  // after a refused login
  std::exception_ptr refusal_;
  std::error_code end_reason_;  // of the connection, if the client itself ends it
  io::buffer output_;
  std::uint64_t given_ = 0;  // bytes of output that the connection has accepted
  std::vector<entry> entries_;
  std::size_t first_ = 0;
  std::size_t count_ = 0;
  semaphore admissions_;
  manual_reset_event writable_{true};
  std::size_t waiting_ = 0;
  steady_time last_input_ = steady_time::min();
  timer health_timer_;
  gyre::detail::deferred_release<pipeline> flush_;
  std::optional<net::tcp_client> client_;
};

}  // namespace gyre::engines::detail
