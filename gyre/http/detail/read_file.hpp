// SPDX-License-Identifier: Apache-2.0
// read_file: reads a part of a file that a response has announced.
#pragma once

#include <gyre/io/detail/system_files.hpp>
#include <gyre/io/error.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <system_error>

namespace gyre::http::detail {

/// Fills `bytes` from `offset` of the file on. Returns io::errc::unexpected_end if the file ends
/// before, because it has shrunk, or the error of read(2).
inline std::error_code read_file(int file, std::uint64_t offset,
                                 std::span<std::byte> bytes) noexcept {
  while (!bytes.empty()) {
    const io::result count = io::detail::system::read_at(file, bytes, offset);
    if (!count) return count.error();
    if (count.count() == 0) return io::errc::unexpected_end;
    offset += count.count();
    bytes = bytes.subspan(count.count());
  }
  return {};
}

}  // namespace gyre::http::detail
