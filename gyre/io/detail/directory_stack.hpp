// SPDX-License-Identifier: Apache-2.0
// directory_stack: the directories from the root of a tree to the one that is being read.
#pragma once

#include <gyre/io/detail/open_directory.hpp>

#include <sys/types.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gyre::io::detail {

/// The directories from the root of a tree to the innermost one, which is being read.
///
/// Each directory is opened by its name within its parent (openat(2)), so that the walk cannot
/// leave the tree when directories are moved meanwhile. Only the innermost `max_open` directories
/// have descriptors. A directory without a descriptor is opened again as "..", if ".." is still the
/// same directory. The parent of a directory that was entered through a symlink stays open, because
/// ".." of that directory is another one; so there may be no more than `max_symlinks`, the kernel's
/// own limit for a path.
class directory_stack {
 public:
  static constexpr std::size_t max_open = 16;
  static constexpr std::size_t max_symlinks = 40;

  explicit directory_stack(std::string root) noexcept : path_(std::move(root)) {}

  struct identity {
    ::dev_t device = 0;
    ::ino_t inode = 0;
    friend bool operator==(const identity&, const identity&) = default;
  };

  /// Opens the root by its name `name` in `directory`. `flags`: O_NOFOLLOW, or zero. Returns an
  /// error number, or zero.
  int open_root(int directory, const char* name, int flags);
  /// Opens the directory `name` in the innermost one. Returns an error number, or zero; ELOOP: a
  /// symlink leads to a directory that is in the stack already, or there are too many symlinks.
  int enter(const char* name, bool through_symlink);
  /// Returns to the parent of the innermost directory. Returns an error number, or zero; after an
  /// error the stack cannot be used. ESTALE: the innermost directory was moved elsewhere.
  int leave() noexcept;

  /// Returns the number of directories; zero before open_root(), and after the root was left.
  std::size_t depth() const noexcept { return levels_.size(); }
  open_directory& innermost() noexcept { return levels_.back().directory; }
  const identity& innermost_identity() const noexcept { return levels_.back().id; }
  /// Returns the path of the innermost directory, which begins with that of the root.
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
  bool contains(const identity& id) const noexcept;
  void close_outer() noexcept;

  std::vector<level> levels_;
  std::string path_;
  std::size_t symlinks_ = 0;
};

}  // namespace gyre::io::detail
