// SPDX-License-Identifier: Apache-2.0
// file: an open file with awaitable positional I/O, for coroutines.
//
//     gyre::io::file log = co_await gyre::io::file::open("log", {.write = true, .create = true});
//     std::array<std::byte, 4096> page;
//     const std::size_t count = co_await log.read_at(page, 8192);  // less only at the end
//     co_await log.write_at(entry, co_await log.size());
//
//     gyre::io::buffer config = co_await gyre::io::read_whole("config.toml");
//
//     const gyre::io::file table = co_await gyre::io::file::open("table", {.direct = true});
//     gyre::io::aligned_buffer block(1 << 20, table.direct_alignment());
//     const std::size_t got = co_await table.read_at(block.bytes(), 0);
//
// On a loop with io_uring the operations occupy no thread of the program, and reads of cached pages
// do not even suspend the coroutine. Elsewhere the operations are system calls that block, made on
// a pool of threads.
#pragma once

#include <gyre/base/unique_fd.hpp>
#include <gyre/io/aligned_buffer.hpp>
#include <gyre/io/buffer.hpp>
#include <gyre/io/detail/file_operation.hpp>
#include <gyre/io/detail/file_routine.hpp>
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

/// Options of file::open().
struct open_options {
  /// Whether the file is read.
  bool read = true;
  /// Whether the file is written.
  bool write = false;
  /// Creates the file if there is none, with the permissions of `mode` that the umask leaves.
  bool create = false;
  /// Creates the file, or fails with std::errc::file_exists.
  bool create_new = false;
  /// Drops the present content.
  bool truncate = false;
  /// Every write goes to the end of the file, and ignores its offset (O_APPEND).
  bool append = false;
  /// Reads and writes bypass the page cache (O_DIRECT), and need alignment: see
  /// file::direct_alignment(). With `append` the file's size must be a multiple of the alignment,
  /// too.
  bool direct = false;
  /// The permissions of a file that is created, before the umask takes some away.
  ::mode_t mode = 0666;
};
// GCC 12 destroys an aggregate's members twice if it is made within an awaited expression.
static_assert(std::is_trivially_destructible_v<open_options>);

/// The default limit of read_whole() in bytes: 1 GiB.
inline constexpr std::size_t max_read_whole = std::size_t{1} << 30;

namespace detail {

/// Reads all of a file.
file_routine<buffer> read_content(routine_memory&, const file_arguments& arguments);

}  // namespace detail

/// An open file. Move-only.
///
/// The kernel carries out an operation, by io_uring, if all of this is so:
/// - The operation is awaited on the thread of an event_loop with io_uring, by a coroutine whose
///   executor is the loop or inline_executor().
/// - The file was given no pool.
/// - The kernel knows the operation (truncate since Linux 6.9, the other operations since 5.6).
///
/// Otherwise a thread of the file's pool does, by default of blocking_pool(). The coroutine is
/// resumed on its own executor.
///
/// When a stop of the coroutine is requested before an operation has begun, the operation throws
/// gyre::operation_cancelled (no std::exception) at once, and nothing has happened. An operation
/// that has begun on a thread runs to its end. In the kernel, an operation of several calls, such
/// as a long read, makes no further ones, and the present call is cancelled if that is possible;
/// bytes that were read or written before stay.
///
/// A FIFO is not a file: open() and read_whole() of one wait until its other end is opened, on a
/// thread that nothing frees meanwhile, not even a stop. Where others choose the path, look at its
/// status() first; to use a FIFO, give a descriptor that was opened with O_NONBLOCK to a stream.
///
/// Thread-safety: any number of operations may be under way at once, started from any threads, but
/// none beside close() or release().
/// Lifetime: the file, the memory that is read into or written, and the pool must outlive
/// operations. A waiting coroutine may be destroyed on a thread of its executor, or while the
/// executor runs nothing; its destructor blocks until a call that cannot be cancelled has ended.
/// Errors: those of the system calls, as std::system_error, or as values by as_expected():
/// bad_file_descriptor if no file is open; invalid_argument for a path with a zero byte. A call
/// that a signal interrupts is made again. In a forked child, calls that the kernel makes for the
/// parent end with std::errc::operation_canceled.
/// With open_options::direct, std::invalid_argument for memory, sizes or offsets that are not
/// multiples of direct_alignment(), and std::logic_error for read_whole(), both from the call, not
/// from the await.
/// Complexity:
/// - In the kernel a call costs one io_uring_enter(2), and no allocation. Reads of up to 1 MiB of
///   cached pages (4 KiB in some 0.6 us) and most calls of open() and close() are done within that
///   system call, and the coroutine is not suspended. Other calls, such as writes to most file
///   systems, are made by threads of the kernel, a few per processor at a time, and cost two
///   wake-ups (some 3 to 10 us).
/// - On a pool an operation costs a block of the slab allocator (base/slab.hpp), two switches
///   between threads (some 5 us), and its system calls.
class file {
 public:
  /// Makes an object without an open file.
  file() noexcept = default;
  /// Takes over an open descriptor of a file. Makes lseek(2), fcntl(2) and statx(2), which do not
  /// wait. Pipes, event descriptors and others without offsets are left to the pool, where
  /// operations fail with std::errc::invalid_seek.
  explicit file(unique_fd fd) noexcept : file(std::move(fd), nullptr) {}
  /// Takes over an open descriptor of a file, whose operations all run on `pool`.
  file(unique_fd fd, executor& pool) noexcept : file(std::move(fd), &pool) {}

  /// Awaited, opens the file at `path` and gives it; executed children do not inherit it. Errors:
  /// those of open(2), and std::errc::invalid_argument for options that contradict each other
  /// (neither read nor write; truncate without write).
  static auto open(std::string path, open_options options = {}) {
    return open_on(nullptr, std::move(path), options);
  }
  /// Awaited, opens the file at `path` on `pool`, where all operations on it run then.
  static auto open(executor& pool, std::string path, open_options options = {}) {
    return open_on(&pool, std::move(path), options);
  }

  /// Returns whether a file is open.
  [[nodiscard]] explicit operator bool() const noexcept { return static_cast<bool>(fd_); }
  /// Returns the descriptor, or -1: for other calls, such as sendfile(2).
  [[nodiscard]] int fd() const noexcept { return fd_ ? fd_.get() : -1; }
  /// Returns one, or after open_options::direct: the alignment in bytes, a power of two, of the
  /// memory, the size and the offset of each read and write. It is the kernel's value (statx(2)),
  /// or 4096 where the kernel reports none. aligned_buffer has such memory. A read at the end of
  /// the file gives fewer bytes. To write a file of another size, write whole blocks, and
  /// truncate() the file.
  ///
  /// Direct access is useful for data that are read once or that the program caches itself: the
  /// pages of other files stay in the cache, and reads of 64 KiB and more need a fraction of the
  /// processor time. Data that the cache would hold are read far more slowly: see
  /// docs/design/uring.md.
  [[nodiscard]] std::size_t direct_alignment() const noexcept {
    return std::size_t{1} << alignment_shift_;
  }
  /// Releases the descriptor without closing it.
  [[nodiscard]] unique_fd release() noexcept { return std::move(fd_); }

  /// Awaited, reads from `offset` on up to `bytes.size()` bytes, and gives their count: zero at the
  /// end of the file. One pread(2).
  auto read_some_at(std::span<std::byte> bytes, std::uint64_t offset) const {
    require_aligned("read_some_at", bytes, offset);
    return detail::file_operation("read", options(file_call_kind::read),
                                  detail::read_steps(fd(), bytes, offset, false));
  }
  /// Awaited, reads from `offset` on until `bytes` are full or the file ends, and gives their
  /// count.
  auto read_at(std::span<std::byte> bytes, std::uint64_t offset) const {
    require_aligned("read_at", bytes, offset);
    return detail::file_operation(
        "read", options(file_call_kind::read),
        detail::read_steps(fd(), bytes, offset, true, direct_alignment()));
  }
  /// Awaited, reads the whole file into an io::buffer. Errors: std::errc::file_too_large if it is
  /// longer than `limit` bytes, std::errc::not_enough_memory.
  auto read_whole(std::size_t limit = max_read_whole) const {
    if (alignment_shift_ != 0) [[unlikely]]
      throw_direct_read_whole();
    return detail::file_operation(
        "read", options(file_call_kind::read),
        detail::routine_steps(&detail::read_content, {.fd = fd(), .limit = limit}));
  }
  /// Awaited, writes all bytes from `offset` on; gives nothing. Bytes written before an error stay.
  ///
  /// Errors: some differ between a pool, which makes pwrite(2), and io_uring:
  /// - Some files of /proc, such as /proc/self/comm, fail on a pool with std::errc::invalid_seek;
  ///   io_uring writes them.
  /// - Beyond RLIMIT_FSIZE a write fails with std::errc::file_too_large. On a pool the write also
  ///   raises SIGXFSZ, which ends the program unless the program handles or ignores it; io_uring
  ///   may raise no signal.
  auto write_at(std::span<const std::byte> bytes, std::uint64_t offset) const {
    require_aligned("write_at", bytes, offset);
    return detail::file_operation("write", options(file_call_kind::write),
                                  detail::write_steps(fd(), bytes, offset));
  }
  auto write_at(std::string_view text, std::uint64_t offset) const {
    return write_at(std::as_bytes(std::span(text)), offset);
  }

  /// Awaited, gives the size in bytes, a std::uint64_t.
  auto size() const {
    return detail::file_operation("stat", options(file_call_kind::status),
                                  detail::size_steps(fd()));
  }
  /// Awaited, gives the file's struct stat, as fstat(2).
  auto status() const {
    return detail::file_operation("stat", options(file_call_kind::status),
                                  detail::status_steps(fd()));
  }
  /// Awaited, cuts the file to `size` bytes, or lengthens it by zeros; gives nothing.
  auto truncate(std::uint64_t size) const {
    return call("truncate", file_command::truncate(fd(), size));
  }
  /// Awaited, flushes all written data and metadata of the file to the device; gives nothing.
  auto sync() const { return call("sync", file_command::sync(fd())); }
  /// Awaited, flushes as sync(), but without metadata that reading the data does not need, such as
  /// the time of the change; gives nothing.
  auto sync_data() const { return call("sync", file_command::sync_data(fd())); }
  /// Awaited, closes the descriptor, and throws the error of a delayed write, if there is one; a
  /// stop does not cancel the close. From the call on the returned operation owns the descriptor
  /// instead of this object, and closes it even if it is not awaited. ~file() closes on the calling
  /// thread.
  auto close() {
    detail::file_operation_options closing = options(file_call_kind::close);
    closing.is_stoppable = false;
    return detail::file_operation("close", closing, detail::close_steps(std::move(fd_)));
  }

 private:
  class open_steps final : public detail::file_steps {
   public:
    using value_type = file;
    open_steps(executor* pool, std::string path, const open_options& options) noexcept;
    next begin() noexcept override;
    next advance(result outcome) noexcept override;
    detail::outcome_of<file> outcome() noexcept;
    std::string hint() const;

   private:
    executor* pool_;
    std::string path_;
    int flags_;  // the flags of open(2); zero for options that contradict each other
    ::mode_t mode_;
    unique_fd own_fd_;
  };

  file(unique_fd fd, executor* pool, bool is_direct = false) noexcept;

  static detail::file_operation<open_steps> open_on(executor* pool, std::string path,
                                                    const open_options& options) {
    return {"open",
            {.pool = pool, .kind = file_call_kind::open},
            open_steps(pool, std::move(path), options)};
  }
  detail::file_operation<detail::single_call> call(const char* name,
                                                   const file_command& command) const {
    return {name, options(command.kind), detail::single_call(command)};
  }
  detail::file_operation_options options(file_call_kind kind) const noexcept {
    return {.pool = pool_, .kind = kind, .suits_ring = suits_ring_};
  }
  void require_aligned(const char* function_name, std::span<const std::byte> bytes,
                       std::uint64_t offset) const {
    const std::uint64_t any =
        reinterpret_cast<std::uintptr_t>(bytes.data()) | bytes.size() | offset;
    if ((any & (direct_alignment() - 1)) != 0) [[unlikely]]
      throw_unaligned(function_name, bytes, offset);
  }
  [[noreturn, gnu::cold]] void throw_unaligned(const char* function_name,
                                               std::span<const std::byte> bytes,
                                               std::uint64_t offset) const;
  [[noreturn, gnu::cold]] static void throw_direct_read_whole();

  unique_fd fd_;
  bool suits_ring_ = false;
  std::uint8_t alignment_shift_ = 0;
  executor* pool_ = nullptr;
};

/// Awaited, gives the content of the file at `path`, as an io::buffer. Does file::open(),
/// file::read_whole() and file::close() as one operation; on a pool, one switch of threads and back
/// serves for all three.
inline auto read_whole(std::string path, std::size_t limit = max_read_whole) {
  return detail::file_operation(
      "read", {.kind = file_call_kind::open},
      detail::routine_steps(&detail::read_content, {.path = std::move(path), .limit = limit}));
}

}  // namespace gyre::io
