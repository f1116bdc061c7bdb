// SPDX-License-Identifier: Apache-2.0
// What carries out requests for a loop: the completion side of a poller.
#pragma once

#include <cstddef>
#include <optional>

#include <gyre/io/request.hpp>

namespace gyre::io {

class file_service;

/// Carries out requests on handles. All members belong to the loop's thread (or the loop's owner
/// while no thread runs it).
class backend {
 public:
  backend() = default;
  backend(const backend&) = delete;
  backend& operator=(const backend&) = delete;

  /// Begins to serve a handle, until detach(). One system call. Throws std::system_error (EPERM for a
  /// regular file, EBADF, on epoll EEXIST for a second one of the descriptor and ENOSPC: the user's
  /// limit of watched descriptors), std::bad_alloc.
  virtual void attach(handle& served) = 0;
  /// Ends it, before its descriptor is closed. Its requests end without being completed.
  virtual void detach(handle& served) noexcept = 0;

  /// Begins `asked`. If it could be done at once, this returns what came of it, and its function is
  /// not called; else it is, by the loop. One that repeats is never done at once. Its handle must be
  /// attached and without another request of that direction.
  [[nodiscard]] virtual std::optional<result> start(request& asked) noexcept = 0;
  /// Carries `asked` out if that needs no waiting, and leaves nothing under way: EAGAIN else, and for a
  /// handle that cannot do so before the loop turns. Never the whole of a buffer. What start() does at
  /// once is rationed, so that nobody keeps the loop from others; this is not.
  [[nodiscard]] virtual result attempt(request& asked) noexcept = 0;
  /// Counts bytes that somebody has moved by calls of their own as if start() had, at once.
  virtual void charge(std::size_t bytes) noexcept = 0;
  /// Ends `asked`, if it is under way, without its function being called: nobody touches it or its
  /// memory any more. Returns what came of it if it was done before it could be ended; then that is
  /// how it ended.
  virtual std::optional<result> cancel(request& asked) noexcept = 0;

  /// Memory that receive requests use.
  virtual receive_memory& memory() noexcept = 0;

  /// What carries out calls on files, if it can do so without a thread; else null. The interface is
  /// in file_service.hpp.
  virtual file_service* files() noexcept { return nullptr; }

 protected:
  ~backend() = default;
  static void set_attached(handle& served, bool attached) noexcept { served.attached_ = attached; }
};

}  // namespace gyre::io
