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

/// A field line: views into the head. The value has no surrounding whitespace.
using field_view = http::field;

/// The head of a request. All views are into the parsed bytes.
struct request_head {
  std::string_view method;
  std::string_view target;  ///< as it came: origin, absolute, authority or asterisk form
  std::string_view host;    ///< the value of Host; empty if HTTP/1.0 gave none
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

/// Parses a whole head, as head_scanner found it, with the empty line before it, if there is one.
/// Returns errc{} when it is valid; after an error the contents of `result` are unspecified.
/// Allocates only when there are more fields than `parsed.fields` has capacity for.
[[nodiscard]] errc parse_request_head(std::string_view head, const head_limits& limits,
                                      request_head& result);
/// Parses the head of a response, as parse_request_head() does. `request_method` is the method that
/// the response answers: responses to HEAD, 1xx, 204, 304 and successful ones to CONNECT have no
/// body, whatever their fields say. If these are malformed or contradict each other, or if the body
/// is of kind until_close, keep_alive is false. In `head`, blanks replace line ends within fields
/// (obs-fold), which a request must not have.
[[nodiscard]] errc parse_response_head(std::span<char> head, const head_limits& limits,
                                       std::string_view request_method, response_head& result);
/// Parses a trailer section with its empty line, and appends its fields, but not those that a
/// trailer must not have (framing, routing, authentication: RFC 9110 6.5.1).
[[nodiscard]] errc parse_trailers(std::string_view section, const head_limits& limits,
                                  std::vector<field>& fields);

}  // namespace gyre::http::detail
