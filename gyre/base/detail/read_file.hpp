// SPDX-License-Identifier: Apache-2.0
// read_file: reads a small file, such as one that the kernel generates in /proc.
#pragma once

#include <expected>
#include <string>

namespace gyre::detail {

/// Returns the whole content of the file, or the errno of the call that failed. Blocks as long as
/// open(2) and read(2) do. Throws std::bad_alloc if there is no memory for the content.
std::expected<std::string, int> read_file(const char* path);

}  // namespace gyre::detail
