// SPDX-License-Identifier: Apache-2.0
// connection_core: one connection to PostgreSQL, with its login, the statements in flight, and
// those that it keeps prepared.
//
// Each request ends with a Sync, so that an error concerns one caller, and each reply with
// ReadyForQuery. A statement without a waiting caller is cancelled by CancelRequest:
//
// | state   | first in flight is unwanted | delay over (1) | no request left | request's end (2) |
// |---------|-----------------------------|----------------|-----------------|-------------------|
// | none    | delayed, fenced             | -              | -               | -                 |
// | delayed | -                           | sent or due    | none, unfenced  | -                 |
// | due     | sent (1)                    | -              | none, unfenced  | -                 |
// | sent    | -                           | -              | sent            | none (3)          |
//
// 1. Sent only if all requests in flight are unwanted, as the server cancels the statement that it
//    executes when the signal comes. Else due: the requests of other callers get their replies
//    first.
// 2. The server has closed the connection of the cancel request, so that its signal is on its way,
//    and comes before any request that is sent later.
// 3. Unfenced when no unwanted request is left. If that takes longer than `cancel_timeout`, or the
//    request cannot be delivered, the connection is given up.
#pragma once

#include <gyre/engines/detail/pipeline.hpp>
#include <gyre/engines/postgres/detail/backend_message.hpp>
#include <gyre/engines/postgres/detail/cancel_request.hpp>
#include <gyre/engines/postgres/detail/connection_options.hpp>
#include <gyre/engines/postgres/detail/login.hpp>
#include <gyre/engines/postgres/detail/message_writer.hpp>
#include <gyre/engines/postgres/detail/prepared_statement.hpp>
#include <gyre/engines/postgres/detail/statement_cache.hpp>
#include <gyre/engines/postgres/detail/statement_request.hpp>
#include <gyre/engines/postgres/server_message.hpp>
#include <gyre/exec/event_loop.hpp>
#include <gyre/exec/timer.hpp>
#include <gyre/io/buffer.hpp>
#include <gyre/io/input.hpp>
#include <gyre/net/host_port.hpp>
#include <gyre/sync/event.hpp>
#include <gyre/task/task.hpp>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gyre::postgres::detail {

struct execute_options {
  /// Statements without parameters that the server executes before, in the same transaction; an
  /// error of one is that of the request. They are parsed each time.
  std::span<const std::string_view> prefix = {};
  /// The portal, which remains until the end of the transaction; empty: the unnamed one.
  std::string_view portal = {};
  /// Rows after which the portal is suspended; zero: all rows.
  std::uint32_t max_rows = 0;
};

/// Whether the server no longer knows a prepared statement, or cannot execute it any more because
/// its tables have changed: it is of use after it was prepared again.
bool is_stale(const server_message& error) noexcept;

/// Thread-safety: the loop's thread.
/// Lifetime: as pipeline. A request must outlive its time in flight; call abandon() before it dies.
/// Errors: functions that append a request throw std::bad_alloc; std::invalid_argument for a text
/// with a zero byte; std::length_error for more than 1 GiB. The admission is then given back.
class connection_core final : public engines::detail::pipeline {
 public:
  using shared = std::shared_ptr<connection_core>;
  using shared_statement = statement_cache::shared_statement;

  /// Throws std::invalid_argument for options that make no sense.
  connection_core(event_loop& loop, const net::host_port& server,
                  const connection_options& options);
  ~connection_core() override;

  /// Returns the number of the present connection, counted from 1; 0 until the login has succeeded.
  /// A session compares the number, so that the session never continues on another connection.
  std::uint64_t connection_number() const noexcept { return is_ready() ? logins_ : 0; }
  /// Returns the status of the last reply.
  transaction_status status() const noexcept { return status_; }
  /// Whether new requests wait until an unwanted one has ended.
  bool is_fenced() const noexcept { return cancel_ != cancel_state::none; }
  /// Returns a setting that the server reports, such as "server_version"; empty if the server has
  /// not reported the setting.
  std::string_view parameter(std::string_view name) const noexcept;
  /// Stays connected even without calls; after a refused login it tries again, every
  /// connection_options::longest_delay or second.
  void set_needed(bool is_needed) noexcept { is_needed_ = is_needed; }
  void connect_if_needed() {
    if (is_needed_) connect();
  }

  // --- Prepared statements ---

  /// Returns null if the present connection has not prepared the statement, or has dropped it.
  /// Counts as a use.
  shared_statement find_prepared(std::string_view text) noexcept { return statements_.find(text); }
  /// Finds or prepares a statement; calls for the same text wait for one preparation. Hold the
  /// result until the statement was executed, so that the statement is not dropped. Errors:
  /// server_error; those of admit(); errc::connection_lost.
  static task<shared_statement> prepare(shared self, std::string_view text);
  /// Drops a statement, for example because of is_stale().
  void forget_prepared(const prepared_statement& statement);

  // --- Requests. Each needs an admission: try_admit(), or admit() ---

  /// Executes a statement of this connection. `write(output)` appends the formats and values of the
  /// parameters, as a Bind message has them: the number of formats and their codes, the number of
  /// parameters, and of each its size (-1: null) and its bytes. An exception of `write` is passed
  /// on.
  template <class Write>
  void execute(statement_request& request, const prepared_statement& statement, Write&& write,
               const execute_options& options = {}) {
    append(request, options.prefix.size(), [&](message_writer& writer) {
      for (const std::string_view statement_text : options.prefix) {
        writer.parse({}, statement_text);
        writer.bind_unnamed();
        writer.execute({}, 0);
      }
      writer.bind(options.portal, statement.name(), write, statement.result_formats());
      writer.execute(options.portal, options.max_rows);
      writer.sync();
    });
  }
  /// Fetches further rows of a portal.
  void execute_portal(statement_request& request, std::string_view portal, std::uint32_t max_rows);
  void close_portal(statement_request& request, std::string_view portal);
  /// Executes one or more statements without parameters ("simple query"). Rows come as text.
  void query(statement_request& request, std::string_view script);
  /// Without an admission, for connection_observer::on_login(). An error ends the connection.
  void append_internal_script(std::string_view script);

  /// Nobody waits for the request any more: its reply is dropped, and the statement is cancelled if
  /// it runs on. No effect unless it is in flight.
  void abandon(statement_request& request) noexcept;
  /// Cancels the statement, whose request remains in flight. No effect unless it is in flight.
  void cancel(statement_request& request) noexcept;

  // --- Batches: executions that are appended in pieces, and share one Sync ---

  /// Begins a request, which needs an admission. Until it is ended no other is admitted, and no
  /// reply is due. `prefix`: as in execute_options. An exception leaves the admission.
  void begin_batch(statement_request& request, std::span<const std::string_view> prefix);
  /// Appends messages of Bind and Execute. The caller waits for writable() now and then. No effect
  /// unless the request is an open batch, as after the end of the connection; so do the next two.
  void append_to_batch(const statement_request& request, std::span<const std::byte> messages);
  /// Ends the request with its Sync.
  void end_batch(const statement_request& request);
  /// Ends the request with a statement that the server refuses, so that nothing of it takes effect,
  /// and its Sync.
  void fail_batch(const statement_request& request);

  // --- COPY, of a request in flight ---

  /// Appends data of a COPY, after on_copy_in(). The caller waits for writable() now and then,
  /// because nothing else bounds the output.
  void copy_data(std::span<const std::byte> bytes);
  void copy_done();
  void copy_fail(std::string_view reason);
  /// Waits until the kernel has taken most of the output, or the connection has ended.
  [[nodiscard]] task<> writable() { return wait_writable(); }
  /// Back-pressure: nothing is read from the server, and its replies are not due.
  void pause_reading() noexcept;
  void resume_reading() noexcept;

 private:
  enum class cancel_state : std::uint8_t { none, delayed, due, sent };
  enum class copy_state : std::uint8_t { none, in, out };

  class preparation;
  class own_request;
  class dropped_request;

  template <class Write>
  void append(statement_request& request, std::size_t prefix, Write write);
  template <class Write>
  void append_unadmitted(statement_request& request, Write write);
  template <class Write>
  std::uint64_t write_request(Write write);
  void start_flight(statement_request& request, std::size_t prefix, std::uint64_t number) noexcept;

  void begin_login() override;
  void read_input(io::input& input) override;
  void ping() override;
  void connection_ended() noexcept override;
  bool needs_connection() const noexcept override { return is_needed_; }
  bool is_reply_due() const noexcept override;

  // Returns whether the statement is prepared, or is being prepared.
  bool knows(std::string_view text) noexcept;
  std::shared_ptr<preparation> start_preparation(std::string_view text);

  // These functions return false for a message that is not valid in the present state.
  bool handle_message(const backend_message& message);
  bool take_notice(std::span<const std::byte> body);
  bool take_notification(std::span<const std::byte> body);
  bool take_setting(std::span<const std::byte> body);
  bool take_error(std::span<const std::byte> body);
  bool take_in_login(const backend_message& message);
  bool take_key(std::span<const std::byte> body);
  bool complete_login(std::span<const std::byte> body);
  void refuse_login(const server_message& error);
  void finish_login_with(std::exception_ptr error);
  bool take_reply(const backend_message& message, statement_request& request);
  bool take_row(std::span<const std::byte> body, statement_request& request) const;
  static bool take_tag(std::span<const std::byte> body, statement_request& request);
  static bool take_parameters(std::span<const std::byte> body, statement_request& request);
  static bool take_columns(std::span<const std::byte> body, statement_request& request);
  bool take_copy_in(statement_request& request);
  bool take_ready(std::span<const std::byte> body, statement_request& request);
  void give_up(errc error, std::string_view text = {}) noexcept;

  void close_batch() noexcept;
  void unfence() noexcept;
  void try_again() noexcept;
  bool is_unwanted(const statement_request* request) const noexcept;
  bool first_is_unwanted() noexcept;
  void update_cancelling() noexcept;
  void end_delay();
  void send_cancel_request() noexcept;
  void end_cancel_request(bool was_delivered);

  const connection_options options_;
  std::optional<login> login_;
  bool is_logged_in_ = false;
  bool has_failed_ = false;  // whether the connection is about to end
  bool is_paused_ = false;
  bool is_needed_ = false;
  std::uint64_t logins_ = 0;
  transaction_status status_ = transaction_status::idle;
  std::int32_t process_ = 0;
  std::vector<std::byte> key_;
  std::map<std::string, std::string, std::less<>> settings_;

  statement_cache statements_;
  std::uint64_t names_ = 0;
  std::vector<std::string> dropped_statements_;  // names of statements that the server still has
  std::map<std::string, std::shared_ptr<preparation>, std::less<>> preparations_;

  std::unique_ptr<own_request> own_request_;
  std::unique_ptr<dropped_request> dropped_request_;
  copy_state copy_ = copy_state::none;  // the state of the COPY of the first request in flight
  // The last request in flight if it is a batch without its Sync; otherwise null.
  const statement_request* open_batch_ = nullptr;
  std::size_t awaited_requests_ = 0;  // how many requests in flight have a waiting caller
  cancel_state cancel_ = cancel_state::none;
  timer cancel_timer_;
  timer retry_timer_;  // active after a refused login
  std::optional<cancel_request> cancel_request_;
};

template <class Write>
std::uint64_t connection_core::write_request(Write write) {
  reserve_entries(1);
  io::buffer& bytes = output();
  const std::size_t size = bytes.size();
  const std::uint64_t begin_position = position();
  try {
    message_writer writer(bytes);
    write(writer);
  } catch (...) {
    bytes.drop_last(bytes.size() - size);
    throw;
  }
  return begin_position;
}

template <class Write>
void connection_core::append(statement_request& request, std::size_t prefix, Write write) {
  std::uint64_t begin_position = 0;
  try {
    begin_position = write_request(write);
  } catch (...) {
    cancel_admission();
    throw;
  }
  start_flight(request, prefix, enter_request(&request, begin_position));
}

}  // namespace gyre::postgres::detail
