// SPDX-License-Identifier: Apache-2.0
// open_directory: reads the entries of a directory by getdents(2).
#pragma once

#include <gyre/base/unique_fd.hpp>
#include <gyre/io/detail/file_steps.hpp>
#include <gyre/io/file_type.hpp>

#include <dirent.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

namespace gyre::io::detail {

/// An entry as the kernel returns it. The name ends with a zero byte, and is valid until further
/// entries are read.
struct raw_entry {
  const char* name;
  file_type type;
  std::uint64_t inode;
};

/// The entries of an open directory, in the kernel's order, without "." and "..".
class open_directory {
 public:
  open_directory() noexcept = default;
  explicit open_directory(unique_fd fd) noexcept : fd_(std::move(fd)) {}

  int fd() const noexcept { return fd_.get(); }
  bool is_open() const noexcept { return static_cast<bool>(fd_); }
  /// Returns the next entry, or nothing at the end. A file system that does not report types costs
  /// a statx(2) for each entry.
  outcome_of<std::optional<raw_entry>> next();
  /// Returns whether next() will make a system call.
  bool needs_read() const noexcept { return begin_ == end_; }

  /// Frees the descriptor and the memory, but keeps the position.
  void close() noexcept;
  /// Continues at the position after close(). Returns an error number, or zero.
  int reopen(unique_fd fd) noexcept;

 private:
  static constexpr std::size_t buffer_size = std::size_t{32} << 10;

  const ::dirent64* take() noexcept;

  unique_fd fd_;
  std::unique_ptr<std::byte[]> buffer_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  ::off64_t position_ = 0;  // the position after the last returned entry
};

}  // namespace gyre::io::detail
