// SPDX-License-Identifier: Apache-2.0
// open_directory: reads the entries of a directory by getdents(2).
// directory_stack: the directories from the root of a tree down to the present one.
#pragma once

#include <gyre/base/unique_fd.hpp>
#include <gyre/io/detail/path_call.hpp>
#include <gyre/io/file_type.hpp>

#include <dirent.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gyre::io::detail {

file_type type_of_mode(::mode_t mode) noexcept;

/// Opens the directory `name` in `directory` for reading. `flags` is O_NOFOLLOW or zero. Errors:
/// returns an empty descriptor and sets errno.
unique_fd open_directory_in(int directory, const char* name, int flags) noexcept;

/// An entry as the kernel gives it. The name ends with a zero byte, and stays valid until further
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
  /// Null at the end. A file system that does not tell types costs a statx(2) for each entry.
  outcome_of<std::optional<raw_entry>> next();
  /// Whether next() makes a system call.
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
  ::off64_t position_ = 0;  // after the last entry taken
};

/// The way from the root of a tree to the innermost directory, which is read.
///
/// Each directory is opened by its name within its parent (openat(2)), so that the tree cannot be
/// left when directories are moved meanwhile. Only the innermost `most_open` directories have
/// descriptors. The way back to one without is "..", if that is still the same directory. The
/// parent of a directory that was entered through a symlink, which has another "..", stays open;
/// so there may be no more than `most_symlinks`, the kernel's own limit for a path.
class directory_stack {
 public:
  static constexpr std::size_t most_open = 16;
  static constexpr std::size_t most_symlinks = 40;

  explicit directory_stack(std::string root) noexcept : path_(std::move(root)) {}

  struct identity {
    ::dev_t device = 0;
    ::ino_t inode = 0;
    friend bool operator==(const identity&, const identity&) = default;
  };

  // These return an error number, or zero.
  /// Opens the root by its name `name` in `directory`. `flags`: O_NOFOLLOW, or zero.
  int open_root(int directory, const char* name, int flags);
  /// ELOOP: a symlink leads to a directory that is on the way already, or there are too many.
  int enter(const char* name, bool through_symlink);
  /// After an error there is no way back: ESTALE if the innermost directory was moved elsewhere.
  int leave() noexcept;

  /// The number of directories; zero before open_root(), and after the root was left.
  std::size_t depth() const noexcept { return levels_.size(); }
  open_directory& innermost() noexcept { return levels_.back().directory; }
  const identity& innermost_identity() const noexcept { return levels_.back().id; }
  /// The path of the innermost directory, which begins with that of the root.
  const std::string& path() const noexcept { return path_; }
  std::string path_of(std::string_view name) const;

 private:
  struct level {
    open_directory directory = {};
    identity id = {};
    std::size_t path_size = 0;
    bool through_symlink = false;
  };
  static int identify(int fd, identity& id) noexcept;
  bool is_on_the_way(const identity& id) const noexcept;
  void close_outer() noexcept;

  std::vector<level> levels_;
  std::string path_;
  std::size_t symlinks_ = 0;
};

}  // namespace gyre::io::detail
