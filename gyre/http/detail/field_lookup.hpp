// SPDX-License-Identifier: Apache-2.0
// has_word, only_field: questions about fields that may stand in a message several times.
#pragma once

#include <gyre/http/detail/characters.hpp>
#include <gyre/http/fields.hpp>

#include <optional>
#include <string_view>

namespace gyre::http::detail {

/// Whether one of the fields called `name`, whose values are lists, contains `word`, ignoring case.
template <class Fields>
bool has_word(const Fields& fields, std::string_view name, std::string_view word) noexcept {
  for (const field& field : fields) {
    if (equals_ignoring_case(field.name, name) && list_has_word(field.value, word)) return true;
  }
  return false;
}

/// Returns the value of the only field called `name`. Returns nothing if there is none, or several,
/// of which other readers might choose another one.
inline std::optional<std::string_view> only_field(const field_list& fields,
                                                  std::string_view name) noexcept {
  std::optional<std::string_view> value;
  for (const field& field : fields) {
    if (!equals_ignoring_case(field.name, name)) continue;
    if (value) return std::nullopt;
    value = field.value;
  }
  return value;
}

}  // namespace gyre::http::detail
