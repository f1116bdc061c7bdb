// SPDX-License-Identifier: Apache-2.0
// errc, server_error: errors of the PostgreSQL client, and of the server by their SQLSTATE.
//
//     try {
//       co_await db.execute("insert into account (email) values ($1)", email);
//     } catch (const gyre::postgres::server_error& error) {
//       if (error.code() != gyre::postgres::errc::unique_violation) throw;
//       std::cout << error.constraint() << '\n';  // such as "account_email_key"
//     }
#pragma once

#include <gyre/engines/postgres/server_message.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>

namespace gyre::postgres {

/// Errors of a client, of its calls, and those that a server sends.
enum class errc {
  // The next codes are errors of the connection.
  connection_lost = 1,    ///< the statement may have been executed; std::errc::connection_reset
  no_reply = 2,           ///< nothing came within `reply_timeout`; std::errc::timed_out
  bad_message = 3,        ///< the server does not speak the protocol; std::errc::protocol_error
  message_too_large = 4,  ///< a message beyond `max_message`; std::errc::message_size
  unsupported_authentication = 5,  ///< a method that the client does not have, or does not allow
  server_not_authenticated = 6,    ///< the server did not prove that it knows the password
  tls_refused = 7,                 ///< the server offers no TLS
  channel_binding_missing = 8,     ///< the server offers no SCRAM-SHA-256-PLUS
  server_too_old = 9,              ///< std::errc::operation_not_supported

  // The next codes are errors of calls.
  argument_count = 16,    ///< more or fewer arguments than the statement has parameters
  unsupported_type = 17,  ///< the C++ type cannot be sent or read as this type of PostgreSQL
  out_of_range = 18,     ///< std::errc::result_out_of_range; also: the conversion would lose digits
  null_value = 19,       ///< the value is NULL, and the type no std::optional
  malformed_value = 20,  ///< bytes of a column that are no value of its type
  column_count = 21,     ///< the row type has more or fewer columns than the result
  no_rows = 22,          ///< the result has no row, and the call needs one
  too_many_rows = 23,    ///< the result has several rows, and the call needs one
  result_too_large = 24,     ///< a result beyond `max_result`; std::errc::message_size
  statement_timeout = 25,    ///< the server stopped it after its `timeout`; std::errc::timed_out
  transaction_ended = 26,    ///< the transaction was used after its end
  transaction_aborted = 27,  ///< an earlier error was ignored: the server rolled it back
  commit_unknown = 28,  ///< the reply to COMMIT was lost: the transaction may be committed or not
  not_a_copy = 29,      ///< the statement is not the COPY that the call requires

  // The next codes are errors that the server reports, by SQLSTATE.
  server = 64,                  ///< any that is not named below; see server_error::sqlstate()
  connection_exception,         ///< 08…
  feature_not_supported,        ///< 0A000
  data_exception,               ///< 22…
  string_too_long,              ///< 22001
  numeric_out_of_range,         ///< 22003
  datetime_out_of_range,        ///< 22008
  division_by_zero,             ///< 22012
  invalid_text,                 ///< 22P02
  integrity_violation,          ///< 23…
  not_null_violation,           ///< 23502
  foreign_key_violation,        ///< 23503
  unique_violation,             ///< 23505
  check_violation,              ///< 23514
  exclusion_violation,          ///< 23P01
  invalid_transaction_state,    ///< 25…
  read_only_transaction,        ///< 25006
  in_failed_transaction,        ///< 25P02
  idle_in_transaction_timeout,  ///< 25P03
  invalid_statement_name,       ///< 26000
  invalid_authorization,        ///< 28000; std::errc::permission_denied
  invalid_password,             ///< 28P01; std::errc::permission_denied
  undefined_database,           ///< 3D000
  serialization_failure,        ///< 40001; std::errc::resource_unavailable_try_again
  deadlock_detected,            ///< 40P01; std::errc::resource_unavailable_try_again
  transaction_rollback,         ///< 40…
  syntax_or_access_violation,   ///< 42…
  insufficient_privilege,       ///< 42501; std::errc::permission_denied
  syntax_error,                 ///< 42601
  undefined_column,             ///< 42703
  undefined_function,           ///< 42883
  undefined_table,              ///< 42P01
  indeterminate_datatype,       ///< 42P18: the server cannot infer a parameter's type
  duplicate_table,              ///< 42P07
  duplicate_object,             ///< 42710
  insufficient_resources,       ///< 53…
  disk_full,                    ///< 53100; std::errc::no_space_on_device
  out_of_memory,                ///< 53200; std::errc::not_enough_memory
  too_many_connections,         ///< 53300; std::errc::resource_unavailable_try_again
  object_in_use,                ///< 55006
  lock_not_available,           ///< 55P03; std::errc::resource_unavailable_try_again
  undefined_file,               ///< 58P01
  query_canceled,               ///< 57014
  admin_shutdown,               ///< 57P01; std::errc::connection_reset
  crash_shutdown,               ///< 57P02; std::errc::connection_reset
  cannot_connect_now,           ///< 57P03; std::errc::resource_unavailable_try_again
  raised_exception,             ///< P0001: RAISE in a function
  internal_error,               ///< XX…
};

/// The category of errc, "gyre.postgres". Any thread.
const std::error_category& postgres_category() noexcept;
std::error_code make_error_code(errc code) noexcept;

/// The code of an SQLSTATE: the one of its five characters, else the one of its class, which are
/// the first two, else errc::server.
errc errc_of(std::string_view sqlstate) noexcept;

/// An error that the server has sent. The connection remains of use, unless severity() is FATAL or
/// PANIC.
///
/// what() has the message and the beginning of the statement, which hold no arguments; detail() and
/// other fields may show values of rows.
class server_error : public std::system_error {
 public:
  /// `statement`: its text, of which what() has the beginning.
  explicit server_error(server_message message, std::string_view statement = {});
  /// Makes an error with another code than that of the SQLSTATE.
  server_error(errc code, server_message message, std::string_view statement);

  /// Returns the code of five characters.
  [[nodiscard]] const std::string& sqlstate() const noexcept { return message_.sqlstate; }
  [[nodiscard]] const std::string& severity() const noexcept { return message_.severity; }
  [[nodiscard]] const std::string& detail() const noexcept { return message_.detail; }
  [[nodiscard]] const std::string& hint() const noexcept { return message_.hint; }
  [[nodiscard]] const std::string& schema() const noexcept { return message_.schema; }
  [[nodiscard]] const std::string& table() const noexcept { return message_.table; }
  [[nodiscard]] const std::string& column() const noexcept { return message_.column; }
  [[nodiscard]] const std::string& constraint() const noexcept { return message_.constraint; }
  /// The character of the statement, counted from 1, that the error is about; 0: none.
  [[nodiscard]] std::uint32_t position() const noexcept { return message_.position; }
  [[nodiscard]] const server_message& message() const noexcept { return message_; }

 private:
  server_message message_;
};

namespace detail {

/// The beginning of a statement in one line, for messages.
std::string excerpt_of(std::string_view statement);

/// Throws std::system_error.
[[noreturn, gnu::cold]] void throw_error(errc code, const std::string& message);

}  // namespace detail

}  // namespace gyre::postgres

template <>
struct std::is_error_code_enum<gyre::postgres::errc> : std::true_type {};
