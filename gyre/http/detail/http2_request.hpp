// SPDX-License-Identifier: Apache-2.0
// read_http2_request: the head of a request of HTTP/2 as one of HTTP/1.1 (RFC 9113, 8.3.1).
#pragma once

#include <gyre/http/detail/header_block.hpp>
#include <gyre/http/detail/message_parser.hpp>
#include <gyre/http/error.hpp>
#include <gyre/io/buffer.hpp>

namespace gyre::http::detail {

/// Reads the fields of a request, whose syntax nghttp2 has checked, and copies them to `memory`,
/// which is empty and must outlive `result`. The field "host" is made from ":authority" if there is
/// none, and the crumbs of "cookie" are joined (8.2.3). An extended CONNECT (RFC 8441) becomes a
/// GET that offers an upgrade. `is_end`: whether the request has no body.
///
/// Errors: those of parse_request_head(); `result` is then unspecified.
[[nodiscard]] errc read_http2_request(const header_block& block, bool is_end,
                                      const head_limits& limits, io::buffer& memory,
                                      request_head& result);

}  // namespace gyre::http::detail
