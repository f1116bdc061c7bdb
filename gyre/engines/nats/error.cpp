// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/nats/error.hpp>

#include <gyre/base/detail/ascii.hpp>
#include <gyre/base/detail/enum_category.hpp>

#include <array>
#include <utility>

namespace gyre::nats {
namespace {

const char* message_of(errc code) noexcept {
  switch (code) {
    case errc::connection_lost: return "the connection ended before the reply came";
    case errc::no_reply: return "the server did not reply in time";
    case errc::bad_message: return "the server does not speak the protocol of NATS";
    case errc::message_too_large: return "the message is longer than max_message";
    case errc::bad_subject: return "the subject is not allowed";
    case errc::bad_header: return "the header is not allowed";
    case errc::payload_too_large: return "the payload is longer than the server's max_payload";
    case errc::headers_not_supported: return "the server is too old for headers";
    case errc::draining: return "the client is being drained";
    case errc::no_responders: return "no subscription gets the subject of the request";
    case errc::request_timeout: return "no reply came in time";
    case errc::slow_consumer: return "the queue of the subscription was full";
    case errc::authorization_violation: return "the server has refused the user";
    case errc::permission_denied: return "the user may not use the subject";
    case errc::tls_required: return "the server demands TLS: set client_options::tls";
    case errc::tls_not_available:
      return "the server offers no TLS, which client_options::tls demands";
    case errc::bad_credentials: return "the credentials cannot be read";
    case errc::nonce_missing: return "the server has no users with keys";
    case errc::limit_exceeded: return "the server has reached a limit";
    case errc::server_error: return "the server reported an error";
  }
  return "unknown error";
}

std::errc condition_of(errc code) noexcept {
  switch (code) {
    case errc::connection_lost: return std::errc::connection_reset;
    case errc::no_reply:
    case errc::request_timeout: return std::errc::timed_out;
    case errc::bad_message: return std::errc::protocol_error;
    case errc::message_too_large:
    case errc::payload_too_large: return std::errc::message_size;
    case errc::bad_subject:
    case errc::bad_header: return std::errc::invalid_argument;
    case errc::headers_not_supported: return std::errc::operation_not_supported;
    case errc::no_responders: return std::errc::host_unreachable;
    case errc::slow_consumer: return std::errc::no_buffer_space;
    case errc::authorization_violation:
    case errc::permission_denied: return std::errc::permission_denied;
    case errc::limit_exceeded: return std::errc::resource_unavailable_try_again;
    default: return {};
  }
}

// The error codes of servers' texts, which begin with these words in lower case.
constexpr std::array<std::pair<std::string_view, errc>, 15> server_texts = {{
    {"authorization violation", errc::authorization_violation},
    {"authorization timeout", errc::no_reply},
    {"authentication timeout", errc::no_reply},
    // For example "user authentication expired" or "… revoked".
    {"user authentication", errc::authorization_violation},
    {"account authentication", errc::authorization_violation},
    {"permissions violation", errc::permission_denied},
    {"secure connection - tls required", errc::tls_required},
    {"maximum connections exceeded", errc::limit_exceeded},
    {"maximum account", errc::limit_exceeded},
    {"maximum subscriptions exceeded", errc::limit_exceeded},
    {"maximum payload violation", errc::payload_too_large},
    {"stale connection", errc::connection_lost},
    {"slow consumer", errc::connection_lost},
    {"invalid subject", errc::bad_subject},
    {"invalid publish subject", errc::bad_subject},
}};

}  // namespace

const std::error_category& nats_category() noexcept {
  static const gyre::detail::enum_category<errc> category("gyre.nats", message_of, condition_of);
  return category;
}

std::error_code make_error_code(errc code) noexcept {
  return {static_cast<int>(code), nats_category()};
}

namespace detail {

errc code_of(std::string_view text) noexcept {
  for (const auto& [beginning, code] : server_texts) {
    if (gyre::detail::equals_ignoring_case(text.substr(0, beginning.size()), beginning)) {
      return code;
    }
  }
  return errc::server_error;
}

}  // namespace detail

}  // namespace gyre::nats
