// SPDX-License-Identifier: Apache-2.0
// backend: carries out requests for a loop; the completion side of its poller.
#pragma once

#include <gyre/io/request.hpp>

#include <cstddef>
#include <optional>

namespace gyre::io {

class file_service;

/// Carries out requests on handles.
///
/// Thread-safety: loop's thread only, or the loop's owner while no thread runs it.
class backend {
 public:
  backend() = default;
  backend(const backend&) = delete;
  backend& operator=(const backend&) = delete;

  /// Begins to serve a handle, until detach(). One system call. Throws std::bad_alloc,
  /// std::system_error: EPERM for a regular file, EBADF; on epoll EEXIST for a second handle of the
  /// descriptor, ENOSPC at the user's limit of watched descriptors.
  virtual void attach(handle& added) = 0;
  /// Ends that, before the descriptor is closed. The handle's requests end without being completed.
  virtual void detach(handle& removed) noexcept = 0;

  /// Begins a request. Returns its outcome if it could be done at once: then its callback is not
  /// called; else it is, by the loop. A request that repeats is never done at once. Its handle must
  /// be attached and without another request of that direction.
  [[nodiscard]] virtual std::optional<result> start(request& request) noexcept = 0;
  /// Carries a request out if that needs no waiting, and leaves nothing under way. EAGAIN: it would
  /// have to wait, or the handle cannot tell before the loop turns. Never fills the whole of a
  /// buffer. Unlike work that start() does at once, this is not rationed.
  [[nodiscard]] virtual result attempt(request& request) noexcept = 0;
  /// Counts bytes that the caller has moved by calls of its own as if start() had moved them at
  /// once.
  virtual void charge(std::size_t bytes) noexcept = 0;
  /// Ends a request, if it is under way, without calling its callback; from then on nothing touches
  /// it or its memory. Returns its outcome if it was done before it could be ended.
  virtual std::optional<result> cancel(request& request) noexcept = 0;

  /// Memory that receive requests use.
  virtual receive_memory& memory() noexcept = 0;

  /// Carries out calls on files without a thread (file_service.hpp); null if that is not possible.
  virtual file_service* files() noexcept { return nullptr; }

 protected:
  ~backend() = default;
  static void set_attached(handle& served, bool attached) noexcept { served.attached_ = attached; }
};

}  // namespace gyre::io
