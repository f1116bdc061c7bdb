// SPDX-License-Identifier: Apache-2.0
// A descriptor that a loop serves, and its owner: what sockets, pipes and servers are made of.
#pragma once

#include <optional>
#include <utility>

#include <gyre/base/unique_fd.hpp>
#include <gyre/exec/event_loop.hpp>
#include <gyre/io/backend.hpp>

namespace gyre::io {

/// What carries out requests for `loop`. Throws std::system_error
/// (std::errc::operation_not_supported) if its poller cannot.
backend& backend_of(event_loop& loop);

/// `fd`, which does not block from now on. One or two system calls. Throws std::system_error, and then
/// closes it.
unique_fd made_non_blocking(unique_fd fd);

/// Owns a non-blocking descriptor and has a loop serve it. Does not move. All members belong to the
/// loop's thread (or the loop's owner while no thread runs it); it must not outlive the loop.
/// Destroying it ends what is under way without completing it.
class descriptor {
 public:
  /// One system call. Throws what backend_of() and backend::attach() throw; then `fd` is closed.
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

  /// As those of the backend.
  [[nodiscard]] std::optional<result> start(request& asked) noexcept { return io_->start(asked); }
  std::optional<result> cancel(request& asked) noexcept { return io_->cancel(asked); }

  /// Ends what is under way without completing it, and closes the descriptor. Idempotent.
  void close() noexcept {
    io_->detach(handle_);
    fd_.reset();
  }
  /// The same, but gives the descriptor up instead of closing it: for another loop, or a child. What a
  /// repeating receive has been brought and was not told of before it was cancelled is lost, unless
  /// another request has read until nothing was there.
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
