// SPDX-License-Identifier: Apache-2.0
// descriptor: an owned file descriptor that a loop serves. For authors of I/O objects: sockets,
// pipes and servers are made of it.
#pragma once

#include <gyre/base/unique_fd.hpp>
#include <gyre/exec/event_loop.hpp>
#include <gyre/io/backend.hpp>

#include <optional>

namespace gyre::io {

/// Returns the backend of a loop. Throws std::system_error (std::errc::operation_not_supported) if
/// the loop's poller has none.
backend& backend_of(event_loop& loop);

/// Makes `fd` non-blocking, and returns it. One or two system calls. Throws std::system_error, and
/// then closes `fd`.
unique_fd made_non_blocking(unique_fd fd);

namespace detail {

/// Makes `fd` non-blocking, and returns its former access mode and flags (F_GETFL).
int set_non_blocking(int fd);

}  // namespace detail

/// The owner of a file descriptor, non-blocking, that one loop serves. Does not move.
///
/// Thread-safety: the loop's thread; while none runs the loop, one thread at a time.
/// Lifetime: must not outlive the loop. The destructor is close(). Only close() may close fd(), or
/// its next owner after release() (see backend::detach()).
class descriptor : private io::handle {
 public:
  /// Serves `fd`, which must be non-blocking. One system call. Throws like backend_of() and
  /// backend::attach(), and then closes `fd`.
  descriptor(event_loop& loop, unique_fd fd, handle_kind kind)
      : io::handle(fd.get(), kind), loop_(&loop), io_(&backend_of(loop)) {
    io_->attach(*this);
    static_cast<void>(fd.release());
  }
  descriptor(const descriptor&) = delete;
  descriptor& operator=(const descriptor&) = delete;
  ~descriptor() { close(); }

  /// Returns the descriptor's number, or -1 once it is closed.
  int fd() const noexcept { return is_open() ? io::handle::fd() : -1; }
  bool is_open() const noexcept { return attached(); }
  event_loop& loop() const noexcept { return *loop_; }
  io::handle& handle() noexcept { return *this; }
  /// Returns the descriptor that has `handle` as its base.
  static descriptor& of(io::handle& handle) noexcept { return static_cast<descriptor&>(handle); }
  backend& io() const noexcept { return *io_; }

  /// Starts or cancels a request: see backend::start() and backend::cancel().
  [[nodiscard]] std::optional<result> start(request& request) noexcept {
    return io_->start(request);
  }
  std::optional<result> cancel(request& request) noexcept { return io_->cancel(request); }

  /// Closes the descriptor. Ends its requests without calling their callbacks. Idempotent.
  void close() noexcept { static_cast<void>(release()); }
  /// Does what close() does, but returns the descriptor instead of closing it: for another loop, or
  /// a child process. After a repeating receive was cancelled, the backend may still hold bytes
  /// that it has received and not reported. Reads deliver these bytes, release() loses them: read
  /// until EAGAIN first.
  [[nodiscard]] unique_fd release() noexcept {
    unique_fd fd_owner(fd());
    io_->detach(*this);
    return fd_owner;
  }

 private:
  event_loop* loop_;
  backend* io_;
};

static_assert(sizeof(descriptor) <= 48, "each idle stream has one");

}  // namespace gyre::io
