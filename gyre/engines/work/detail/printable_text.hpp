// SPDX-License-Identifier: Apache-2.0
// printable_text: a text of a handler, in a form that PostgreSQL accepts.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace gyre::work::detail {

/// Returns the beginning of `text`, at most `max_size` bytes, with '?' for each zero byte and each
/// byte of invalid UTF-8: the database would refuse the statement, and with it the reports of other
/// jobs.
[[nodiscard]] std::string printable_text(std::string_view text, std::size_t max_size);

}  // namespace gyre::work::detail
