// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/detail/http2_response.hpp>

#include <gyre/base/detail/parse_decimal.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>

namespace gyre::http::detail {

errc read_http2_response(const header_block& block, bool is_end, const head_limits& limits,
                         std::string_view request_method, response_head& result) {
  result.status = 0;
  result.reason = {};
  result.framing = {.minor_version = 0};
  result.fields.clear();
  result.fields.reserve(block.size());
  std::optional<std::uint64_t> length;
  for (std::size_t i = 0; i < block.size(); ++i) {
    const field field = block[i];
    if (field.name == ":status") {
      result.status = gyre::detail::parse_decimal<unsigned>(field.value).value_or(0);
      continue;
    }
    if (field.name.starts_with(':')) return errc::bad_start_line;
    if (field.name == "content-length") {
      if (length) return errc::bad_length;
      length = gyre::detail::parse_decimal<std::uint64_t>(field.value);
      if (!length) return errc::bad_length;
    }
    result.fields.push_back(field);
  }
  if (result.status < 100 || result.status > 999) return errc::bad_start_line;
  if (result.fields.size() > limits.field_count) return errc::fields_too_large;
  const bool has_none =
      is_end || result.status == 204 || result.status == 304 || request_method == "HEAD";
  if (has_none) return no_error;
  result.framing.body = length.value_or(0) != 0 ? body_kind::length : body_kind::chunked;
  result.framing.length = length.value_or(0);
  return no_error;
}

}  // namespace gyre::http::detail
