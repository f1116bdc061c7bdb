// SPDX-License-Identifier: Apache-2.0
#include <gyre/base/detail/replace_file.hpp>

#include <gyre/base/detail/retry_interrupted.hpp>
#include <gyre/base/unique_fd.hpp>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>

namespace gyre::detail {
namespace {

// Returns 0, or the errno of the call that failed, and may leave a part of the file.
int write_new_file(const char* path, std::string_view content) noexcept {
  // O_EXCL is needed because in a folder that others can write to, the name may be a link of
  // theirs.
  const unique_fd file(retry_interrupted(
      [&] { return ::open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR); }));
  if (!file) return errno;
  while (!content.empty()) {
    const ssize_t count =
        retry_interrupted([&] { return ::write(file.get(), content.data(), content.size()); });
    if (count < 0) return errno;
    content.remove_prefix(static_cast<std::size_t>(count));
  }
  return 0;
}

}  // namespace

int replace_file(const std::string& path, std::string_view content) {
  const std::string new_path = path + ".tmp";
  ::unlink(new_path.c_str());  // a process that ended while it wrote may have left this file
  int error = write_new_file(new_path.c_str(), content);
  if (error == 0 && std::rename(new_path.c_str(), path.c_str()) != 0) error = errno;
  if (error != 0 && error != EEXIST) ::unlink(new_path.c_str());
  return error;
}

std::optional<std::chrono::system_clock::time_point> last_write_time(const char* path) noexcept {
  struct stat status{};
  if (::stat(path, &status) != 0) return std::nullopt;
  using clock = std::chrono::system_clock;
  // libc++'s clock counts microseconds.
  return clock::time_point(std::chrono::duration_cast<clock::duration>(
      std::chrono::seconds(status.st_mtim.tv_sec) +
      std::chrono::nanoseconds(status.st_mtim.tv_nsec)));
}

}  // namespace gyre::detail
