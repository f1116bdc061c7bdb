// SPDX-License-Identifier: Apache-2.0
// nats::errc: errors of a NATS client, and those that a server reports.
//
//     auto reply = co_await gyre::as_expected(bus.request("time", {}, {.timeout = 1min}));
//     if (!reply && reply.error() == gyre::nats::errc::no_responders) co_return "nobody serves it";
#pragma once

#include <string_view>
#include <system_error>
#include <type_traits>

namespace gyre::nats {

/// Errors of a client, and the kinds of errors that a server reports. The values from 100 on belong
/// to JetStream and services.
enum class errc {
  // The next codes are errors of the connection.

  /// The connection ended before the reply came: the message may have reached other clients, or
  /// not; std::errc::connection_reset.
  connection_lost = 1,
  /// The server has not replied to PING, or to the login, in time; std::errc::timed_out.
  no_reply = 2,
  /// Bytes that do not follow the protocol of NATS; std::errc::protocol_error.
  bad_message = 3,
  /// A message above client_options::max_message; std::errc::message_size.
  message_too_large = 4,

  // The next codes are errors of impossible calls, which sent nothing.

  /// A subject, a queue group or a reply subject that NATS does not allow;
  /// std::errc::invalid_argument, as is the next one.
  bad_subject = 10,
  bad_header = 11,
  /// Headers and payload exceed the server's max_payload; std::errc::message_size.
  payload_too_large = 12,
  /// The server is older than 2.2, and knows no headers; std::errc::operation_not_supported.
  headers_not_supported = 13,
  /// The client is being drained: client::drain() has begun.
  draining = 14,

  // The next codes are errors of requests.

  /// No subscription gets the request's subject; std::errc::host_unreachable.
  no_responders = 20,
  /// No reply came within the time limit; std::errc::timed_out.
  request_timeout = 21,

  // The next codes are errors of subscriptions.

  /// The queue was full, and the policy is full_queue_policy::end; std::errc::no_buffer_space.
  slow_consumer = 30,

  // The next codes are errors of the login, and those that a server reports.

  /// The server has refused the user, or the user's rights have expired;
  /// std::errc::permission_denied, as is the next one.
  authorization_violation = 40,
  /// The user may not publish or subscribe to the subject. The connection remains.
  permission_denied = 41,
  /// The server demands TLS, and client_options::tls is not set.
  tls_required = 42,
  /// The client demands TLS, and the server offers none.
  tls_not_available = 43,
  /// A seed, or a file of credentials, that cannot be read.
  bad_credentials = 44,
  /// The server sent nothing to sign: it has no users with keys.
  nonce_missing = 45,
  /// The server has as many connections, or subscriptions of the user, as it allows;
  /// std::errc::resource_unavailable_try_again.
  limit_exceeded = 46,
  /// Another error of the server, whose text the message of the exception has.
  server_error = 47,
};

/// The category of errc, "gyre.nats". Any thread.
const std::error_category& nats_category() noexcept;
std::error_code make_error_code(errc code) noexcept;

namespace detail {

/// Returns the code of the text of a server's -ERR.
errc code_of(std::string_view text) noexcept;

}  // namespace detail

}  // namespace gyre::nats

template <>
struct std::is_error_code_enum<gyre::nats::errc> : std::true_type {};
