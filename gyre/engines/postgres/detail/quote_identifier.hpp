// SPDX-License-Identifier: Apache-2.0
// quote_identifier: quotes a name for a statement of SQL.
#pragma once

#include <string>
#include <string_view>

namespace gyre::postgres::detail {

/// Returns the name of a table, a column or a channel in quotation marks, so that the server takes
/// it as it is.
std::string quote_identifier(std::string_view name);

}  // namespace gyre::postgres::detail
