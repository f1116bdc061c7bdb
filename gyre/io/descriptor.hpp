// SPDX-License-Identifier: Apache-2.0
// descriptor: an owned file descriptor that a loop serves. For authors of I/O objects: sockets,
// pipes and servers are made of it.
#pragma once

#include <gyre/base/unique_fd.hpp>
#include <gyre/exec/event_loop.hpp>
#include <gyre/io/backend.hpp>

#include <optional>
#include <utility>

namespace gyre::io {

/// The backend of a loop. Throws std::system_error (std::errc::operation_not_supported) if its
/// poller has none.
backend& backend_of(event_loop& loop);

/// Makes `fd` non-blocking, and returns it. One or two system calls. Throws std::system_error, and
/// then closes `fd`.
unique_fd made_non_blocking(unique_fd fd);

/// The owner of a file descriptor, non-blocking, that one loop serves. Does not move.
///
/// Thread-safety: the loop's thread; while none runs the loop, one thread at a time.
/// Lifetime: must not outlive the loop. The destructor is close().
class descriptor {
 public:
  /// `fd` must be non-blocking. One system call. Throws as backend_of() and backend::attach(); then
  /// `fd` is closed.
  descriptor(event_loop& loop, unique_fd fd, handle_kind kind)
      : loop_(&loop), io_(&backend_of(loop)), handle_(fd.get(), kind), fd_(std::move(fd)) {
    io_->attach(handle_);
  }
  descriptor(const descriptor&) = delete;
  descriptor& operator=(const descriptor&) = delete;
  ~descriptor() { close(); }

  /// -1 once it is closed.
  int fd() const noexcept { return fd_.get(); }
  bool is_open() const noexcept { return static_cast<bool>(fd_); }
  event_loop& loop() const noexcept { return *loop_; }
  io::handle& handle() noexcept { return handle_; }
  backend& io() const noexcept { return *io_; }

  /// As backend::start() and backend::cancel().
  [[nodiscard]] std::optional<result> start(request& request) noexcept {
    return io_->start(request);
  }
  std::optional<result> cancel(request& request) noexcept { return io_->cancel(request); }

  /// Closes the descriptor. Ends its requests without their callbacks, as detach(). Idempotent.
  void close() noexcept {
    io_->detach(handle_);
    fd_.reset();
  }
  /// As close(), but returns the descriptor instead of closing it: for another loop, or a child
  /// process. After a repeating receive was cancelled, the backend may still hold bytes that it had
  /// received and not reported. Reads deliver them, release() loses them: read until EAGAIN first.
  [[nodiscard]] unique_fd release() noexcept {
    io_->detach(handle_);
    return std::move(fd_);
  }

 private:
  event_loop* loop_;
  backend* io_;
  io::handle handle_;
  unique_fd fd_;
};

}  // namespace gyre::io
