// SPDX-License-Identifier: Apache-2.0
// add_vary: a response's list of the fields on which it depends.
#pragma once

#include <gyre/http/detail/field_lookup.hpp>
#include <gyre/http/response.hpp>

#include <string_view>

namespace gyre::http::detail {

/// Makes caches distinguish requests by the field called `name`.
inline void add_vary(response& result, std::string_view name) {
  if (has_word(result.fields(), "Vary", name) || has_word(result.fields(), "Vary", "*")) return;
  result.add("Vary", name);
}

}  // namespace gyre::http::detail
