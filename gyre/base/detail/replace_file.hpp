// SPDX-License-Identifier: Apache-2.0
// replace_file: writes a whole file, so that readers see the old content or the new one.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace gyre::detail {

/// Puts a file with this content and mode 0600 in the place of `path`, by way of `path`.tmp.
/// Returns 0, or the errno of the call that failed; the old file then remains. Blocks as long as
/// write(2) does. Throws std::bad_alloc.
int replace_file(const std::string& path, std::string_view content);

/// Returns when the file was written last; nothing if it does not exist or cannot be looked at.
std::optional<std::chrono::system_clock::time_point> last_write_time(const char* path) noexcept;

}  // namespace gyre::detail
