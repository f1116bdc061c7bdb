// SPDX-License-Identifier: Apache-2.0
// has_word, add_vary: lists in the fields of a message, such as those of Vary.
#pragma once

#include <gyre/http/detail/characters.hpp>
#include <gyre/http/fields.hpp>
#include <gyre/http/response.hpp>

#include <string_view>

namespace gyre::http::detail {

/// Whether one of the fields called `name`, whose values are lists, contains `word`, ignoring case.
template <class Fields>
bool has_word(const Fields& fields, std::string_view name, std::string_view word) noexcept {
  for (const field& each : fields) {
    if (equals_ignoring_case(each.name, name) && list_has_word(each.value, word)) return true;
  }
  return false;
}

/// Makes caches distinguish requests by the field called `name`.
inline void add_vary(response& result, std::string_view name) {
  if (has_word(result.fields(), "Vary", name) || has_word(result.fields(), "Vary", "*")) return;
  result.add("Vary", name);
}

}  // namespace gyre::http::detail
