// SPDX-License-Identifier: Apache-2.0
// quoted: names within statements of SQL.
#pragma once

#include <string>
#include <string_view>

namespace gyre::postgres::detail {

/// The name of a table, a column or a channel in quotation marks, so that it means itself.
std::string quoted(std::string_view name);

}  // namespace gyre::postgres::detail
