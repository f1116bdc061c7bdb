// SPDX-License-Identifier: Apache-2.0
// file_version: finds out whether a file has changed.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <string>
#include <tuple>
#include <utility>

namespace gyre::net::detail {

/// Tells whether a file has changed. One system call for each question.
class file_version {
 public:
  /// Whether the file at `path` is another one, or another version, than the last time; a file that
  /// is not there, or not a regular one, is none. True the first time, if there is one.
  bool update(const std::string& path) noexcept {
    struct stat status{};
    // Reading from something else, such as a pipe, could block.
    const bool readable = ::stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode);
    const version present = readable ? version(status.st_ino, status.st_dev, status.st_size,
                                               status.st_mtim.tv_sec, status.st_mtim.tv_nsec)
                                     : version();
    return std::exchange(last_, present) != present;
  }
  /// Whether there was a file the last time.
  bool exists() const noexcept { return std::get<0>(last_) != 0; }

 private:
  using version = std::tuple<::ino_t, ::dev_t, ::off_t, ::time_t, long>;
  version last_;
};

}  // namespace gyre::net::detail
