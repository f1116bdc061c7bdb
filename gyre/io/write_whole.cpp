// SPDX-License-Identifier: Apache-2.0
#include <gyre/io/write_whole.hpp>

#include <gyre/base/detail/retry_interrupted.hpp>
#include <gyre/io/detail/random_name.hpp>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <optional>

namespace gyre::io::detail {
namespace {

int sync(int fd) noexcept {
  return gyre::detail::retry_interrupted([&] { return ::fsync(fd); }) < 0 ? errno : 0;
}

// The permissions of the file to replace, if there is one.
std::optional<::mode_t> mode_of(int folder, const std::string& name) noexcept {
  struct ::statx status;
  const int found = ::statx(folder, name.c_str(), AT_SYMLINK_NOFOLLOW, STATX_MODE, &status);
  if (found < 0 || S_ISLNK(status.stx_mode)) return std::nullopt;
  return status.stx_mode & ::mode_t{0777};
}

}  // namespace

file_steps::next write_path_steps::begin() noexcept {
  return open(path_, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
}

file_steps::next write_path_steps::advance(result outcome) noexcept {
  switch (stage_) {
    case stage::opening:
      if (!outcome) return fail(outcome.error_number());
      closing_ = close_steps(unique_fd(outcome.fd()));
      // A ring would write to a pipe, whatever the offset, and wait while it is full.
      if (::lseek(outcome.fd(), 0, SEEK_CUR) < 0) return write_or_close(fail(errno));
      stage_ = stage::writing;
      writing_ = write_steps(outcome.fd(), bytes_, 0);
      return write_or_close(writing_.begin());
    case stage::writing: return write_or_close(writing_.advance(outcome));
    case stage::closing: {
      const next rest = closing_.advance(outcome);
      if (const auto closed = closing_.outcome(); !closed) return fail(closed.error().value());
      return rest;
    }
  }
  std::unreachable();
}

file_steps::next write_path_steps::write_or_close(const next& writing) noexcept {
  if (writing) return writing;
  stage_ = stage::closing;
  return closing_.begin();
}

outcome_of<void> replacement::run() {
  const std::size_t slash = path_.rfind('/');
  const std::string name = path_.substr(slash + 1);
  if (path_.contains('\0')) return failure_of(EINVAL);
  if (name.empty()) return failure_of(path_.empty() ? ENOENT : EISDIR);
  const std::string folder = slash == path_.npos ? "." : path_.substr(0, slash + 1);
  const unique_fd opened(gyre::detail::retry_interrupted(
      [&] { return ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); }));
  const int error = opened ? replace(opened.get(), name) : errno;
  if (error != 0) return failure_of(error);
  return {};
}

int replacement::replace(int folder, const std::string& name) {
  const std::optional<::mode_t> present_mode = mode_of(folder, name);
  unique_fd made;
  std::string made_name;
  int error = make_with_random_name(".gyre-", [&](const std::string& attempt) {
    made_name = attempt;
    return make_file(folder, attempt, present_mode ? 0600 : options_.mode, made);
  });
  if (!made) return error;
  // Before the content is there, which others may not be allowed to see.
  if (present_mode && ::fchmod(made.get(), *present_mode) < 0) error = errno;
  if (error == 0) error = write(std::move(made));
  if (error == 0 && ::renameat2(folder, made_name.c_str(), folder, name.c_str(), 0) < 0) {
    error = errno;
  }
  if (error != 0) {
    ::unlinkat(folder, made_name.c_str(), 0);
    return error;
  }
  error = options_.sync ? sync(folder) : 0;
  return error == EINVAL ? 0 : error;  // a file system without fsync(2) of directories
}

int replacement::make_file(int folder, const std::string& name, ::mode_t mode,
                           unique_fd& made) const {
  made = unique_fd(gyre::detail::retry_interrupted([&] {
    return ::openat(folder, name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                    mode);
  }));
  return made ? 0 : errno;
}

int replacement::write(unique_fd to) const {
  write_steps writing(to.get(), bytes_, 0);
  perform(writing);
  if (const auto written = writing.outcome(); !written) return written.error().value();
  if (const int error = options_.sync ? sync(to.get()) : 0; error != 0) return error;
  close_steps closing(std::move(to));
  perform(closing);
  const auto closed = closing.outcome();
  return closed ? 0 : closed.error().value();
}

}  // namespace gyre::io::detail
