// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/postgres/error.hpp>

#include <gyre/base/detail/enum_category.hpp>

#include <array>
#include <utility>

namespace gyre::postgres {
namespace {

struct known_error {
  errc code;
  // The five characters of a code, or the first two for its class; empty for an error of the
  // client.
  std::string_view sqlstate;
  const char* message;
};

// The known errors, in the order of their codes.
constexpr std::array known_errors = {
    known_error{errc::connection_lost, "", "the connection ended before the reply came"},
    known_error{errc::no_reply, "", "the server did not reply in time"},
    known_error{errc::bad_message, "", "the server does not speak the protocol of PostgreSQL"},
    known_error{errc::message_too_large, "", "a message is longer than max_message"},
    known_error{errc::unsupported_authentication, "",
                "the server demands an authentication that the client does not allow"},
    known_error{errc::server_not_authenticated, "",
                "the server did not prove that it knows the password"},
    known_error{errc::tls_refused, "", "the server offers no TLS"},
    known_error{errc::channel_binding_missing, "", "the server offers no channel binding"},
    known_error{errc::server_too_old, "", "the server is too old for this"},
    known_error{errc::argument_count, "", "the statement has another number of parameters"},
    known_error{errc::unsupported_type, "", "the types do not fit"},
    known_error{errc::out_of_range, "", "the value does not fit into the type"},
    known_error{errc::null_value, "", "the value is NULL: ask for a std::optional"},
    known_error{errc::malformed_value, "", "the bytes are no value of their type"},
    known_error{errc::column_count, "", "the result has another number of columns"},
    known_error{errc::no_rows, "", "there is no row"},
    known_error{errc::too_many_rows, "", "there is more than one row"},
    known_error{errc::result_too_large, "", "the result is larger than max_result"},
    known_error{errc::statement_timeout, "", "the statement exceeded its time limit"},
    known_error{errc::transaction_ended, "", "the transaction has ended"},
    known_error{errc::transaction_aborted, "",
                "the transaction was rolled back, as a statement in it had failed"},
    known_error{errc::commit_unknown, "",
                "the reply to COMMIT was lost: the transaction may be committed or not"},
    known_error{errc::not_a_copy, "", "the statement is no COPY of this direction"},
    known_error{errc::server, "", "the server sent an error"},
    known_error{errc::connection_exception, "08", "connection exception"},
    known_error{errc::feature_not_supported, "0A000", "feature not supported"},
    known_error{errc::data_exception, "22", "data exception"},
    known_error{errc::string_too_long, "22001", "the text is too long for its column"},
    known_error{errc::numeric_out_of_range, "22003", "the number is out of range"},
    known_error{errc::datetime_out_of_range, "22008", "the time is out of range"},
    known_error{errc::division_by_zero, "22012", "division by zero"},
    known_error{errc::invalid_text, "22P02", "the text is no value of its type"},
    known_error{errc::integrity_violation, "23", "a constraint is violated"},
    known_error{errc::not_null_violation, "23502", "a not-null constraint is violated"},
    known_error{errc::foreign_key_violation, "23503", "a foreign key is violated"},
    known_error{errc::unique_violation, "23505", "a unique constraint is violated"},
    known_error{errc::check_violation, "23514", "a check constraint is violated"},
    known_error{errc::exclusion_violation, "23P01", "an exclusion constraint is violated"},
    known_error{errc::invalid_transaction_state, "25", "invalid transaction state"},
    known_error{errc::read_only_transaction, "25006", "the transaction is read-only"},
    known_error{errc::in_failed_transaction, "25P02",
                "an earlier statement of the transaction has failed"},
    known_error{errc::idle_in_transaction_timeout, "25P03",
                "the transaction was idle for too long"},
    known_error{errc::invalid_statement_name, "26000", "there is no such prepared statement"},
    known_error{errc::invalid_authorization, "28000", "the user may not connect"},
    known_error{errc::invalid_password, "28P01", "the user or the password is wrong"},
    known_error{errc::undefined_database, "3D000", "there is no such database"},
    known_error{errc::serialization_failure, "40001",
                "another transaction interfered: the transaction must be repeated"},
    known_error{errc::deadlock_detected, "40P01",
                "transactions waited for each other: the transaction must be repeated"},
    known_error{errc::transaction_rollback, "40", "the transaction was rolled back"},
    known_error{errc::syntax_or_access_violation, "42", "syntax error or access violation"},
    known_error{errc::insufficient_privilege, "42501", "the user may not do that"},
    known_error{errc::syntax_error, "42601", "syntax error"},
    known_error{errc::undefined_column, "42703", "there is no such column"},
    known_error{errc::undefined_function, "42883", "there is no such function"},
    known_error{errc::undefined_table, "42P01", "there is no such table"},
    known_error{errc::indeterminate_datatype, "42P18",
                "the type of a parameter is not known: write it, such as $1::int8"},
    known_error{errc::duplicate_table, "42P07", "the table exists"},
    known_error{errc::duplicate_object, "42710", "the object exists"},
    known_error{errc::insufficient_resources, "53", "the server is short of resources"},
    known_error{errc::disk_full, "53100", "the server's disk is full"},
    known_error{errc::out_of_memory, "53200", "the server is out of memory"},
    known_error{errc::too_many_connections, "53300", "the server has too many connections"},
    known_error{errc::object_in_use, "55006", "the object is in use"},
    known_error{errc::lock_not_available, "55P03", "the lock is not available"},
    known_error{errc::undefined_file, "58P01", "the server has no such file"},
    known_error{errc::query_canceled, "57014", "the statement was cancelled"},
    known_error{errc::admin_shutdown, "57P01", "the server or the connection was shut down"},
    known_error{errc::crash_shutdown, "57P02", "another connection has crashed the server"},
    known_error{errc::cannot_connect_now, "57P03", "the server is starting up or shutting down"},
    known_error{errc::raised_exception, "P0001", "a function raised an exception"},
    known_error{errc::internal_error, "XX", "internal error of the server"},
};

const char* message_of(errc code) noexcept {
  for (const known_error& entry : known_errors) {
    if (entry.code == code) return entry.message;
  }
  return "unknown error";
}

std::errc condition_of(errc code) noexcept {
  switch (code) {
    case errc::connection_lost:
    case errc::admin_shutdown:
    case errc::crash_shutdown: return std::errc::connection_reset;
    case errc::no_reply:
    case errc::statement_timeout: return std::errc::timed_out;
    case errc::bad_message: return std::errc::protocol_error;
    case errc::message_too_large:
    case errc::result_too_large: return std::errc::message_size;
    case errc::server_too_old:
    case errc::feature_not_supported: return std::errc::operation_not_supported;
    case errc::out_of_range: return std::errc::result_out_of_range;
    case errc::invalid_authorization:
    case errc::invalid_password:
    case errc::insufficient_privilege: return std::errc::permission_denied;
    case errc::serialization_failure:
    case errc::deadlock_detected:
    case errc::too_many_connections:
    case errc::lock_not_available:
    case errc::cannot_connect_now: return std::errc::resource_unavailable_try_again;
    case errc::disk_full: return std::errc::no_space_on_device;
    case errc::out_of_memory: return std::errc::not_enough_memory;
    default: return {};
  }
}

std::string text_of(const server_message& message, std::string_view statement) {
  std::string text = message.severity + ' ' + message.sqlstate + ": " + message.message;
  if (!statement.empty()) text.append(" [").append(detail::excerpt_of(statement)).append("]");
  return text;
}

}  // namespace

const std::error_category& postgres_category() noexcept {
  static const gyre::detail::enum_category<errc> category("gyre.postgres", message_of,
                                                          condition_of);
  return category;
}

std::error_code make_error_code(errc code) noexcept {
  return {static_cast<int>(code), postgres_category()};
}

errc errc_of(std::string_view sqlstate) noexcept {
  errc of_class = errc::server;
  for (const known_error& entry : known_errors) {
    if (entry.sqlstate.empty()) continue;
    if (entry.sqlstate == sqlstate) return entry.code;
    if (entry.sqlstate.size() == 2 && sqlstate.starts_with(entry.sqlstate)) of_class = entry.code;
  }
  return of_class;
}

server_error::server_error(server_message message, std::string_view statement)
    : server_error(errc_of(message.sqlstate), message, statement) {}

server_error::server_error(errc code, server_message message, std::string_view statement)
    : std::system_error(make_error_code(code), text_of(message, statement)),
      message_(std::move(message)) {}

namespace detail {

std::string excerpt_of(std::string_view statement) {
  constexpr std::size_t max_size = 120;
  std::string excerpt;
  for (const char character : statement) {
    const bool is_blank = static_cast<unsigned char>(character) <= ' ';
    if (is_blank && (excerpt.empty() || excerpt.back() == ' ')) continue;
    if (excerpt.size() >= max_size && (static_cast<unsigned char>(character) & 0xc0U) != 0x80) {
      return excerpt + "…";
    }
    excerpt += is_blank ? ' ' : character;
  }
  return excerpt;
}

void throw_error(errc code, const std::string& message) {
  throw std::system_error(make_error_code(code), message);
}

}  // namespace detail

}  // namespace gyre::postgres
