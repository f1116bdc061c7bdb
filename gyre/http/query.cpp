// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/query.hpp>

#include <gyre/http/detail/characters.hpp>
#include <gyre/http/format_error.hpp>
#include <gyre/http/percent_encoding.hpp>

namespace gyre::http {
namespace {

// Decodes a name or a value, whose encoding query::parse() has checked.
std::string decode(std::string_view text) {
  return percent_decode(text, plus_sign::is_blank).value_or(std::string());
}

}  // namespace

std::string query_pair::decoded_name() const { return decode(name); }
std::string query_pair::decoded_value() const { return decode(value); }

void query::iterator::advance() noexcept {
  while (!rest_.empty()) {
    std::string_view text = detail::take_until(rest_, '&');
    if (text.empty()) continue;
    pair_.name = detail::take_until(text, '=');
    pair_.value = text;
    is_at_end_ = false;
    return;
  }
  rest_ = {};
  is_at_end_ = true;
}

std::expected<query, std::error_code> query::parse(std::string_view text, query_limits limits) {
  if (text.size() > limits.max_size) return std::unexpected(make_error_code(format_errc::too_long));
  if (!is_percent_encoded(text)) {
    return std::unexpected(make_error_code(format_errc::bad_percent_encoding));
  }
  const query pair_list(text);
  std::size_t pairs = 0;
  for (auto position = pair_list.begin(); position != pair_list.end(); ++position) {
    if (++pairs > limits.max_pairs) {
      return std::unexpected(make_error_code(format_errc::too_many_pairs));
    }
  }
  return pair_list;
}

std::optional<std::string> query::get(std::string_view name) const {
  const auto value = find(name);
  if (!value) return std::nullopt;
  return decode(*value);
}

std::vector<std::string> query::get_all(std::string_view name) const {
  std::vector<std::string> values;
  for (const query_pair& pair : *this) {
    if (decodes_to(pair.name, name, plus_sign::is_blank)) values.push_back(pair.decoded_value());
  }
  return values;
}

std::optional<std::string_view> query::find(std::string_view name) const noexcept {
  for (const query_pair& pair : *this) {
    if (decodes_to(pair.name, name, plus_sign::is_blank)) return pair.value;
  }
  return std::nullopt;
}

void append_pair(std::string& output, std::string_view name, std::string_view value) {
  if (!output.empty()) output += '&';
  append_encoded_component(output, name);
  output += '=';
  append_encoded_component(output, value);
}

}  // namespace gyre::http
