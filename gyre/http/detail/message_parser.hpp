// SPDX-License-Identifier: Apache-2.0
// message_parser: the heads and trailers of HTTP/1.1 and 1.0, parsed strictly (RFC 9110, 9112).
//
//     request_head head;
//     errc error = parse_request_head(input.text().substr(0, *size), limits, head);
#pragma once

#include <gyre/http/detail/head_scanner.hpp>
#include <gyre/http/detail/message_framing.hpp>
#include <gyre/http/error.hpp>
#include <gyre/http/fields.hpp>

#include <span>
#include <string_view>
#include <vector>

namespace gyre::http::detail {

/// The number of characters of a method that is accepted at most.
inline constexpr std::size_t max_method_size = 32;

/// A field line: views into the head. The value has no surrounding whitespace.
using field_view = http::field;

/// The head of a request. All views are into the parsed bytes.
struct request_head {
  std::string_view method;
  std::string_view target;  ///< in the form that was sent: origin, absolute, authority, asterisk
  std::string_view host;    ///< the value of Host; empty if a request of HTTP/1.0 has none
  std::string_view connect_protocol;  ///< of an extended CONNECT of HTTP/2; otherwise empty
  message_framing framing;
  bool expect_continue = false;
  std::vector<field> fields;  ///< cleared, then filled: keeps its memory for the next head
};

/// A response head. All views are into the parsed bytes.
struct response_head {
  unsigned status = 0;
  std::string_view reason;
  message_framing framing;  ///< kind none where the request or the status forbids a body
  std::vector<field> fields;
};

/// Parses a whole head that head_scanner has found, with the empty line before it, if there is one.
/// Returns errc{} when the head is valid; after an error, the contents of `result` are unspecified.
/// Allocates only when there are more fields than `result.fields` has capacity for.
[[nodiscard]] errc parse_request_head(std::string_view head, const head_limits& limits,
                                      request_head& result);
/// Parses the head of a response like parse_request_head(). `request_method`: the method of the
/// request. Responses to HEAD, 1xx, 204, 304 and successful responses to CONNECT have no body,
/// regardless of their fields; if those fields are malformed or contradict each other, keep_alive
/// is false. A body of kind until_close makes keep_alive false, too. Replaces line ends within the
/// fields of `bytes` by blanks (obs-fold, which only responses may have).
[[nodiscard]] errc parse_response_head(std::span<char> bytes, const head_limits& limits,
                                       std::string_view request_method, response_head& result);
/// Whether a trailer section may have a field of this name (RFC 9110, 6.5.1).
[[nodiscard]] bool may_be_trailer(std::string_view name) noexcept;
/// Parses a trailer section with its empty line, and appends its fields to `fields`, except for
/// those that a trailer must not have (framing, routing, authentication: RFC 9110 6.5.1).
[[nodiscard]] errc parse_trailers(std::string_view section, const head_limits& limits,
                                  std::vector<field>& fields);

}  // namespace gyre::http::detail
