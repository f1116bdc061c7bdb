// SPDX-License-Identifier: Apache-2.0
// file_version: tells whether a file has changed since it was last read.
#pragma once

#include <sys/stat.h>

#include <string>

namespace gyre::net::detail {

/// One system call for each question.
class file_version {
 public:
  /// Whether the file at `path` is another than it was the last time, and remembers it; a file that
  /// is not there, or not a regular one, is none. True the first time, if there is one.
  bool update(const std::string& path) noexcept {
    struct stat present{};
    // Reading from something else, such as a pipe, could block.
    if (::stat(path.c_str(), &present) != 0 || !S_ISREG(present.st_mode)) present = {};
    const bool same = present.st_ino == last_.st_ino && present.st_dev == last_.st_dev &&
                      present.st_size == last_.st_size &&
                      present.st_mtim.tv_sec == last_.st_mtim.tv_sec &&
                      present.st_mtim.tv_nsec == last_.st_mtim.tv_nsec;
    last_ = present;
    return !same;
  }
  /// Whether there was one the last time.
  bool exists() const noexcept { return last_.st_ino != 0; }

 private:
  struct stat last_{};
};

}  // namespace gyre::net::detail
