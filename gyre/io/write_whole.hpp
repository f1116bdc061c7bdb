// SPDX-License-Identifier: Apache-2.0
// write_whole, replace_whole: write the whole content of a file, in place or atomically.
//
//     co_await gyre::io::write_whole("report.txt", report);
//     co_await gyre::io::replace_whole("settings.json", settings);  // the old ones, or the new ones
#pragma once

#include <gyre/io/detail/file_operation.hpp>
#include <gyre/io/detail/file_routine.hpp>
#include <gyre/io/detail/path_call.hpp>
#include <gyre/task/executor.hpp>

#include <sys/types.h>

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace gyre::io {

/// Options of replace_whole().
struct replace_options {
  /// The permissions of a new file, reduced by the umask; a file that replaces another one gets the
  /// permissions of the replaced file.
  ::mode_t mode = 0666;
  /// Whether the content and then the name are flushed to the device, so that even after a power
  /// failure there is either content; otherwise the file may be empty then.
  bool sync = true;
};
// GCC 12 destroys an aggregate's members twice if it is made within an awaited expression.
static_assert(std::is_trivially_destructible_v<replace_options>);

namespace detail {

/// Opens, writes and closes the file at the path of `arguments`.
file_routine<void> write_content(routine_memory&, const file_arguments& arguments);
/// Does the work of replace_whole(); blocks.
outcome_of<void> replace_content(const std::string& path, std::span<const std::byte> bytes,
                                 replace_options options);

}  // namespace detail

/// Awaited, writes all bytes to the file at `path`, which is created with the mode 0666 that the
/// umask leaves, or emptied first; gives nothing. Readers may see a part of it, and after an error
/// or a stop a part stays: replace_whole() leaves no such part. Does file::open(), file::write_at()
/// and file::close() as one operation, by io_uring where io::file uses it.
///
/// Thread-safety: any thread.
/// Lifetime: `bytes` must outlive the operation.
/// Errors: those of the calls, as std::system_error that names the path; std::errc::invalid_seek
/// for a pipe or terminal, such as /dev/stdout may be: use a stream for those. Files of /proc and
/// the signal SIGXFSZ: see file::write_at().
inline auto write_whole(std::string path, std::span<const std::byte> bytes) {
  return detail::file_operation(
      "write", {.kind = file_call_kind::open},
      detail::routine_steps(&detail::write_content, {.path = std::move(path), .bytes = bytes}));
}
inline auto write_whole(std::string path, std::string_view text) {
  return write_whole(std::move(path), std::as_bytes(std::span(text)));
}

/// Awaited, gives the file at `path` a new content; gives nothing. At any time, even after the
/// program was killed, a reader finds either the old content or the new one: a file with a random
/// name in the same folder is written, flushed and renamed. A reader that has the old file open or
/// mapped keeps it.
///
/// The new file has the old one's permissions, but not its owner, its hard links or the set-user-ID
/// and set-group-ID bits. A symlink or FIFO at `path` is replaced itself.
///
/// Thread-safety: any thread. After two concurrent calls for one path, the content of one of them
/// stays.
/// Lifetime: `bytes` must outlive the operation.
/// Errors: as write_whole(); the old content stays, and the new file is removed. An error of the
/// last step, in which the folder is flushed, leaves the new content. A program that is killed may
/// leave a file ".gyre-…" there. A stop before a thread of `pool` (null: of blocking_pool()) has
/// begun cancels; later ones come too late.
/// Complexity: two fsync(2), which take milliseconds on disks.
inline auto replace_whole(std::string path, std::span<const std::byte> bytes,
                          replace_options options = {}, executor* pool = nullptr) {
  return detail::path_operation("replace", pool, {.path = std::move(path)},
                                [bytes, options](const detail::path_arguments& arguments) {
                                  return detail::replace_content(arguments.path, bytes, options);
                                });
}
inline auto replace_whole(std::string path, std::string_view text, replace_options options = {},
                          executor* pool = nullptr) {
  return replace_whole(std::move(path), std::as_bytes(std::span(text)), options, pool);
}

}  // namespace gyre::io
