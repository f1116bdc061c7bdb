// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/form.hpp>

#include <algorithm>

namespace gyre::http {

std::expected<form, std::error_code> form::parse(std::string_view text, query_limits limits) {
  const auto pairs = query::parse(text, limits);
  if (!pairs) return std::unexpected(pairs.error());
  form result;
  result.fields_.reserve(static_cast<std::size_t>(std::distance(pairs->begin(), pairs->end())));
  for (const query_pair& pair : *pairs) {
    result.fields_.push_back({.name = pair.decoded_name(), .value = pair.decoded_value()});
  }
  return result;
}

std::optional<std::string_view> form::get(std::string_view name) const noexcept {
  const auto match = std::ranges::find(fields_, name, &form_field::name);
  if (match == fields_.end()) return std::nullopt;
  return match->value;
}

std::vector<std::string_view> form::get_all(std::string_view name) const {
  std::vector<std::string_view> values;
  for (const form_field& field : fields_) {
    if (field.name == name) values.emplace_back(field.value);
  }
  return values;
}

form& form::add(std::string_view name, std::string_view value) {
  fields_.push_back({.name = std::string(name), .value = std::string(value)});
  return *this;
}

std::string form::to_string() const {
  std::string text;
  for (const form_field& field : fields_) append_pair(text, field.name, field.value);
  return text;
}

}  // namespace gyre::http
