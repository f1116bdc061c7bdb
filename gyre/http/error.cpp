// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/error.hpp>

#include <gyre/base/detail/enum_category.hpp>

#include <algorithm>
#include <array>

namespace gyre::http {
namespace {

struct entry {
  errc code;
  std::uint16_t status;
  const char* message;
};

constexpr std::array<entry, 33> entries{{
    {errc::bad_start_line, 400, "the first line is no request line or status line of HTTP/1"},
    {errc::bad_method, 501, "the method is longer than any that is known"},
    {errc::bad_target, 400,
     "the request target has a forbidden byte, or not the form that its method demands"},
    {errc::target_too_long, 414, "the first line is longer than its limit"},
    {errc::unsupported_version, 505, "the major version of HTTP is not 1"},
    {errc::bad_field, 400,
     "a field line has no name, a space before its colon, a forbidden byte, or is folded"},
    {errc::bare_line_end, 400, "a line does not end in CR LF: one of them stands alone"},
    {errc::fields_too_large, 431, "the fields are more, or have more bytes, than their limit"},
    {errc::bad_host, 400, "the field Host is missing, repeated or malformed"},
    {errc::bad_length, 400, "the field Content-Length is repeated, or is not one decimal number"},
    {errc::ambiguous_length, 400,
     "Content-Length and Transfer-Encoding are both there, or a CONNECT has a body"},
    {errc::bad_transfer_coding, 400,
     "the field Transfer-Encoding is malformed, does not end in one chunked, or is in HTTP/1.0"},
    {errc::unknown_transfer_coding, 501, "the body has a transfer coding other than chunked"},
    {errc::bad_chunk, 400, "a chunk has a bad size, extension or end"},
    {errc::unknown_expectation, 417, "the field Expect has a value other than 100-continue"},
    {errc::body_too_large, 413, "the body is larger than its limit"},
    {errc::truncated, 400, "the connection ended within a message"},
    {errc::timed_out, 408, "a time limit of the exchange expired"},
    {errc::no_response, 502, "the connection ended before a byte of the response"},
    {errc::unexpected_status, 502,
     "the server switches protocols unasked, or sends too many interim responses"},
    {errc::too_many_redirects, 502, "the redirects are more than their limit"},
    {errc::bad_redirect, 502,
     "the redirect leads to no http or https URL, from https to http, or needs a streamed body "
     "again"},
    {errc::proxy_refused, 502, "the proxy did not open the tunnel"},
    {errc::bad_content_coding, 502, "the compressed body is malformed, or its coding is unknown"},
    {errc::body_mismatch, 400, "the streamed body has another length than was announced"},
    {errc::unsupported_scheme, 400, "the scheme of the URL is not supported"},
    {errc::needs_tls, 400, "https needs a tls context of a client"},
    {errc::misdirected, 421, "the server does not answer for this host, or not on this connection"},
    {errc::circuit_open, 503,
     "the circuit breaker refuses requests to this server, because too many have failed"},
    {errc::hedge_denied, 503, "the share of additional attempts is used up"},
    {errc::request_refused, 503, "the server refuses the request without processing it"},
    {errc::stream_reset, 502, "the server has reset the stream of the request"},
    {errc::http2_violation, 502, "the server has broken the rules of HTTP/2, or has sent too much"},
}};

const entry* find(errc code) noexcept {
  const auto* const match = std::ranges::find(entries, code, &entry::code);
  return match == entries.end() ? nullptr : match;
}

const char* message_of(errc code) noexcept {
  const entry* const match = find(code);
  return match != nullptr ? match->message : "unknown error";
}

std::errc condition_of(errc code) noexcept {
  return code == errc::timed_out ? std::errc::timed_out : std::errc();
}

}  // namespace

const std::error_category& http_category() noexcept {
  static const gyre::detail::enum_category<errc> category("gyre.http", message_of, condition_of);
  return category;
}

std::error_code make_error_code(errc code) noexcept {
  return {static_cast<int>(code), http_category()};
}

std::uint16_t status_code_of(errc code) noexcept {
  const entry* const match = find(code);
  return match != nullptr ? match->status : std::uint16_t{400};
}

}  // namespace gyre::http
