// SPDX-License-Identifier: Apache-2.0
// file_type: whether a name belongs to a regular file, a directory, a symlink or another thing.
//
//     if (entry->type == gyre::io::file_type::directory) ++folders;
#pragma once

#include <cstdint>

namespace gyre::io {

/// The type of a file, with the names of std::filesystem::file_type.
enum class file_type : std::uint8_t {
  unknown,
  regular,
  directory,
  symlink,
  block,
  character,
  fifo,
  socket
};

}  // namespace gyre::io
