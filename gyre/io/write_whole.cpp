// SPDX-License-Identifier: Apache-2.0
#include <gyre/io/write_whole.hpp>

#include <gyre/io/detail/random_name.hpp>
#include <gyre/io/detail/system_files.hpp>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <optional>

namespace gyre::io::detail {
namespace {

// Returns the permissions of the file that is to be replaced, if there is one.
std::optional<::mode_t> mode_of(int folder, const std::string& name) noexcept {
  const auto status = system::status_at(folder, name.c_str(), AT_SYMLINK_NOFOLLOW, STATX_MODE);
  if (!status || S_ISLNK(status->stx_mode)) return std::nullopt;
  return status->stx_mode & ::mode_t{0777};
}

// Writes and closes a file, and flushes it if `flushes`. Returns an error number, or zero.
int write_and_close(unique_fd target, std::span<const std::byte> bytes, bool flushes) noexcept {
  write_steps steps(target.get(), bytes, 0);
  steps.run();
  if (const auto result = steps.outcome(); !result) return result.error().value();
  if (const int error = flushes ? system::sync(target.get()) : 0; error != 0) return error;
  close_steps close_calls(std::move(target));
  close_calls.run();
  const auto close_result = close_calls.outcome();
  return close_result ? 0 : close_result.error().value();
}

}  // namespace

file_routine<void> write_content(routine_memory&, const file_arguments& arguments) {
  const result open_result = co_await file_command::open(
      arguments.path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (!open_result) co_return failure_of(open_result);
  unique_fd target(open_result.fd());
  // A pipe has no position: a ring would write to it at any offset, and wait while it is full.
  result outcome = system::seek(target.get(), 0, SEEK_CUR);
  std::span<const std::byte> rest = arguments.bytes;
  while (outcome && !rest.empty()) {
    const std::size_t offset = arguments.bytes.size() - rest.size();
    outcome = co_await file_command::write(target.get(), rest, offset);
    if (outcome) rest = rest.subspan(outcome.count());
    // A device may take no bytes without an error.
    if (outcome && outcome.count() == 0) outcome = result::failure(EIO);
  }
  const result close_result = co_await file_command::close(target.get());
  const int error = close_result.error_number();
  if (error != ECANCELED) static_cast<void>(target.release());
  if (error != 0 && error != EINTR) co_return failure_of(close_result);
  if (!outcome) co_return failure_of(outcome);
  co_return outcome_of<void>();
}

outcome_of<void> replace_content(const std::string& path, std::span<const std::byte> bytes,
                                 replace_options options) {
  const std::size_t slash = path.rfind('/');
  const std::string name = path.substr(slash + 1);
  if (name.empty()) return failure_of(path.empty() ? ENOENT : EISDIR);
  const std::string folder_path = slash == path.npos ? "." : path.substr(0, slash + 1);
  const auto fd = system::open(folder_path.c_str(), O_RDONLY | O_DIRECTORY);
  if (!fd) return failure_of(fd.error());
  const int folder = fd->get();
  const std::optional<::mode_t> old_mode = mode_of(folder, name);
  unique_fd new_file;
  std::string new_name;
  int error = make_with_random_name(".gyre-", [&](const std::string& attempt) {
    new_name = attempt;
    auto new_fd = system::open_at(folder, attempt.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW,
                                  old_mode ? 0600 : options.mode);
    if (!new_fd) return new_fd.error();
    new_file = *std::move(new_fd);
    return 0;
  });
  if (!new_file) return failure_of(error);
  // The mode is set before the content is written, which other users may not be allowed to read.
  if (old_mode) error = system::change_mode(new_file.get(), *old_mode);
  if (error == 0) error = write_and_close(std::move(new_file), bytes, options.sync);
  if (error == 0) error = system::rename_at(folder, new_name.c_str(), folder, name.c_str(), 0);
  if (error != 0) {
    system::unlink_at(folder, new_name.c_str(), 0);
    return failure_of(error);
  }
  error = options.sync ? system::sync(folder) : 0;
  // A file system without fsync(2) of directories fails with EINVAL.
  if (error != 0 && error != EINVAL) return failure_of(error);
  return {};
}

}  // namespace gyre::io::detail
