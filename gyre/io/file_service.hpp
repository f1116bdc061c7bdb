// SPDX-License-Identifier: Apache-2.0
// System calls on files as data, and what carries them out for a loop without a thread.
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

/// What can be asked for.
enum class file_call_kind : std::uint8_t {
  open,
  read,
  write,
  status,
  sync,
  sync_data,
  truncate,
  close,
};

/// A system call on a file, which perform() makes, or a file_service. The memory that it names must
/// stay where it is meanwhile.
struct file_command {
  file_call_kind kind;
  int fd = -1;
  int flags = 0;
  ::mode_t mode = 0;
  void* memory = nullptr;
  std::size_t size = 0;
  std::uint64_t offset = 0;

  /// open(2); comes to a descriptor.
  static file_command open(const char* path, int flags, ::mode_t mode) noexcept {
    return {.kind = file_call_kind::open,
            .flags = flags,
            .mode = mode,
            .memory = const_cast<char*>(path)};
  }
  /// pread(2).
  static file_command read(int fd, std::span<std::byte> to, std::uint64_t offset) noexcept {
    return {.kind = file_call_kind::read,
            .fd = fd,
            .memory = to.data(),
            .size = to.size(),
            .offset = offset};
  }
  /// pwrite(2).
  static file_command write(int fd, std::span<const std::byte> from,
                            std::uint64_t offset) noexcept {
    return {.kind = file_call_kind::write,
            .fd = fd,
            .memory = const_cast<std::byte*>(from.data()),
            .size = from.size(),
            .offset = offset};
  }
  /// statx(2) of an open file.
  static file_command status(int fd, struct ::statx& to) noexcept {
    return {.kind = file_call_kind::status, .fd = fd, .memory = &to};
  }
  static file_command sync(int fd) noexcept { return {.kind = file_call_kind::sync, .fd = fd}; }
  static file_command sync_data(int fd) noexcept {
    return {.kind = file_call_kind::sync_data, .fd = fd};
  }
  static file_command truncate(int fd, std::uint64_t size) noexcept {
    return {.kind = file_call_kind::truncate, .fd = fd, .offset = size};
  }
  static file_command close(int fd) noexcept { return {.kind = file_call_kind::close, .fd = fd}; }
};

/// Makes the call on the calling thread, which may wait long; again when a signal interrupts it
/// (other than close, as the descriptor is gone all the same).
result perform(const file_command& command) noexcept;

/// A call as something under way, embedded in whoever waits for it. From file_service::start() until
/// its function is called, or cancel() returns, it must stay where it is; in its function it may be
/// destroyed, or started again.
class file_call : public intrusive_list_node {
 public:
  using function = void (*)(file_call&, result);

  file_call(const file_call&) = delete;
  file_call& operator=(const file_call&) = delete;

  /// What to do; set before it is started.
  file_command command{};

  /// Service: reports. May destroy it.
  void complete(result what) { complete_(*this, what); }

  // The service's: what came of it, and which thread the kernel does it for.
  std::optional<result> ended;
  std::uint64_t thread = 0;
  bool taken_back = false;

 protected:
  explicit file_call(function report) noexcept : complete_(report) {}
  ~file_call() = default;

 private:
  function complete_;
};

/// Has calls on files carried out, as a part of a backend. All members belong to the loop's thread (or
/// the loop's owner while no thread runs it).
class file_service {
 public:
  file_service() = default;
  file_service(const file_service&) = delete;
  file_service& operator=(const file_service&) = delete;

  /// Whether it can carry out calls of that kind.
  virtual bool can(file_call_kind kind) const noexcept = 0;
  /// Begins `asked`. If it could be done at once, this returns what came of it, and its function is
  /// not called; else it is, by the loop. EINTR as the result of a call says nothing but that.
  [[nodiscard]] virtual std::optional<result> start(file_call& asked) noexcept = 0;
  /// Asks for an early end of `asked`, if it is under way: its function is called all the same, with
  /// ECANCELED or EINTR if that came in time. Does not wait.
  virtual void take_back(file_call& asked) noexcept = 0;
  /// Ends `asked`, if it is under way, without its function being called, and returns what came of
  /// it: nobody touches its memory any more. Waits for the end of a call that cannot be taken back.
  virtual std::optional<result> cancel(file_call& asked) noexcept = 0;

 protected:
  ~file_service() = default;
};

}  // namespace gyre::io
