// SPDX-License-Identifier: Apache-2.0
// backend: carries out requests for a loop; the completion side of its poller. For authors of I/O
// objects: programs use streams, sockets and servers, which call it.
#pragma once

#include <gyre/io/request.hpp>

#include <cstddef>
#include <optional>

namespace gyre::io {

class file_service;

/// Carries out requests on handles (see request.hpp).
///
/// To be fair to all handles, a loop rations the requests that are carried out at once, within
/// start(): up to 64 of them and 1 MiB, then it serves other handles first.
///
/// Thread-safety: the loop's thread, or one other thread while none runs the loop.
class backend {
 public:
  backend() = default;
  backend(const backend&) = delete;
  backend& operator=(const backend&) = delete;

  /// Begins to serve a handle, until detach(). One system call. Throws std::bad_alloc, or
  /// std::system_error:
  /// - EPERM for a regular file,
  /// - EBADF for a descriptor that is not open,
  /// - on epoll, EEXIST for a second handle of the same descriptor, and ENOSPC at the user's limit
  ///   of watched descriptors.
  virtual void attach(handle& added) = 0;
  /// Stops serving a handle; must be called before its descriptor is closed. The callbacks of the
  /// handle's requests are not called.
  virtual void detach(handle& removed) noexcept = 0;

  /// Begins a request, on an attached handle without another request of that direction. Returns the
  /// outcome if the request could be carried out at once; its callback is then not called.
  /// Otherwise the loop calls the callback later. A request that repeats, or is beyond the ration,
  /// is left to the loop.
  [[nodiscard]] virtual std::optional<result> start(request& request) noexcept = 0;
  /// Tries to carry a request out at once, and returns the outcome; the request is not under way
  /// afterwards. EAGAIN: it would have to wait, or only the loop's next wait can tell whether the
  /// handle is ready. Never refused for the ration, which it uses up. Not for a request with
  /// `whole`: after a part of its bytes, that gives EAGAIN too.
  [[nodiscard]] virtual result attempt(request& request) noexcept = 0;
  /// Subtracts bytes that the caller has moved by system calls of its own from the ration.
  virtual void charge(std::size_t bytes) noexcept = 0;
  /// Ends a request, if it is under way, without calling its callback; from then on nothing touches
  /// the request or its memory. Returns its outcome if it was done before it could be ended.
  virtual std::optional<result> cancel(request& request) noexcept = 0;

  /// The memory that receive requests use.
  virtual receive_memory& memory() noexcept = 0;

  /// The service that carries out calls on files without a thread (file_service.hpp), or null if
  /// there is none.
  virtual file_service* files() noexcept { return nullptr; }

 protected:
  ~backend() = default;
  static void set_attached(handle& served, bool attached) noexcept { served.attached_ = attached; }
};

}  // namespace gyre::io
