// SPDX-License-Identifier: Apache-2.0
// file_version: finds out whether a file has changed.
#pragma once

#include <gyre/io/detail/system_files.hpp>

#include <fcntl.h>
#include <sys/types.h>

#include <cstdint>
#include <string>
#include <tuple>
#include <utility>

namespace gyre::net::detail {

/// Detects changes of a file, by one system call per update().
class file_version {
 public:
  /// Returns whether the file at `path` is another file, or another version, than in the last call.
  /// A path without a regular file counts as no file. The first call returns true if there is a
  /// file.
  bool update(const std::string& path) noexcept {
    const auto status = io::detail::system::status_at(AT_FDCWD, path.c_str(), 0, STATX_BASIC_STATS);
    // A read from a file of another kind, such as a pipe, could block.
    const bool is_readable = status && S_ISREG(status->stx_mode);
    const version current_version =
        is_readable ? version(status->stx_ino, io::detail::system::device_of(*status),
                              status->stx_size, status->stx_mtime.tv_sec, status->stx_mtime.tv_nsec)
                    : version();
    return std::exchange(last_, current_version) != current_version;
  }
  /// Whether the last update() found a file.
  bool exists() const noexcept { return std::get<0>(last_) != 0; }

 private:
  using version = std::tuple<std::uint64_t, ::dev_t, std::uint64_t, std::int64_t, std::uint32_t>;
  version last_;
};

}  // namespace gyre::net::detail
