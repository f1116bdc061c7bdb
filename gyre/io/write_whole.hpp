// SPDX-License-Identifier: Apache-2.0
// write_whole, replace_whole: write the whole content of a file, in place or atomically.
//
//     co_await gyre::io::write_whole("report.txt", report);
//     co_await gyre::io::replace_whole("settings.json", settings);  // the old ones, or the new ones
#pragma once

#include <gyre/io/detail/file_operation.hpp>
#include <gyre/io/detail/path_call.hpp>
#include <gyre/task/executor.hpp>

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace gyre::io {

/// Options of replace_whole().
struct replace_options {
  /// The permissions of a new file, of which the umask takes some; a file that is replaced passes
  /// its permissions on.
  ::mode_t mode = 0666;
  /// Whether the content and then the name are flushed to the device, so that a power failure
  /// leaves either content, too; without that, one may find an empty file.
  bool sync = true;
};
// GCC 12 destroys an aggregate's members twice if it is made within an awaited expression.
static_assert(std::is_trivially_destructible_v<replace_options>);

namespace detail {

/// Opens, writes and closes the file at a path.
class write_path_steps final : public file_steps {
 public:
  using value_type = void;
  write_path_steps(std::string path, std::span<const std::byte> bytes) noexcept
      : path_(std::move(path)), bytes_(bytes), writing_(-1, bytes, 0) {}
  next begin() noexcept override;
  next advance(result outcome) noexcept override;
  outcome_of<void> outcome() const noexcept {
    return failed() ? file_steps::outcome() : writing_.outcome();
  }
  const std::string& path() const noexcept { return path_; }

 private:
  enum class stage : std::uint8_t { opening, writing, closing };
  next write_or_close(const next& writing) noexcept;

  std::string path_;
  std::span<const std::byte> bytes_;
  write_steps writing_;
  close_steps closing_;
  stage stage_ = stage::opening;
};

/// The work of replace_whole().
class replacement {
 public:
  using value_type = void;
  replacement(std::string path, std::span<const std::byte> bytes, replace_options options) noexcept
      : path_(std::move(path)), bytes_(bytes), options_(options) {}
  outcome_of<void> run();
  const std::string& path() const noexcept { return path_; }

 private:
  int replace(int folder, const std::string& name);
  int make_file(int folder, const std::string& name, ::mode_t mode, unique_fd& made) const;
  int write(unique_fd to) const;

  std::string path_;
  std::span<const std::byte> bytes_;
  replace_options options_;
};

}  // namespace detail

/// Awaited, writes all bytes to the file at `path`, which is created with the mode 0666 that the
/// umask leaves, or emptied first; gives nothing. Readers may see a part of it, and after an error
/// or a stop a part stays: replace_whole() does without that. Does file::open(), file::write_at()
/// and file::close() as one operation, by io_uring where file does.
///
/// Lifetime: `bytes` must outlive the operation.
/// Errors: those of the calls, as std::system_error that names the path; std::errc::invalid_seek
/// for a pipe or terminal, such as /dev/stdout may be: use a stream for those.
inline auto write_whole(std::string path, std::span<const std::byte> bytes) {
  return detail::file_operation("write", {.kind = file_call_kind::open},
                                detail::write_path_steps(std::move(path), bytes));
}
inline auto write_whole(std::string path, std::string_view text) {
  return write_whole(std::move(path), std::as_bytes(std::span(text)));
}

/// Awaited, gives the file at `path` a new content; gives nothing. At any time, even after the
/// program was killed, a reader finds either the old content or the new one: a file with a random
/// name beside it is written, flushed and renamed. A reader that has the old file open or mapped
/// keeps it.
///
/// The new file has the old one's permissions, but not its owner, its hard links or the set-user-ID
/// and set-group-ID bits. A symlink or FIFO at `path` is replaced itself.
///
/// Lifetime: `bytes` must outlive the operation.
/// Errors: as write_whole(); the old content stays, and the new file is removed. An error of the
/// last step, in which the folder is flushed, leaves the new content. A program that is killed may
/// leave a file ".gyre-…" behind. A stop before a thread of `pool` (null: of blocking_pool()) has
/// begun cancels; later ones come too late.
/// Complexity: two fsync(2), which take milliseconds on disks.
inline auto replace_whole(std::string path, std::span<const std::byte> bytes,
                          replace_options options = {}, executor* pool = nullptr) {
  return detail::blocking_operation("replace", pool,
                                    detail::replacement(std::move(path), bytes, options));
}
inline auto replace_whole(std::string path, std::string_view text, replace_options options = {},
                          executor* pool = nullptr) {
  return replace_whole(std::move(path), std::as_bytes(std::span(text)), options, pool);
}

}  // namespace gyre::io
