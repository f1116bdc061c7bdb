// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/detail/incoming_response.hpp>

#include <gyre/base/detail/parse_decimal.hpp>
#include <gyre/http/detail/characters.hpp>
#include <gyre/http/detail/http2_response.hpp>

#include <algorithm>
#include <utility>

namespace gyre::http::detail {

incoming_response::incoming_response(const client_limits& limits, std::string_view request_method)
    : max_interim_(limits.interim_responses),
      limits_{.start_line = limits.start_line,
              .fields = limits.fields,
              .field_count = limits.field_count},
      request_method_(request_method) {}

std::expected<bool, errc> incoming_response::take_head(io::input& input) {
  if (input.empty()) return false;
  const std::string_view text = input.text();
  const auto size = scanner_.find_end(text, limits_);
  if (!size) return std::unexpected(size.error());
  if (*size == 0) return false;
  head_text_ = text.substr(0, *size);
  input.consume(*size);
  scanner_.reset();
  errc error = parse_response_head(head_text_, limits_, request_method_, head_);
  if (error == no_error && !is_interim()) {
    error = reader_.begin(head_.framing, message_reader::unlimited);
  }
  if (error != no_error) return std::unexpected(error);
  return true;
}

errc incoming_response::take_head(header_block head, bool is_end) {
  is_http2_ = true;
  head_fields_ = std::move(head);
  const errc error = read_http2_response(head_fields_, is_end, limits_, request_method_, head_);
  return error == no_error ? reader_.begin(head_.framing, message_reader::unlimited) : error;
}

std::optional<std::chrono::seconds> incoming_response::idle_time_of_server() const noexcept {
  std::optional<std::chrono::seconds> shortest_idle_time;
  for (const field& field : head_.fields) {
    if (!equals_lower(field.name, "keep-alive")) continue;
    for (std::string_view list = field.value; !list.empty();) {
      std::string_view value = take_until(list, ',');
      const std::string_view name = trim(take_until(value, '='));
      const auto seconds = gyre::detail::parse_decimal<std::uint32_t>(trim(value));
      if (!equals_lower(name, "timeout") || !seconds) continue;
      const std::chrono::seconds idle_time(*seconds - std::min(*seconds, 1U));
      shortest_idle_time = std::min(shortest_idle_time.value_or(idle_time), idle_time);
    }
  }
  return shortest_idle_time;
}

std::optional<std::uint64_t> incoming_response::content_length() const noexcept {
  if (head_.framing.body != body_kind::length) return std::nullopt;
  return head_.framing.length;
}

void incoming_response::hide_content_coding() {
  std::erase_if(head_.fields, [](const field& field) {
    return equals_lower(field.name, "content-encoding") ||
           equals_lower(field.name, "content-length");
  });
}

}  // namespace gyre::http::detail
