// SPDX-License-Identifier: Apache-2.0
// printable_text: a text that stays within one line, and within its quotes, when it is printed.
#pragma once

#include <string>
#include <string_view>

namespace gyre::detail {

/// Returns `text` with a backslash in front of quotes and backslashes, "\n" for a newline, and
/// "\x1b" for other control characters and for bytes that are not UTF-8.
[[nodiscard]] std::string printable_text(std::string_view text);

}  // namespace gyre::detail
