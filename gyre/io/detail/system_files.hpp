// SPDX-License-Identifier: Apache-2.0
// system_files: the system calls on files, directories, open descriptors and inotify watches.
//
//     const auto folder = system::open("/var/log", O_DIRECTORY);
//     if (!folder) return folder.error();
//     const auto status = system::status_at(folder->get(), "syslog", 0, STATX_SIZE);
//
// This header is part of the seam (docs/design/rooms.md): io, net and http use files by these
// functions. The other sources that make such calls, as `base`, pollers and backends do, are listed
// there. A program that defines all functions of this header can replace the files.
//
// Thread-safety: any thread.
// Errors: an error is errno's number, as the unexpected value, or as a result; functions that
// return an int return the error, or zero. A call that a signal interrupts is made again, unless it
// may have had its effect already: close, make_directory_at, rename_at, unlink_at.
// Complexity: one system call each, unless stated otherwise.
#pragma once

#include <gyre/base/error.hpp>
#include <gyre/base/unique_fd.hpp>
#include <gyre/io/request.hpp>

#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <expected>
#include <span>
#include <string>
#include <utility>

namespace gyre::io::detail::system {

template <class T>
using expected = std::expected<T, int>;

/// Returns the value of `outcome`. Throws std::system_error with `function_name` in its message if
/// there is none.
template <class T>
T value_or_throw(expected<T> outcome, const char* function_name) {
  if (!outcome) gyre::detail::throw_system_error(outcome.error(), function_name);
  return *std::move(outcome);
}

/// The status of a file; statx(2) fills in the fields that its caller needs.
struct file_status : ::statx {
  // NOLINTNEXTLINE(*-member-init,modernize-use-equals-default): statx(2) fills it in
  file_status() noexcept {}
};

// The functions below call the system with names of files. `flags` has the flags of the system
// call.

/// Opens a file with O_CLOEXEC (open(2), openat(2)).
[[nodiscard]] expected<unique_fd> open(const char* path, int flags, ::mode_t mode = 0) noexcept;
[[nodiscard]] expected<unique_fd> open_at(int directory, const char* path, int flags,
                                          ::mode_t mode = 0) noexcept;
/// Opens a file with O_CLOEXEC and restrictions of its path (openat2(2)). `resolve`: flags such as
/// RESOLVE_BENEATH.
[[nodiscard]] expected<unique_fd> open_beneath(int directory, const char* path, int flags,
                                               std::uint64_t resolve) noexcept;
/// Returns the status of a file, and mounts nothing (statx(2)). `mask`: the fields that are needed.
[[nodiscard]] expected<file_status> status_at(int directory, const char* path, int flags,
                                              unsigned mask) noexcept;
[[nodiscard]] int make_directory_at(int directory, const char* path, ::mode_t mode) noexcept;
[[nodiscard]] int rename_at(int source_directory, const char* source, int target_directory,
                            const char* target, unsigned flags) noexcept;
int unlink_at(int directory, const char* path, int flags) noexcept;
/// Reads the path in a symlink.
[[nodiscard]] expected<std::string> read_link(const char* path);
/// Checks whether the process may use the file in `mode` (access(2)). Returns an error number, or
/// zero.
[[nodiscard]] int check_access(const char* path, int mode) noexcept;

// The functions below call the system with open files.

/// Closes the descriptor, even if the call returns an error.
int close(int fd) noexcept;
/// Returns the status of an open file (statx(2)). `flags`: such as AT_STATX_DONT_SYNC.
[[nodiscard]] expected<file_status> status_of(int fd, unsigned mask, int flags = 0) noexcept;
/// Returns the st_dev of a file.
[[nodiscard]] inline ::dev_t device_of(const struct ::statx& status) noexcept {
  return ::makedev(status.stx_dev_major, status.stx_dev_minor);
}
/// Read or write at an offset (pread(2), pwrite(2)).
[[nodiscard]] result read_at(int fd, std::span<std::byte> bytes, std::uint64_t offset) noexcept;
[[nodiscard]] result write_at(int fd, std::span<const std::byte> bytes,
                              std::uint64_t offset) noexcept;
/// Reads at the position of the file (read(2)).
[[nodiscard]] result read(int fd, std::span<std::byte> bytes) noexcept;
/// Reads entries of a directory (getdents64(2)): fills `bytes`, which must be aligned for dirent64,
/// with entries of that type.
[[nodiscard]] result read_entries(int directory, std::span<std::byte> bytes) noexcept;
/// Moves the position of the file by small offsets (lseek(2)). Returns the new position, or the
/// error of a descriptor without one.
[[nodiscard]] result seek(int fd, std::int64_t offset, int whence) noexcept;
/// Sends bytes of a file, and advances `offset` (sendfile(2)).
[[nodiscard]] result send_file(int sink, int file, ::off_t& offset, std::size_t count) noexcept;
[[nodiscard]] int sync(int fd) noexcept;
[[nodiscard]] int sync_data(int fd) noexcept;
[[nodiscard]] int truncate(int fd, std::uint64_t size) noexcept;
[[nodiscard]] int change_mode(int fd, ::mode_t mode) noexcept;
/// Maps a part of a file to be read, shared with others. `offset`: a multiple of page_size().
[[nodiscard]] expected<std::span<std::byte>> map(int fd, std::size_t size,
                                                 std::uint64_t offset) noexcept;
void unmap(std::span<std::byte> mapping) noexcept;
/// Gives the kernel a hint on the use of a mapping (madvise(2)).
void advise(std::span<std::byte> mapping, int advice) noexcept;

// The functions below call the system with descriptors of any kind.

struct pipe_ends {
  unique_fd read_end;
  unique_fd write_end;
};
/// Makes a pipe with O_CLOEXEC (pipe2(2)). `flags`: O_NONBLOCK, or zero.
[[nodiscard]] expected<pipe_ends> make_pipe(int flags) noexcept;
/// Makes a copy of `fd` with FD_CLOEXEC and the lowest free number from `minimum` on.
[[nodiscard]] expected<unique_fd> duplicate(int fd, int minimum = 0) noexcept;
/// Reads or sets the access mode and flags of an open file (F_GETFL, F_SETFL).
[[nodiscard]] expected<int> flags_of(int fd) noexcept;
[[nodiscard]] int set_flags(int fd, int flags) noexcept;
/// Returns whether the descriptor has one of `events` of poll(2), an error or the end; true if that
/// is not known.
[[nodiscard]] bool has_events(int fd, short events) noexcept;

// The functions below watch files by inotify.

/// Makes a non-blocking inotify instance, whose records are read by read().
[[nodiscard]] expected<unique_fd> open_inotify() noexcept;
/// Adds a watch to an inotify instance. Returns the watch descriptor.
[[nodiscard]] expected<int> add_watch(int inotify, const char* path, std::uint32_t mask) noexcept;
/// Removes a watch. Has no effect on a watch that has ended.
void remove_watch(int inotify, int watch_descriptor) noexcept;

}  // namespace gyre::io::detail::system
