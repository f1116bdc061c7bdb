// SPDX-License-Identifier: Apache-2.0
#include <gyre/io/detail/system_files.hpp>

#include <gyre/base/detail/retry_interrupted.hpp>

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <poll.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>

namespace gyre::io::detail::system {
namespace {

using gyre::detail::retry_interrupted;

int error_of(int call_result) noexcept { return call_result < 0 ? errno : 0; }

expected<unique_fd> owned(int fd) noexcept {
  if (fd < 0) return std::unexpected(errno);
  return unique_fd(fd);
}

::off_t offset_of(std::uint64_t offset) noexcept { return static_cast<::off_t>(offset); }

}  // namespace

expected<unique_fd> open(const char* path, int flags, ::mode_t mode) noexcept {
  return owned(retry_interrupted([&] { return ::open(path, flags | O_CLOEXEC, mode); }));
}

expected<unique_fd> open_at(int directory, const char* path, int flags, ::mode_t mode) noexcept {
  return owned(
      retry_interrupted([&] { return ::openat(directory, path, flags | O_CLOEXEC, mode); }));
}

expected<unique_fd> open_beneath(int directory, const char* path, int flags,
                                 std::uint64_t resolve) noexcept {
  ::open_how request{};
  request.flags = static_cast<std::uint64_t>(flags) | O_CLOEXEC;
  request.resolve = resolve;
  return owned(static_cast<int>(retry_interrupted(
      [&] { return ::syscall(SYS_openat2, directory, path, &request, sizeof request); })));
}

expected<file_status> status_at(int directory, const char* path, int flags,
                                unsigned mask) noexcept {
  expected<file_status> status;
  const int result = retry_interrupted(
      [&] { return ::statx(directory, path, flags | AT_NO_AUTOMOUNT, mask, &*status); });
  if (result < 0) status = std::unexpected(errno);
  return status;
}

int make_directory_at(int directory, const char* path, ::mode_t mode) noexcept {
  return error_of(::mkdirat(directory, path, mode));
}

int rename_at(int source_directory, const char* source, int target_directory, const char* target,
              unsigned flags) noexcept {
  return error_of(::renameat2(source_directory, source, target_directory, target, flags));
}

int unlink_at(int directory, const char* path, int flags) noexcept {
  return error_of(::unlinkat(directory, path, flags));
}

expected<std::string> read_link(const char* path) {
  std::array<char, PATH_MAX> target;
  const ssize_t size = ::readlink(path, target.data(), target.size());
  if (size < 0) return std::unexpected(errno);
  return std::string(target.data(), static_cast<std::size_t>(size));
}

int check_access(const char* path, int mode) noexcept { return error_of(::access(path, mode)); }

int close(int fd) noexcept { return error_of(::close(fd)); }

expected<file_status> status_of(int fd, unsigned mask, int flags) noexcept {
  return status_at(fd, "", flags | AT_EMPTY_PATH, mask);
}

result read_at(int fd, std::span<std::byte> bytes, std::uint64_t offset) noexcept {
  return retried([&] { return ::pread(fd, bytes.data(), bytes.size(), offset_of(offset)); });
}

result write_at(int fd, std::span<const std::byte> bytes, std::uint64_t offset) noexcept {
  return retried([&] { return ::pwrite(fd, bytes.data(), bytes.size(), offset_of(offset)); });
}

result read(int fd, std::span<std::byte> bytes) noexcept {
  return retried([&] { return ::read(fd, bytes.data(), bytes.size()); });
}

result read_entries(int directory, std::span<std::byte> bytes) noexcept {
  return retried([&] { return ::getdents64(directory, bytes.data(), bytes.size()); });
}

result seek(int fd, std::int64_t offset, int whence) noexcept {
  return result::of_call(::lseek(fd, offset, whence));
}

result send_file(int sink, int file, ::off_t& offset, std::size_t count) noexcept {
  return retried([&] { return ::sendfile(sink, file, &offset, count); });
}

int sync(int fd) noexcept {
  return error_of(retry_interrupted([&] { return ::fsync(fd); }));
}

int sync_data(int fd) noexcept {
  return error_of(retry_interrupted([&] { return ::fdatasync(fd); }));
}

int truncate(int fd, std::uint64_t size) noexcept {
  return error_of(retry_interrupted([&] { return ::ftruncate(fd, offset_of(size)); }));
}

int change_mode(int fd, ::mode_t mode) noexcept { return error_of(::fchmod(fd, mode)); }

expected<std::span<std::byte>> map(int fd, std::size_t size, std::uint64_t offset) noexcept {
  void* const start = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, offset_of(offset));
  if (start == MAP_FAILED) return std::unexpected(errno);
  return std::span(static_cast<std::byte*>(start), size);
}

void unmap(std::span<std::byte> mapping) noexcept { ::munmap(mapping.data(), mapping.size()); }

void advise(std::span<std::byte> mapping, int advice) noexcept {
  ::madvise(mapping.data(), mapping.size(), advice);
}

expected<pipe_ends> make_pipe(int flags) noexcept {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), flags | O_CLOEXEC) != 0) return std::unexpected(errno);
  return pipe_ends{.read_end = unique_fd(ends[0]), .write_end = unique_fd(ends[1])};
}

expected<unique_fd> duplicate(int fd, int minimum) noexcept {
  return owned(::fcntl(fd, F_DUPFD_CLOEXEC, minimum));
}

expected<int> flags_of(int fd) noexcept {
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags < 0) return std::unexpected(errno);
  return flags;
}

int set_flags(int fd, int flags) noexcept { return error_of(::fcntl(fd, F_SETFL, flags)); }

bool has_events(int fd, short events) noexcept {
  ::pollfd entry{.fd = fd, .events = events, .revents = 0};
  return ::poll(&entry, 1, 0) != 0;
}

expected<unique_fd> open_inotify() noexcept {
  return owned(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
}

expected<int> add_watch(int inotify, const char* path, std::uint32_t mask) noexcept {
  const int watch_descriptor = ::inotify_add_watch(inotify, path, mask);
  if (watch_descriptor < 0) return std::unexpected(errno);
  return watch_descriptor;
}

void remove_watch(int inotify, int watch_descriptor) noexcept {
  ::inotify_rm_watch(inotify, watch_descriptor);
}

}  // namespace gyre::io::detail::system
