// SPDX-License-Identifier: Apache-2.0
#include <gyre/io/detail/file_steps.hpp>

#include <gyre/io/detail/system_files.hpp>

#include <fcntl.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>

namespace gyre::io::detail {
namespace {

::timespec time_of(const struct ::statx_timestamp& stamp) noexcept {
  return {.tv_sec = stamp.tv_sec, .tv_nsec = stamp.tv_nsec};
}

}  // namespace

struct ::stat stat_of(const struct ::statx& status) noexcept {
  struct ::stat copy{};
  copy.st_dev = system::device_of(status);
  copy.st_ino = status.stx_ino;
  copy.st_mode = status.stx_mode;
  copy.st_nlink = status.stx_nlink;
  copy.st_uid = status.stx_uid;
  copy.st_gid = status.stx_gid;
  copy.st_rdev = ::makedev(status.stx_rdev_major, status.stx_rdev_minor);
  copy.st_size = static_cast<::off_t>(status.stx_size);
  copy.st_blksize = static_cast<::blksize_t>(status.stx_blksize);
  copy.st_blocks = static_cast<::blkcnt_t>(status.stx_blocks);
  copy.st_atim = time_of(status.stx_atime);
  copy.st_mtim = time_of(status.stx_mtime);
  copy.st_ctim = time_of(status.stx_ctime);
  return copy;
}

std::string path_in_message(std::string path) {
  if (!path.contains('\0')) return path;
  for (std::size_t position = 0; (position = path.find('\0', position)) != path.npos;
       position += 2) {
    path.replace(position, 1, "\\0");
  }
  return path + " (a path cannot have a zero byte)";
}

bool suits_ring(int fd) noexcept {
  if (fd < 0 || !system::seek(fd, 0, SEEK_CUR)) return false;
  const auto flags = system::flags_of(fd);
  if (!flags || (*flags & O_NONBLOCK) != 0) return false;
  // Event descriptors (eventfd, timerfd, epoll) support lseek(2), but are files without a type.
  const auto status = system::status_of(fd, STATX_TYPE, AT_STATX_DONT_SYNC);
  return status && (status->stx_mode & S_IFMT) != 0;
}

void file_steps::run() noexcept {
  for (next command = begin(); command;) command = advance(io::perform(*command));
}

file_steps::next read_steps::advance(result outcome) noexcept {
  if (!outcome) return fail(outcome.error_number());
  rest_ = rest_.subspan(outcome.count());
  offset_ += outcome.count();
  count_ += outcome.count();
  const bool is_end = outcome.count() == 0 || outcome.count() % alignment_ != 0;
  return !transfers_all_ || is_end || rest_.empty() ? next() : read_rest();
}

file_steps::next write_steps::begin() noexcept {
  if (rest_.empty()) return {};
  return file_command::write(fd_, rest_, offset_);
}

file_steps::next write_steps::advance(result outcome) noexcept {
  if (!outcome) return fail(outcome.error_number());
  if (outcome.count() == 0) return fail(EIO);  // a device may take no bytes without an error
  rest_ = rest_.subspan(outcome.count());
  offset_ += outcome.count();
  return begin();
}

const char* write_steps::hint() const noexcept {
  if (!has_failed_with(EINVAL)) return "";
  constexpr int direct_append = O_APPEND | O_DIRECT;
  const bool is_direct_append =
      (system::flags_of(fd_).value_or(0) & direct_append) == direct_append;
  return is_direct_append ? " (`direct` appends only to a file whose size is a multiple of "
                            "direct_alignment())"
                          : "";
}

file_steps::next close_steps::begin() noexcept {
  if (!fd_) return fail(EBADF);
  return file_command::close(fd_.get());
}

// Ends with the outcome of the close. On Linux a close that fails frees the descriptor
// nevertheless.
file_steps::next close_steps::advance(result outcome) noexcept {
  const int error = outcome.error_number();
  if (error != ECANCELED) static_cast<void>(fd_.release());
  return error == EINTR ? next() : fail(error);
}

}  // namespace gyre::io::detail
