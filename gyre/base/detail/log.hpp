// SPDX-License-Identifier: Apache-2.0
// log: prints a message of gyre, if the log level admits it.
//
//     detail::log(log_level::warning, "gyre: ", name, ": connect: ", reason.message());
#pragma once

#include <gyre/base/log_level.hpp>

#include <initializer_list>
#include <string_view>

namespace gyre::detail {

/// Passes the message to the log writer. A message for which there is no memory is dropped.
[[gnu::cold]] void write_log(log_level level,
                             std::initializer_list<std::string_view> parts) noexcept;

/// Returns whether messages of `level` are printed.
[[nodiscard]] inline bool is_logged(log_level level) noexcept {
  return level <= current_log_level();
}

/// Prints a message that consists of `parts`, without a line feed at its end. Any thread.
template <class... Parts>
void log(log_level level, const Parts&... parts) noexcept {
  if (is_logged(level)) write_log(level, {std::string_view(parts)...});
}

}  // namespace gyre::detail
