// SPDX-License-Identifier: Apache-2.0
// Files, read and written by coroutines.
//
//     gyre::io::file log = co_await gyre::io::file::open("log", {.write = true, .create = true});
//     std::array<std::byte, 4096> page;
//     const std::size_t count = co_await log.read_at(page, 8192);  // less only at the end
//     co_await log.write_at(entry, co_await log.size());
//
//     gyre::io::buffer config = co_await gyre::io::read_whole("config.toml");
//
// On a loop that stands on io_uring, the kernel carries them out for the loop, without a thread: what
// is in the page cache has been read before the coroutine would wait. Elsewhere they are system calls
// that block, made on a pool of threads.
#pragma once

#include <gyre/base/unique_fd.hpp>
#include <gyre/io/buffer.hpp>
#include <gyre/io/detail/file_operation.hpp>
#include <gyre/io/detail/file_steps.hpp>
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

/// How a file is opened.
struct open_options {
  bool read = true;
  bool write = false;
  /// Makes the file if there is none, with the permissions of `mode` that the umask leaves.
  bool create = false;
  /// Makes the file, or fails with std::errc::file_exists.
  bool create_new = false;
  /// Drops what is in it.
  bool truncate = false;
  /// Writes at the end, whatever the offset.
  bool append = false;
  ::mode_t mode = 0666;
};
// GCC 12 destroys the members of an aggregate twice that is made within an awaited expression.
static_assert(std::is_trivially_destructible_v<open_options>);

/// What read_whole() reads at most if nothing else is said: 1 GiB.
inline constexpr std::size_t most_read_whole = std::size_t{1} << 30;

namespace detail {

/// open(2)'s; zero for options that contradict each other.
int flags_of(const open_options& how) noexcept;

}  // namespace detail

/// An open file. Move-only.
///
/// Where its operations are carried out shows when they are awaited: by the kernel, if that is on an
/// event_loop with io_uring (by a coroutine of the loop, or by one without an executor), the file was
/// given no pool, and the kernel knows the operation (truncate since Linux 6.9, the others since 5.6);
/// else on a thread of its pool, which is blocking_pool() if none was given. Either way the coroutine
/// goes on on its own executor.
///
/// They fail with std::system_error, or give the error by as_expected(), as the system calls do
/// they stand for; an interrupted call is made again. Asked to stop before it has begun, an
/// operation ends at once with operation_cancelled, and nothing has happened. After that it runs to
/// its end on a thread; the kernel takes back what it has not got to yet, such as all but the first
/// pieces of a long read, and what was read or written before stays.
///
/// Any number of operations may be under way at once, started from any threads, except close(). The
/// file, the memory that is read into or written, and the pool must outlive them. A coroutine that
/// waits for one may be destroyed on its executor (or while that runs nothing), which waits for the
/// end of one that has begun and cannot be taken back. In a forked child, what the kernel carries out
/// for the parent ends with std::errc::operation_canceled.
///
/// In the kernel each call costs one io_uring_enter(2) and allocates nothing. What is cached is read
/// within it (4 KiB in some 0.6 us, and at most 1 MiB), then the coroutine goes on at once; so do most
/// calls of open() and close(). The others, such as writes to most file systems, are carried out by
/// threads of the kernel, no more than a few per processor at a time, and cost the wake-up of one and
/// that of the loop (some 3 to 10 us). On a pool each operation costs a block from the slab and two
/// hops from thread to thread (some 5 us), and its system calls.
class file {
 public:
  file() noexcept = default;
  /// Takes over an open descriptor of a file. Two system calls, which do not wait: those without
  /// offsets, such as pipes, are left to the pool, where they fail with std::errc::invalid_seek.
  explicit file(unique_fd fd) noexcept : file(std::move(fd), nullptr) {}
  /// The same, all operations on `pool`.
  file(unique_fd fd, executor& pool) noexcept : file(std::move(fd), &pool) {}

  /// Awaited, opens the file at `path` and gives it; a child that is executed does not inherit it.
  /// open(2), whose errors it has; and std::errc::invalid_argument for options that contradict each
  /// other: neither reading nor writing, or truncate without write.
  static auto open(std::string path, open_options how = {}) {
    return open_on(nullptr, std::move(path), how);
  }
  /// The same, this and all operations on the file on `pool`.
  static auto open(executor& pool, std::string path, open_options how = {}) {
    return open_on(&pool, std::move(path), how);
  }

  /// Whether it has a file.
  [[nodiscard]] explicit operator bool() const noexcept { return static_cast<bool>(fd_); }
  /// Its descriptor, or -1: for other calls, such as sendfile(2).
  [[nodiscard]] int fd() const noexcept { return fd_ ? fd_.get() : -1; }
  /// Gives the descriptor up without closing it.
  [[nodiscard]] unique_fd release() noexcept { return std::move(fd_); }

  /// Awaited, reads from `offset` up to `to.size()` bytes, and gives how many: zero at the end of
  /// the file. One pread(2).
  auto read_some_at(std::span<std::byte> to, std::uint64_t offset) const {
    return detail::file_operation("read", way(file_call_kind::read),
                                  detail::read_some_steps(fd(), to, offset));
  }
  /// Awaited, reads from `offset` until `to` is full or the file ends, and gives how many bytes.
  auto read_at(std::span<std::byte> to, std::uint64_t offset) const {
    return detail::file_operation("read", way(file_call_kind::read),
                                  detail::read_steps(fd(), to, offset));
  }
  /// Awaited, reads all of it into an io::buffer. Fails with std::errc::file_too_large if it is
  /// longer than `most` bytes, and std::errc::not_enough_memory.
  auto read_whole(std::size_t most = most_read_whole) const {
    return detail::file_operation("read", way(file_call_kind::read),
                                  detail::read_whole_steps(fd(), most));
  }
  /// Awaited, writes all of `from`, so that it begins at `offset`. What was written before an error
  /// stays.
  auto write_at(std::span<const std::byte> from, std::uint64_t offset) const {
    return detail::file_operation("write", way(file_call_kind::write),
                                  detail::write_steps(fd(), from, offset));
  }
  auto write_at(std::string_view from, std::uint64_t offset) const {
    return write_at(std::as_bytes(std::span(from)), offset);
  }

  /// Awaited, gives the size in bytes, a std::uint64_t.
  auto size() const {
    return detail::file_operation("stat", way(file_call_kind::status), detail::size_steps(fd()));
  }
  /// Awaited, gives what fstat(2) says, a struct stat.
  auto status() const {
    return detail::file_operation("stat", way(file_call_kind::status), detail::status_steps(fd()));
  }
  /// Awaited, cuts the file to `size` bytes, or lengthens it by zeros.
  auto truncate(std::uint64_t size) const {
    return call("truncate", file_command::truncate(fd(), size));
  }
  /// Awaited, has brought what was written, and all that is known of the file, to the device.
  auto sync() const { return call("sync", file_command::sync(fd())); }
  /// The same without what is not needed to read it again, such as the time of the change.
  auto sync_data() const { return call("sync", file_command::sync_data(fd())); }
  /// Closes the file when it is awaited or dropped; awaited, it says whether that failed, as writing
  /// late may. The file is empty at once. Not cancelled by a stop. The destructor closes it too, on
  /// the thread where it runs.
  auto close() {
    detail::file_way in_any_case = way(file_call_kind::close);
    in_any_case.stops = false;
    return detail::file_operation("close", in_any_case, detail::close_steps(std::move(fd_)));
  }

 private:
  friend detail::open_steps;

  file(unique_fd fd, executor* pool) noexcept
      : fd_(std::move(fd)),
        suits_ring_(pool == nullptr && detail::suits_ring(this->fd())),
        pool_(pool) {}

  static detail::file_operation<detail::open_steps> open_on(executor* pool, std::string path,
                                                            const open_options& how) {
    return detail::file_operation(
        "open", {.pool = pool, .kind = file_call_kind::open},
        detail::open_steps(pool, std::move(path), detail::flags_of(how), how.mode));
  }
  detail::file_operation<detail::single_call> call(const char* name,
                                                   const file_command& command) const {
    return detail::file_operation(name, way(command.kind), detail::single_call(command));
  }
  detail::file_way way(file_call_kind kind) const noexcept {
    return {.pool = pool_, .kind = kind, .suits_ring = suits_ring_};
  }

  unique_fd fd_;
  bool suits_ring_ = false;
  executor* pool_ = nullptr;
};

/// Awaited, gives all that is in the file at `path`, as an io::buffer: opens, reads and closes it in
/// one hop. As file::open() and file::read_whole().
inline auto read_whole(std::string path, std::size_t most = most_read_whole) {
  return detail::file_operation("read", {.kind = file_call_kind::open},
                                detail::read_path_steps(std::move(path), most));
}

}  // namespace gyre::io
