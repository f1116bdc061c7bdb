// SPDX-License-Identifier: Apache-2.0
// temporary_file, temporary_directory: files that are gone when they are no longer used.
//
//     gyre::io::file scratch = co_await gyre::io::temporary_file();
//     co_await scratch.write_at(rows, 0);
//
//     auto work = co_await gyre::io::temporary_directory::create();
//     co_await unpack("pages.tar", work / "pages");
//     co_await work.remove();
#pragma once

#include <gyre/io/detail/path_call.hpp>
#include <gyre/io/file.hpp>
#include <gyre/task/executor.hpp>
#include <gyre/task/task.hpp>

#include <sys/types.h>

#include <string>
#include <string_view>
#include <utility>

namespace gyre::io {

class temporary_directory;

namespace detail {

outcome_of<file> open_temporary_file(path_arguments& arguments);
outcome_of<temporary_directory> make_temporary_directory(path_arguments& arguments);

}  // namespace detail

/// Awaited, opens a file without a name for reading and writing, and gives it, an io::file: its
/// blocks are free as soon as the file is closed, or the program ends, however it ends. `folder`: a
/// directory on its file system; by default $TMPDIR, or /tmp. The file is made on `pool`; null: on
/// blocking_pool().
///
/// Errors: those of open(2), as std::system_error that names the folder.
/// Complexity: one open(2) (O_TMPFILE). File systems that cannot do that, such as NFS, get a file
/// with a random name, which is removed at once.
inline auto temporary_file(std::string folder = {}, executor* pool = nullptr) {
  return detail::path_operation("temporary_file", pool, {.path = std::move(folder)},
                                &detail::open_temporary_file);
}

/// A directory with a random name that only its user can enter (mode 0700), and which is removed
/// with everything in it. Move-only.
///
/// The destructor removes the directory as well, on its own thread, which then waits for the disk:
/// a removal in the background might never happen in a program that ends. A coroutine on a loop
/// awaits remove() instead, which also reports errors.
///
/// Thread-safety: one thread at a time; path() at any time.
/// Lifetime: must outlive remove(). In a forked child the destructor removes nothing. A program
/// that is killed does not remove the directory.
/// Errors: those of mkdir(2), as std::system_error that names the folder, and those of
/// remove_all(); the destructor drops errors. Without a free descriptor the destructor removes the
/// directory only if it is empty.
class temporary_directory {
 public:
  /// Makes an object without a directory.
  temporary_directory() noexcept = default;
  temporary_directory(temporary_directory&& other) noexcept
      : path_(std::exchange(other.path_, {})), process_(other.process_) {}
  temporary_directory& operator=(temporary_directory&& other) noexcept {
    temporary_directory source(std::move(other));
    path_.swap(source.path_);
    std::swap(process_, source.process_);
    return *this;
  }
  ~temporary_directory();

  /// Awaited, makes a directory in `folder`, by default $TMPDIR or /tmp, and gives its owner.
  static auto create(std::string folder = {}, executor* pool = nullptr) {
    return detail::path_operation("temporary_directory", pool, {.path = std::move(folder)},
                                  &detail::make_temporary_directory);
  }

  /// Returns the absolute path; empty once the directory is removed or released.
  const std::string& path() const noexcept { return path_; }
  /// Returns the path of a name in the directory. Throws std::logic_error without a directory.
  [[nodiscard]] std::string operator/(std::string_view name) const;

  /// Removes the directory as remove_all() does. After an error or a stop the destructor tries to
  /// remove the rest.
  [[nodiscard]] task<> remove(executor* pool = nullptr);
  /// Keeps the directory, and returns its path.
  [[nodiscard]] std::string release() noexcept { return std::exchange(path_, {}); }

 private:
  friend detail::outcome_of<temporary_directory> detail::make_temporary_directory(
      detail::path_arguments& arguments);

  std::string path_;
  ::pid_t process_ = 0;
};

}  // namespace gyre::io
