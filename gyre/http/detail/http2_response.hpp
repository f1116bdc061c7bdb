// SPDX-License-Identifier: Apache-2.0
// read_http2_response: reads the fields of an HTTP/2 response as the head that HTTP/1.1 would have.
#pragma once

#include <gyre/http/detail/head_scanner.hpp>
#include <gyre/http/detail/header_block.hpp>
#include <gyre/http/detail/message_parser.hpp>
#include <gyre/http/error.hpp>

#include <string_view>

namespace gyre::http::detail {

/// Reads a head, which begins with ":status". `is_end`: whether no body follows. The views of
/// `result` are into `block`. A body whose length is not known, or that is announced to be empty,
/// is of kind chunked, because its end comes apart. Errors: bad_start_line, bad_length,
/// fields_too_large.
[[nodiscard]] errc read_http2_response(const header_block& block, bool is_end,
                                       const head_limits& limits, std::string_view request_method,
                                       response_head& result);

}  // namespace gyre::http::detail
