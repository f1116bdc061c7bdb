// SPDX-License-Identifier: Apache-2.0
// parse_text_array: the elements of an array in text format, such as {red,"light blue",NULL}.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gyre::postgres::detail {

/// The elements of an array of one dimension; NULL as nothing.
using text_array = std::vector<std::optional<std::string>>;

/// Returns std::nullopt if the text is not an array of one dimension.
std::optional<text_array> parse_text_array(std::string_view text);

}  // namespace gyre::postgres::detail
