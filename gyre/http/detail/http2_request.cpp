// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/detail/http2_request.hpp>

#include <gyre/base/detail/parse_decimal.hpp>
#include <gyre/http/detail/characters.hpp>
#include <gyre/http/detail/host_list.hpp>

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

namespace gyre::http::detail {
namespace {

// Appends the values of all crumbs to `memory`, separated by "; ". Returns the size.
std::size_t join_cookies(const header_block& block, io::buffer& memory) {
  const std::size_t begin = memory.size();
  for (std::size_t i = 0; i < block.size(); ++i) {
    if (block[i].name != "cookie") continue;
    if (memory.size() != begin) memory.append("; ");
    memory.append(block[i].value);
  }
  return memory.size() - begin;
}

errc note_content_length(std::string_view value, request_head& result) noexcept {
  const auto length = gyre::detail::parse_decimal<std::uint64_t>(value);
  if (!length || result.framing.body == body_kind::length) return errc::bad_length;
  result.framing.body = body_kind::length;
  result.framing.length = *length;
  return no_error;
}

errc note_expectation(std::string_view value, request_head& result) noexcept {
  if (!equals_lower(value, "100-continue")) return errc::unknown_expectation;
  result.expect_continue = true;
  return no_error;
}

}  // namespace

errc read_http2_request(const header_block& block, bool is_end, const head_limits& limits,
                        io::buffer& memory, request_head& result) {
  result = {.method = {},
            .target = {},
            .host = {},
            .connect_protocol = {},
            .framing = {},
            .expect_continue = false,
            .fields = std::move(result.fields)};
  result.fields.clear();
  std::size_t crumbs = 0;
  for (std::size_t i = 0; i < block.size(); ++i) {
    if (block[i].name == "cookie") ++crumbs;
  }
  memory.append(block.text());
  const std::size_t joined_size = crumbs > 1 ? join_cookies(block, memory) : 0;
  const std::string_view text = memory.text();

  std::string_view authority;
  std::string_view path;
  errc error = no_error;
  for (std::size_t i = 0; i < block.size() && error == no_error; ++i) {
    const field field = block.field_in(text, i);
    if (field.name == ":method") {
      result.method = field.value;
    } else if (field.name == ":protocol") {
      result.connect_protocol = field.value;
    } else if (field.name == ":path") {
      path = field.value;
    } else if (field.name == ":authority") {
      authority = field.value;
      result.fields.push_back({.name = "host", .value = field.value});
    } else if (field.name == "host") {
      // All hosts must be equal, so that all readers see the same one (RFC 9113, 8.3.1).
      if (!result.host.empty()) return errc::bad_host;
      result.host = field.value;
      if (authority.data() == nullptr) result.fields.push_back(field);
    } else if (field.name.starts_with(':')) {
      continue;
    } else if (field.name == "cookie" && joined_size != 0) {
      if (crumbs == 0) continue;
      crumbs = 0;
      result.fields.push_back(
          {.name = field.name, .value = text.substr(text.size() - joined_size)});
    } else {
      result.fields.push_back(field);
      if (field.name == "content-length") error = note_content_length(field.value, result);
      if (field.name == "expect") error = note_expectation(field.value, result);
    }
  }
  if (error != no_error) return error;
  if (authority.data() != nullptr) {
    if (!result.host.empty() && !equals_ignoring_case(result.host, authority)) {
      return errc::bad_host;
    }
    result.host = authority;
  }
  if (!is_host_field(result.host)) return errc::bad_host;
  if (result.fields.size() > limits.field_count) return errc::fields_too_large;
  if (result.method.size() > max_method_size) return errc::bad_method;
  if (path.size() > limits.start_line) return errc::target_too_long;
  result.target = path;
  if (!result.connect_protocol.empty()) {
    result.method = "GET";
    result.framing.upgrade = true;
  }
  if (result.method == "CONNECT") {
    result.target = authority;
    if (!is_authority_form(authority)) return errc::bad_target;
  } else if (path != "*" && !path.starts_with('/')) {
    return errc::bad_target;
  }
  if (!all_are(in_target, result.target)) return errc::bad_target;
  if (is_end || result.framing.upgrade) {
    result.framing.body = body_kind::none;
  } else if (result.framing.body == body_kind::none) {
    result.framing.body = body_kind::chunked;  // the length is unknown, as with chunks
  }
  return no_error;
}

}  // namespace gyre::http::detail
