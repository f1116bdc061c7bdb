// SPDX-License-Identifier: Apache-2.0
// Texts of handlers, as PostgreSQL accepts them.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace gyre::work::detail {

/// The beginning of `text` of at most `max_size` bytes, with '?' for each byte that is not of valid
/// UTF-8, or is zero: the database would refuse them, and with them the ends of all jobs of the
/// statement.
[[nodiscard]] std::string printable_text(std::string_view text, std::size_t max_size);

}  // namespace gyre::work::detail
