// SPDX-License-Identifier: Apache-2.0
// server_link: the connection of a NATS client to one server of several, and its replacement.
//
// | state      | connect()  | login done | connection ends | attempts fail  | close() |
// |------------|------------|------------|-----------------|----------------|---------|
// | idle       | connecting | -          | -               | -              | closed  |
// | connecting | -          | ready      | connecting      | idle (1)       | closed  |
// | ready      | -          | -          | connecting      | -              | closed  |
// | closed     | -          | -          | -               | -              | closed  |
//
// 1. The link becomes idle if it was never ready and nothing needs the connection, or if every
//    server has refused the login. Otherwise it continues to connect.
#pragma once

#include <gyre/base/clock.hpp>
#include <gyre/base/detail/splitmix64.hpp>
#include <gyre/base/intrusive_list.hpp>
#include <gyre/base/move_only_function.hpp>
#include <gyre/engines/nats/client_options.hpp>
#include <gyre/engines/nats/detail/login.hpp>
#include <gyre/engines/nats/detail/parser.hpp>
#include <gyre/engines/nats/detail/server_pool.hpp>
#include <gyre/engines/nats/detail/tls_upgrade.hpp>
#include <gyre/engines/nats/notice.hpp>
#include <gyre/engines/nats/server_info.hpp>
#include <gyre/exec/detail/posted_flush.hpp>
#include <gyre/exec/event_loop.hpp>
#include <gyre/exec/timer.hpp>
#include <gyre/io/buffer.hpp>
#include <gyre/io/input.hpp>
#include <gyre/net/tcp_client.hpp>
#include <gyre/sync/event.hpp>
#include <gyre/sync/semaphore.hpp>
#include <gyre/task/task.hpp>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace gyre::nats::detail {

/// Base of a client's core. Calls write to output(), which is sent at the end of the turn; received
/// operations are given to the core within the connection's callback. So no coroutine of its own
/// reads or writes.
///
/// Flights: when requests have filled a send (32 KiB), those that follow wait for more, while
/// replies are due, but not for longer than 400 us. Otherwise all requests would go round together,
/// and the server do nothing while the client works. Other output ends the waiting.
///
/// Thread-safety: the loop's thread.
/// Lifetime: shared by the client and its calls.
class server_link : public std::enable_shared_from_this<server_link> {
 public:
  using notice_handler = move_only_function<void(notice, std::string_view)>;

  /// The name of the class in messages.
  static constexpr const char* client_name = "gyre::nats::client";

  server_link(event_loop& loop, const std::vector<std::string>& servers,
              const client_options& options);
  server_link(const server_link&) = delete;
  server_link& operator=(const server_link&) = delete;
  virtual ~server_link() = default;

  event_loop& loop() const noexcept { return loop_; }
  const client_options& options() const noexcept { return options_; }
  bool is_ready() const noexcept { return state_ == state::ready; }
  bool is_closed() const noexcept { return state_ == state::closed; }
  /// Returns the server of the last login.
  const server_info& server() const noexcept { return info_.server; }
  std::size_t waiting() const noexcept { return waiting_calls_; }
  std::size_t kept_bytes() const noexcept { return kept_output_.size(); }
  std::size_t known_servers() const noexcept { return servers_.size(); }
  std::uint64_t logins() const noexcept { return logins_; }
  /// Returns the names of the client and its server, for messages.
  std::string describe() const;

  /// Waits until the login has succeeded. Errors: those of connecting and of the login;
  /// io::errc::waiting_limit, not_open, wrong_thread.
  [[nodiscard]] task<> wait_until_ready();
  /// Waits as wait_until_ready() does, but also ends if the connection was lost again since.
  [[nodiscard]] task<> log_in();
  /// Whether a message of `size` bytes may be appended at once, since no call waits for that.
  bool may_append(std::size_t size) const noexcept { return in_line_ == 0 && has_room(size); }
  /// Waits until a message of `size` bytes may be appended, in the order of the calls. The next
  /// call has its turn when the permit is released. Errors: as wait_until_ready().
  [[nodiscard]] task<semaphore_permit> wait_for_room(std::size_t size);
  /// Sends PING, and waits for its PONG. Errors: as wait_until_ready(); errc::connection_lost.
  [[nodiscard]] task<> ping();

  /// Connects unless it is connected or about to be. Throws the error of a login that was refused
  /// shortly before.
  void connect();
  /// Returns the output of the connection, or the output that is kept for the next one.
  io::buffer& output() noexcept { return is_ready() ? output_ : kept_output_; }
  /// The output has grown: sends it at the end of the turn, or now if there is much of it.
  void note_output() noexcept;
  /// The output has grown by a request, which may wait for others: see "Flights".
  void note_request() noexcept;
  void close_link() noexcept;
  void set_notice_handler(notice_handler handler);

 protected:
  // --- For the core. Called on the loop, within the connection's callbacks ---

  /// The login has succeeded. Subscribes again by output(); kept output follows.
  virtual void on_ready() = 0;
  virtual void on_message(const operation& delivery) = 0;
  /// The server has sent -ERR; the connection may continue.
  virtual void on_server_error(std::string_view text) = 0;
  /// A connection that was ready has ended.
  virtual void on_lost(const std::exception_ptr& error) noexcept = 0;
  /// No further attempt is made: every server has refused the login.
  virtual void on_refused(const std::exception_ptr& error) noexcept = 0;
  virtual bool needs_connection() const noexcept = 0;
  /// Returns the number of requests whose replies have not come, sent or not.
  virtual std::size_t awaited_replies() const noexcept = 0;

  // --- For the core's use ---

  void report_notice(notice event, std::string_view text);
  /// Ends the connection because of what the server has sent, or has not.
  void fail(std::error_code error);

 private:
  enum class state : std::uint8_t { idle, connecting, ready, closed };
  enum class login_step : std::uint8_t { info, pong, done };
  /// The event for which calls wait together: a connection, or the reason why there is none.
  struct attempt {
    manual_reset_event end_event;
    std::exception_ptr error;
  };
  struct ping_wait : intrusive_list_node {
    ping_wait() noexcept = default;
    ping_wait& operator=(ping_wait&&) = delete;
    ~ping_wait() { unlink(); }

    std::uint64_t number = 0;
    manual_reset_event end_event;
    std::exception_ptr error;
  };
  /// Counts a call that waits, up to `max_waiting`.
  class counted_wait {
   public:
    explicit counted_wait(server_link& link);
    counted_wait& operator=(counted_wait&&) = delete;
    ~counted_wait() { --count_; }

   private:
    std::size_t& count_;
  };

  bool has_room(std::size_t size) const noexcept;
  task<> wait_for_attempt();
  [[noreturn, gnu::cold]] void throw_closed() const;
  void note_growth() noexcept;
  void post_flush() noexcept;
  void flush_turn() noexcept;
  bool must_wait_for_line() noexcept;
  bool may_wait_for_requests() const noexcept;
  void end_wait_for_requests() noexcept;
  void flush() noexcept;
  std::size_t unsent_bytes() noexcept;
  void update_writable() noexcept;
  void append_ping();

  void begin_attempt();
  void schedule_attempt(bool is_first);
  void on_attempt_failed(std::exception_ptr error, bool is_refused);
  void end_attempt(std::exception_ptr error);
  void give_up(const std::exception_ptr& error);

  void on_connected();
  void on_input(io::input& input);
  void on_closed(std::error_code cause);
  void handle_operation(const operation& item);
  void take_info(std::string_view json);
  void take_pong();
  void take_error(std::string_view text);
  void begin_login();
  void end_login();
  void fail_login(std::exception_ptr error, bool is_refused);
  std::exception_ptr error_of(std::error_code code, std::string_view detail) const noexcept;
  std::error_code reason_of_end(std::error_code cause) const noexcept;
  void lose_pings(const std::exception_ptr& error) noexcept;
  void check_health();

  event_loop& loop_;
  const client_options options_;
  server_pool servers_;
  gyre::detail::splitmix64 generator_;
  std::shared_ptr<tls_transport> encryption_;
  state state_ = state::idle;

  // The members below describe the attempts to connect.
  std::shared_ptr<attempt> attempt_;
  std::size_t failures_ = 0;  // how many attempts in a row have failed
  std::size_t refusals_ = 0;  // how many attempts in a row were refused
  std::size_t backoff_ = 0;   // how many delays have passed in a row
  bool was_ready_ = false;    // whether a login has succeeded since the attempts began
  steady_time ready_since_ = steady_time::min();
  steady_time earliest_attempt_ = steady_time::min();  // the earliest time of the next attempt
  std::exception_ptr refusal_;
  timer attempt_timer_;

  // The members below describe the present connection.
  parser parser_;
  login_step step_ = login_step::done;
  info_message info_;
  std::string server_error_;    // the text of the last -ERR message
  std::error_code end_reason_;  // the reason for which the client ends the connection
  std::exception_ptr login_error_;
  bool login_refused_ = false;
  std::uint64_t logins_ = 0;
  timer login_timer_;
  timer health_timer_;
  std::size_t silent_intervals_ = 0;
  std::uint64_t pings_sent_ = 0;
  std::uint64_t pongs_received_ = 0;
  intrusive_list<ping_wait> ping_waits_;

  // The members below hold the output, and order the calls that wait for room in it.
  io::buffer output_;
  io::buffer kept_output_;
  manual_reset_event write_event_{true};
  semaphore line_{1};  // admits one waiting call at a time
  std::size_t in_line_ = 0;
  std::size_t waiting_calls_ = 0;
  gyre::detail::posted_flush posted_flush_;
  std::uint64_t appended_pieces_ = 0;  // counts the pieces that were appended to the output
  std::uint64_t appended_before_ = 0;  // appended_pieces_ at the last posted flush
  std::size_t idle_flushes_ = 0;       // posted flushes in a row without new output
  std::size_t unsent_requests_ = 0;    // the number of requests in the output
  bool has_sent_flight_ = false;       // whether a full flight was sent since the last pause
  bool has_only_requests_ = true;      // whether the output holds nothing but requests
  timer flight_timer_;                 // active while the output waits for more requests
  std::shared_ptr<notice_handler> notice_handler_;  // shared with a running call of the handler
  std::optional<net::tcp_client> client_;
};

}  // namespace gyre::nats::detail
