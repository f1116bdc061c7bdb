// SPDX-License-Identifier: Apache-2.0
// file_command: a system call on a file, as data. file_service: the part of a backend that carries
// out such calls without a thread. For authors of backends: programs use file.
#pragma once

#include <gyre/base/intrusive_list.hpp>
#include <gyre/io/request.hpp>

#include <sys/stat.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace gyre::io {

/// The calls that a file_command can name.
enum class file_call_kind : std::uint8_t {
  open,
  read,
  write,
  status,
  sync,
  sync_data,
  truncate,
  close
};

/// A system call on a file.
///
/// Lifetime: the memory that it names must stay where it is while the call is made.
struct file_command {
  file_call_kind kind;
  int fd = -1;
  int flags = 0;
  ::mode_t mode = 0;
  void* memory = nullptr;
  std::size_t size = 0;
  std::uint64_t offset = 0;
  /// Makes a call of open(2), whose outcome is a descriptor.
  static file_command open(const char* path, int flags, ::mode_t mode) noexcept {
    return {file_call_kind::open, -1, flags, mode, const_cast<char*>(path)};
  }
  /// Makes a call of pread(2).
  static file_command read(int fd, std::span<std::byte> bytes, std::uint64_t offset) noexcept {
    return {file_call_kind::read, fd, 0, 0, bytes.data(), bytes.size(), offset};
  }
  /// Makes a call of pwrite(2).
  static file_command write(int fd, std::span<const std::byte> bytes,
                            std::uint64_t offset) noexcept {
    auto* const memory = const_cast<std::byte*>(bytes.data());
    return {file_call_kind::write, fd, 0, 0, memory, bytes.size(), offset};
  }
  /// Makes a call of statx(2) for an open file.
  static file_command status(int fd, struct ::statx& memory) noexcept {
    return {.kind = file_call_kind::status, .fd = fd, .memory = &memory};
  }
  /// Makes a call of fsync(2).
  static file_command sync(int fd) noexcept { return {file_call_kind::sync, fd}; }
  /// Makes a call of fdatasync(2).
  static file_command sync_data(int fd) noexcept { return {file_call_kind::sync_data, fd}; }
  /// Makes a call of ftruncate(2).
  static file_command truncate(int fd, std::uint64_t size) noexcept {
    return {.kind = file_call_kind::truncate, .fd = fd, .offset = size};
  }
  /// Makes a call of close(2).
  static file_command close(int fd) noexcept { return {file_call_kind::close, fd}; }
};

/// Makes the call on the calling thread, which may wait long. A call that a signal interrupts is
/// made again, except close, whose descriptor is freed nevertheless.
result perform(const file_command& command) noexcept;

/// An intrusive node of a file_command under way, in the object that waits for it.
///
/// Lifetime: must stay where it is from file_service::start() until the callback is called, or
/// cancel() returns. The callback may destroy the call, or start it again.
class file_call : public intrusive_list_node {
 public:
  using function = void (*)(file_call&, result);

  file_call(const file_call&) = delete;
  file_call& operator=(const file_call&) = delete;

  /// The command, which is set before the call is started.
  file_command command{};
  /// For the service: calls the callback, which may destroy the call.
  void complete(result outcome) { callback_(*this, outcome); }

  // The members below belong to the service.
  std::optional<result> completion;
  std::uint64_t thread = 0;  // the thread that submitted the call to the kernel
  bool cancelled = false;

 protected:
  explicit file_call(function callback) noexcept : callback_(callback) {}
  ~file_call() = default;

 private:
  function callback_;
};

/// The part of a backend that carries out system calls on files asynchronously.
///
/// Thread-safety: the loop's thread; while none runs the loop, one thread at a time.
class file_service {
 public:
  file_service() = default;
  file_service(const file_service&) = delete;
  file_service& operator=(const file_service&) = delete;

  /// Returns whether the service can carry out calls of that kind.
  virtual bool can(file_call_kind kind) const noexcept = 0;
  /// Begins a call. Returns its outcome if it could be done at once: its callback is
  /// then not called. Otherwise the loop calls the callback. After an outcome of EINTR the caller
  /// may start the call again.
  [[nodiscard]] virtual std::optional<result> start(file_call& call) noexcept = 0;
  /// Requests an early end of a call, if it is under way: the callback is called nevertheless, with
  /// ECANCELED or EINTR if the request came in time. Does not wait.
  virtual void request_cancel(file_call& call) noexcept = 0;
  /// Ends a call under way without calling its callback, and returns its outcome (a descriptor is
  /// the caller's). Nothing touches its memory then. Waits for a call that cannot be cancelled.
  virtual std::optional<result> cancel(file_call& call) noexcept = 0;

 protected:
  ~file_service() = default;
};

}  // namespace gyre::io
