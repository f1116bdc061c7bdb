// SPDX-License-Identifier: Apache-2.0
// errc: the reasons for which a message of HTTP is refused or an exchange fails.
//
//     std::error_code error = gyre::http::errc::bad_host;
//     log(error.message(), gyre::http::status_code_of(gyre::http::errc::bad_host));  // 400
#pragma once

#include <cstdint>
#include <system_error>
#include <type_traits>

namespace gyre::http {

/// Reasons for which a message of HTTP/1.1 or HTTP/2 is refused or an exchange fails. The number in
/// brackets is the status with which a server responds.
enum class errc {
  bad_start_line = 1,       ///< no request line or status line of HTTP/1 [400]
  bad_method,               ///< a method longer than any that is known [501]
  bad_target,               ///< a request target with forbidden bytes or of the wrong form [400]
  target_too_long,          ///< a start line above its limit [414]
  unsupported_version,      ///< a major version of HTTP other than 1 [505]
  bad_field,                ///< a malformed field line; obs-fold in a request [400]
  bare_line_end,            ///< a CR without LF, or LF without CR [400]
  fields_too_large,         ///< more fields, or bytes of fields, than the limit [431]
  bad_host,                 ///< a Host that is missing in HTTP/1.1, repeated or malformed [400]
  bad_length,               ///< a Content-Length that is not a number, or is repeated [400]
  ambiguous_length,         ///< Content-Length beside Transfer-Encoding [400]
  bad_transfer_coding,      ///< a Transfer-Encoding in HTTP/1.0, or not ending in chunked [400]
  unknown_transfer_coding,  ///< a transfer coding other than chunked [501]
  bad_chunk,                ///< a chunk size, an extension or an end that breaks the grammar [400]
  unknown_expectation,      ///< an Expect other than 100-continue [417]
  body_too_large,           ///< a body above its limit [413]
  truncated,                ///< the connection ended within a message
  timed_out,                ///< a time limit of an exchange expired [408]
  // The next codes are errors of clients.
  no_response,         ///< the connection ended before the first byte of the response
  unexpected_status,   ///< 101, which the client did not request, or too many other 1xx responses
  too_many_redirects,  ///< more redirects than the limit
  bad_redirect,   ///< a redirect to no http or https URL, from https to http, or of a streamed body
  proxy_refused,  ///< a proxy did not open the tunnel
  bad_content_coding,  ///< a compressed body that is malformed, or of an unknown coding
  body_mismatch,       ///< a streamed body of another length than was announced
  unsupported_scheme,  ///< a URL that is neither http nor https, or a proxy that is not http
  needs_tls,           ///< an https URL with a tls context that is for servers
  // The next codes are errors of servers, added after the errors of clients.
  misdirected,  ///< a request for a host that the server does not answer for [421]
  // The next codes are errors of clients that were added later.
  circuit_open,     ///< a request that the client's circuit breaker has refused
  hedge_denied,     ///< an additional attempt that was not sent; seen only within a client
  request_refused,  ///< HTTP/2: a request that the server has refused several times, unprocessed
  stream_reset,     ///< HTTP/2: the server has reset the stream of the request
  http2_violation,  ///< HTTP/2: the server has broken the protocol, or has sent too much
};

/// Returns the category of errc, "gyre.http". Thread-safety: any thread.
const std::error_category& http_category() noexcept;
std::error_code make_error_code(errc code) noexcept;
/// Returns the status with which a server responds to the error; 400 for errors without a status.
std::uint16_t status_code_of(errc code) noexcept;

}  // namespace gyre::http

template <>
struct std::is_error_code_enum<gyre::http::errc> : std::true_type {};
