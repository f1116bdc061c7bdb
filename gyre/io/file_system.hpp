// SPDX-License-Identifier: Apache-2.0
// status, create_directories, rename, remove, remove_all: calls on the names of files, for
// coroutines.
//
//     co_await gyre::io::create_directories("cache/pages/7");
//     if (!co_await gyre::io::exists("cache/index")) co_await rebuild_index();
//     co_await gyre::io::rename("cache/index.new", "cache/index");
//     const std::uint64_t removed = co_await gyre::io::remove_all("cache/pages");
//
// The functions work like those of std::filesystem with the same names, and block no loop.
//
// Thread-safety: any thread.
// Errors: std::system_error that names the path, or values by as_expected(); std::errc::
// invalid_argument for a path with a zero byte. When a stop of the coroutine is requested before a
// thread has begun with the operation, it throws gyre::operation_cancelled, and nothing has
// happened; else it runs to its end.
// Complexity: all system calls of an operation are made on one thread, after two switches between
// threads (some 5 us): of `pool`, or of blocking_pool() if that is null. The kernel's own threads
// would make such calls for io_uring no faster.
#pragma once

#include <gyre/io/detail/path_call.hpp>
#include <gyre/task/executor.hpp>
#include <gyre/task/task.hpp>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/types.h>

#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>

namespace gyre::io {

/// Options of rename().
struct rename_options {
  /// Fails with std::errc::file_exists instead of replacing a file (RENAME_NOREPLACE), and with
  /// std::errc::invalid_argument on file systems that cannot.
  bool no_replace = false;
};
// GCC 12 destroys an aggregate's members twice if it is made within an awaited expression.
static_assert(std::is_trivially_destructible_v<rename_options>);

namespace detail {

outcome_of<struct ::stat> get_status(path_arguments& arguments);
outcome_of<bool> exists(path_arguments& arguments);
outcome_of<bool> make_directory(path_arguments& arguments);
outcome_of<bool> make_directories(path_arguments& arguments);
outcome_of<void> rename_file(path_arguments& arguments);
outcome_of<bool> remove_name(path_arguments& arguments);

unsigned flags_of(const rename_options& options) noexcept;

}  // namespace detail

/// Awaited, gives the struct stat of the file at `path`, after symlinks.
inline auto status(std::string path, executor* pool = nullptr) {
  return detail::path_operation("status", pool, {.path = std::move(path)}, &detail::get_status);
}
/// Does what status() does, but does not follow a symlink.
inline auto symlink_status(std::string path, executor* pool = nullptr) {
  return detail::path_operation("symlink_status", pool,
                                {.path = std::move(path), .flags = AT_SYMLINK_NOFOLLOW},
                                &detail::get_status);
}
/// Awaited, gives whether there is a file at `path`, after symlinks. A file that exists may be gone
/// a moment later: to create one, use open_options::create_new.
inline auto exists(std::string path, executor* pool = nullptr) {
  return detail::path_operation("exists", pool, {.path = std::move(path)}, &detail::exists);
}

/// Awaited, makes a directory, with the permissions of `mode` that the umask leaves. Gives whether
/// it did: false if it is there already. Errors: std::errc::file_exists if another thing is there,
/// std::errc::no_such_file_or_directory without its parent.
inline auto create_directory(std::string path, ::mode_t mode = 0777, executor* pool = nullptr) {
  return detail::path_operation("create_directory", pool, {.path = std::move(path), .mode = mode},
                                &detail::make_directory);
}
/// Does what create_directory() does, but also makes the directories above, like `mkdir -p`: these
/// get permission to write and search for their user besides `mode`. Gives whether it made any.
/// Several callers may do so at once. On an error the message has the directory that failed;
/// directories that were made above it stay.
inline auto create_directories(std::string path, ::mode_t mode = 0777, executor* pool = nullptr) {
  return detail::path_operation("create_directories", pool, {.path = std::move(path), .mode = mode},
                                &detail::make_directories);
}

/// Awaited, gives the file or directory at `source` the name `target`, and replaces a file or empty
/// directory of that name. Atomic: at any time there is either file at `target`. Errors:
/// std::errc::cross_device_link if they are on different file systems: copy the file there, and
/// rename the copy.
inline auto rename(std::string source, std::string target, rename_options options = {},
                   executor* pool = nullptr) {
  return detail::path_operation(
      "rename", pool,
      {.path = std::move(source), .target = std::move(target), .flags = detail::flags_of(options)},
      &detail::rename_file);
}

/// Awaited, removes a file, a symlink (not its target), or an empty directory. Gives whether it
/// did: false if nothing has that name. Errors: std::errc::directory_not_empty; not_a_directory for
/// a path that ends in a slash, but is not a directory.
inline auto remove(std::string path, executor* pool = nullptr) {
  return detail::path_operation("remove", pool, {.path = std::move(path)}, &detail::remove_name);
}

/// Removes what is at `path` and, if it is a directory, all that is in it; gives the count of names
/// removed. Never follows a symlink, but those in front of the last name of `path`, which are
/// resolved once. From then on names are removed within open directories, so nothing outside is
/// touched even if others rename directories or replace them by symlinks meanwhile. Names that
/// vanish meanwhile are not errors.
///
/// Errors: the first, after which the rest stays, as std::system_error with its path:
/// std::errc::directory_not_empty if others add names faster than they are removed, ESTALE if a
/// directory deeper than 16 is moved away meanwhile, or another file takes the name of the root,
/// std::errc::invalid_argument for a path that ends in "." or "..",
/// std::errc::device_or_resource_busy for "/". A stop is noticed after at most 1024 names.
/// Complexity: an unlinkat(2) for each name; at most 17 directories are open at a time, each with
/// 32 KiB. The memory grows with the depth.
[[nodiscard]] task<std::uint64_t> remove_all(std::string path, executor* pool = nullptr);

namespace detail {

/// Does what remove_all() does, at once and on this thread; removes an empty directory even without
/// a free descriptor. Returns an error number, or zero.
int remove_tree(std::string path) noexcept;

}  // namespace detail
}  // namespace gyre::io
