// SPDX-License-Identifier: Apache-2.0
// read_file: the content of a small file, such as one that the kernel makes up in /proc.
#pragma once

#include <expected>
#include <string>

namespace gyre::detail {

/// The whole content of the file, or errno's number of the call that failed. Blocks as long as
/// open(2) and read(2) do. Throws std::bad_alloc without memory for the content.
std::expected<std::string, int> read_file(const char* path);

}  // namespace gyre::detail
