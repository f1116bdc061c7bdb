// SPDX-License-Identifier: Apache-2.0
// pipeline: one connection to a server of requests and replies, which the coroutines of a loop
// share without waiting for each other's replies.
//
// | state      | admit()           | connected  | login done | connection ends | close() |
// |------------|-------------------|------------|------------|-----------------|---------|
// | idle       | connecting, waits | -          | -          | -               | closed  |
// | connecting | waits             | logging_in | -          | connecting (1)  | closed  |
// | logging_in | waits             | -          | ready (2)  | connecting (1)  | closed  |
// | ready      | admits            | -          | -          | connecting (3)  | closed  |
// | closed     | fails             | -          | -          | -               | -       |
//
// 1. A failed attempt. After `max_connect_attempts` in a row the calls that wait fail, and the
//    state is idle unless needs_connection().
// 2. A refused login fails the calls that wait; the state is idle. If needs_connection(), the next
//    attempt follows a second later.
// 3. The requests in flight fail.
//
// With `is_single_use` the state is closed after 3, and instead of idle.
#pragma once

#include <gyre/base/clock.hpp>
#include <gyre/base/duration.hpp>
#include <gyre/exec/detail/posted_flush.hpp>
#include <gyre/exec/event_loop.hpp>
#include <gyre/exec/timer.hpp>
#include <gyre/io/buffer.hpp>
#include <gyre/io/error.hpp>
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
#include <string_view>
#include <system_error>
#include <vector>

namespace gyre::engines::detail {

/// A request whose reply has not come.
class pending_reply {
 public:
  pending_reply() noexcept = default;
  pending_reply& operator=(pending_reply&&) = delete;

  /// Called when the connection has ended before the reply. Without `was_sent` no byte of the
  /// request has left this process.
  virtual void lose(const std::exception_ptr& error, bool was_sent) noexcept = 0;

 protected:
  ~pending_reply() = default;
};

/// Options of a pipeline, which its protocol sets.
struct pipeline_options {
  const char* name = "";                ///< for messages, such as "gyre::redis::client"
  std::error_code lost = {};            ///< the protocol's error of a connection that has ended
  std::error_code no_reply = {};        ///< its error after `login_timeout` and `reply_timeout`
  std::size_t max_in_flight = 1024;     ///< admitted requests
  std::size_t max_waiting = 64 * 1024;  ///< calls that wait for admission
  std::size_t max_connect_attempts = 5;
  /// The times in which no byte comes, until the connection is given up: during the login, and
  /// while a reply is due. Each is noticed late by up to half of its length.
  duration login_timeout = std::chrono::seconds{5};
  duration reply_timeout = std::chrono::seconds{10};
  /// The time in which nothing comes and no reply is due, until ping().
  duration ping_interval = std::chrono::seconds{30};
  /// Whether the end of the connection, or the failure of all attempts, closes the pipeline: calls
  /// then fail with that error.
  bool is_single_use = false;
  /// Whether requests wait for others, to be sent together, while the server has four times as many
  /// to reply to. For servers that take up one request after the other.
  bool gathers = false;
};

/// Base of a client's core, which speaks the protocol. A request is written by a coroutine, and its
/// reply read within the connection's callback: no coroutine of its own reads or writes.
///
/// Thread-safety: the loop's thread.
/// Lifetime: shared by the client and its calls.
class pipeline : public std::enable_shared_from_this<pipeline> {
 public:
  pipeline(event_loop& loop, net::host_port server, net::tcp_client_options client_options,
           const pipeline_options& options);
  pipeline& operator=(pipeline&&) = delete;
  virtual ~pipeline() = default;

  event_loop& loop() const noexcept { return loop_; }
  const net::host_port& server() const noexcept { return server_; }
  std::size_t in_flight() const noexcept { return count_; }
  /// Whether the login is done, and the connection has not ended.
  bool is_ready() const noexcept { return state_ == state::ready; }
  bool is_closed() const noexcept { return state_ == state::closed; }
  /// The number of calls that wait in admit().
  std::size_t waiting() const noexcept { return waiting_calls_; }
  /// Returns the names of the client and the server, for messages.
  std::string describe() const;

  // --- For calls ---

  /// Whether a request may be appended at once. If so, it counts as admitted.
  [[nodiscard]] bool try_admit() noexcept;
  /// Waits until a request may be appended; connects if need be. Errors: those of connecting and of
  /// the login; io::errc::waiting_limit, closed, not_open; operation_cancelled.
  [[nodiscard]] task<> admit();
  /// The output, to which one request is appended after it was admitted.
  io::buffer& output() noexcept { return output_; }
  /// Returns the end of the output, counted from the connection's first byte.
  std::uint64_t position() const noexcept { return flushed_bytes_ + output_.size(); }
  /// Makes memory for entries, so that to enter them cannot fail. Throws std::bad_alloc.
  void reserve_entries(std::size_t count);
  /// Enters an admitted request, which begins at `position`; null if no caller waits for the reply.
  /// Returns its number: requests are numbered in the order in which they are entered. Calls
  /// request_flush().
  std::uint64_t enter_request(pending_reply* request, std::uint64_t position) noexcept;
  /// Gives an admission back that was not used.
  void cancel_admission() noexcept { admissions_.release(); }
  /// The reply to the request with this number goes to `successor`; null: it is dropped. No effect
  /// on a request that has ended.
  void abandon(std::uint64_t number, pending_reply* successor = nullptr) noexcept;
  /// Ends the connection, for example because of bytes that are not a reply. The requests in flight
  /// fail with `error` if that is of the protocol's category, or else with pipeline_options::lost;
  /// `text`: what the server has said, for the message.
  void fail(std::error_code error, std::string_view text = {}) noexcept;
  /// Closes; requests and calls that wait fail with io::errc::closed. Idempotent.
  void close() noexcept;

 protected:
  // --- The protocol. Called on the loop, within the connection's callbacks ---

  /// Called when a connection has begun: forgets the earlier one, and appends the requests of the
  /// login, which ends with finish_login().
  virtual void begin_login() = 0;
  /// Consumes complete messages, and completes the requests at front().
  virtual void read_input(io::input& input) = 0;
  /// Appends a request that does nothing, whose reply shows that the server lives.
  virtual void ping() = 0;
  /// Called when the connection has ended, and its requests have failed.
  virtual void connection_ended() noexcept {}
  /// Whether the pipeline stays connected even if no call needs that.
  virtual bool needs_connection() const noexcept { return false; }
  /// Whether a byte from the server is due, so that `reply_timeout` counts. Called while requests
  /// are in flight.
  virtual bool is_reply_due() const noexcept { return true; }

  // --- For the protocol ---

  /// Connects unless it is connected or about to be. Throws the error of a login that was refused
  /// shortly before.
  void connect();
  /// Returns the request whose reply comes next; std::nullopt if no reply is due.
  std::optional<pending_reply*> front() const noexcept;
  void pop_front() noexcept;
  /// Starts the time to reply again, for example because is_reply_due() was false until now.
  void restart_reply_timeout() noexcept { note_input(); }
  /// Called by begin_login() or later, when the login has ended: admits calls, or, with an error,
  /// fails them with it.
  void finish_login(std::exception_ptr error);
  /// Enters a request of the protocol itself, which needs no admission. Throws std::bad_alloc.
  std::uint64_t enter_internal_request(pending_reply* request, std::uint64_t position);
  /// Flushes the output after the tasks that wait in the loop now, or at once if there is much of
  /// it. The bytes belong to a request that was entered before.
  void request_flush() noexcept;
  /// Waits until the kernel has taken most of the output. Returns also when the connection has
  /// ended. Errors: operation_cancelled.
  [[nodiscard]] task<> wait_writable();
  /// Until lift_fence(), or the end of the connection, no request is admitted.
  void fence() noexcept { unfenced_.reset(); }
  void lift_fence() noexcept { unfenced_.set(); }
  /// The present connection, or null.
  net::tcp_connection* connection() noexcept { return client_->connection(); }

 private:
  enum class state : std::uint8_t { idle, connecting, logging_in, ready, closed };
  struct entry {
    pending_reply* request;  // null: no caller waits for the reply
    std::uint64_t position;
    bool is_admitted;
  };
  /// The event for which calls wait together: a connection, or the reason why there is none.
  struct attempt {
    manual_reset_event end_event;
    std::exception_ptr error;
  };

  bool can_append() const noexcept;
  bool may_gather() const noexcept;
  void post_flush() noexcept;
  [[noreturn, gnu::cold]] void throw_closed(io::errc code) const;
  std::uint64_t add_entry(const entry& new_entry) noexcept;
  entry& at(std::size_t index) noexcept;
  void flush() noexcept;
  void drop_output() noexcept;

  void on_connected();
  void on_input(io::input& input);
  void on_closed(std::error_code reason);
  void on_attempt_failed(std::exception_ptr error);
  void end_attempt(std::exception_ptr error);
  void lose_entries(const std::exception_ptr& error) noexcept;
  // Closes the client. Later calls fail with `later_error`; with io::errc::not_open if it is null.
  void close_with(const std::exception_ptr& error, std::exception_ptr later_error) noexcept;
  std::exception_ptr error_of_end(std::error_code reason) const noexcept;

  void note_input() noexcept;
  void retry_refused_login();
  void start_health_timer();
  void check_health();
  bool has_been_silent_for(duration limit) const;

  event_loop& loop_;
  const net::host_port server_;
  const pipeline_options options_;
  state state_ = state::idle;
  std::shared_ptr<attempt> attempt_;
  steady_time earliest_attempt_ = steady_time::min();  // the end of the pause after a refused login
  std::exception_ptr refusal_;
  std::size_t failed_attempts_ = 0;  // how many attempts in a row have failed
  // Thrown by calls after the end; null: they throw io::errc::not_open.
  std::exception_ptr end_error_;
  std::error_code end_reason_;  // the reason for which fail() ends the connection
  std::string end_text_;
  io::buffer output_;
  std::uint64_t flushed_bytes_ = 0;  // bytes that were passed to the connection
  std::vector<entry> entries_;
  std::size_t first_ = 0;
  std::size_t count_ = 0;
  std::uint64_t first_number_ = 0;  // the number of the first entry
  semaphore admissions_;
  manual_reset_event write_event_{true};
  manual_reset_event unfenced_{true};
  std::size_t waiting_calls_ = 0;
  steady_time last_input_ = steady_time::min();
  bool is_suspect_ = false;  // whether the last check found too long a silence
  timer health_timer_;
  timer retry_timer_;  // active after a refused login
  gyre::detail::posted_flush posted_flush_;
  std::size_t unsent_count_ = 0;     // entries whose requests were not passed to the connection
  bool is_flush_requested_ = false;  // whether output must not wait for more requests
  std::optional<net::tcp_client> client_;
};

}  // namespace gyre::engines::detail
