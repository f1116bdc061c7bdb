// SPDX-License-Identifier: Apache-2.0
// walk: all names below a directory, depth first, for coroutines.
//
//     auto tree = gyre::io::walk("src", {.descend = [](const gyre::io::walk_entry& directory) {
//                                  return directory.name() != ".git";
//                                }});
//     while (gyre::io::walk_entry* entry = co_await tree.next()) {
//       if (entry->path.ends_with(".hpp")) headers.push_back(entry->path);
//     }
#pragma once

#include <gyre/io/file_type.hpp>
#include <gyre/task/async_generator.hpp>
#include <gyre/task/executor.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>

namespace gyre::io {

/// A name that walk() has found.
struct walk_entry {
  /// The path of the name, which begins with the path of the root.
  std::string path;
  file_type type = file_type::unknown;
  /// The number of names below the root in the path: one for the names in the root.
  std::size_t depth = 0;
  std::uint64_t inode = 0;
  /// The size of a regular file in bytes, with walk_options::sizes; zero for others, and for a file
  /// that has vanished.
  std::uint64_t size = 0;
  /// The reason for which the names in this directory are missing, with
  /// walk_options::report_errors.
  std::error_code error;

  /// Returns the last part of the path.
  std::string_view name() const noexcept {
    return std::string_view(path).substr(path.rfind('/') + 1);
  }
};

/// Options of walk().
struct walk_options {
  /// The largest depth of names that are given: with one, only those in the root; with zero, none.
  std::size_t max_depth = std::numeric_limits<std::size_t>::max();
  /// Whether symlinks to directories are followed, too. A symlink that leads back to a directory
  /// that contains it, and more than 40 within each other, are errors (ELOOP).
  bool follow_symlinks = false;
  /// Whether a directory that cannot be read is reported by walk_entry::error, and the walk
  /// continues. Otherwise the error ends the walk by an exception.
  bool report_errors = false;
  /// Whether walk_entry::size is filled in. Costs a statx(2) for each regular file, within its open
  /// directory, on the thread that reads the names: much less than a status() for each path.
  bool sizes = false;
  /// Whether the names in a directory that was found are wanted; null: all. Called on a thread of
  /// the pool. Must not throw.
  bool (*descend)(const walk_entry& directory) = nullptr;
};
// GCC 12 destroys an aggregate's members twice if it is made within an awaited expression.
static_assert(std::is_trivially_destructible_v<walk_options>);

/// The names below the directory at `root`, which may be a symlink to one, as a sequence: each
/// directory comes before the names in it, otherwise the order is the file system's. `pool` makes
/// the calls; null: blocking_pool().
///
/// The walk cannot leave the tree while names in it change, because directories are opened by their
/// names within their parents (openat(2)), without following symlinks. A directory that vanishes
/// before it is read has no names.
///
/// Thread-safety: next() may be awaited on any thread, by one coroutine at a time.
/// Lifetime: an entry lives until next() is awaited again, and may be moved from. A consumer may
/// stop at any entry: the generator's destructor closes the directories.
/// Errors: next() throws std::system_error that names the path; also ESTALE if a directory deeper
/// than 16 was moved to another one while it was read, which ends any walk. A stop is noticed
/// between batches.
/// Complexity: a batch of up to 256 entries, or 1 MiB of paths, is read by a thread of the pool.
/// Each directory costs an openat(2), a statx(2) and two or more getdents(2). At most 16
/// directories are open, and one for each symlink on the way, each with 32 KiB; the rest of the
/// memory grows with the depth, not with the count of names.
async_generator<walk_entry&> walk(std::string root, walk_options options = {},
                                  executor* pool = nullptr);

}  // namespace gyre::io
