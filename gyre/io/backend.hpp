// SPDX-License-Identifier: Apache-2.0
// backend: the completion side of a loop's poller, which carries out requests. For authors of I/O
// objects: programs use streams, sockets and servers, which call the backend.
#pragma once

#include <gyre/io/request.hpp>

#include <cstddef>
#include <optional>

namespace gyre::io {

class file_service;

/// The completion-style I/O of one loop: requests on handles (see request.hpp).
///
/// To be fair to all handles, a visit of the loop to a handle has a share of 64 requests and of
/// some bytes in each direction: 1 MiB with few ready handles, down to 64 KiB with many. When a
/// share is used up, the loop serves other handles first, and among these first the handles that
/// have used less than their shares. So a request may move fewer bytes than possible.
///
/// Thread-safety: the loop's thread; while none runs the loop, one thread at a time.
class backend {
 public:
  backend() = default;
  backend(const backend&) = delete;
  backend& operator=(const backend&) = delete;

  /// Begins to serve a handle, until detach(). One system call, but none for handles of sockets on
  /// io_uring: there the first two of these errors come from requests that move bytes, as ENOTSOCK
  /// and EBADF, and waits for readiness may end at once. Throws std::bad_alloc, or
  /// std::system_error:
  /// - EPERM for a regular file, a directory or a block device,
  /// - EBADF for a descriptor that is not open,
  /// - on epoll, EEXIST for a second handle of the same descriptor, and ENOSPC at the user's limit
  ///   of watched descriptors; for stream sockets these errors, and EBADF, come from the first
  ///   request that has to wait.
  virtual void attach(handle& target) = 0;
  /// Stops serving a handle; must be called before its descriptor is closed: otherwise, while a
  /// duplicate keeps the file open, events still reach the handle's memory. Ends its requests
  /// without calling their callbacks; nothing touches them or their memory from then on.
  virtual void detach(handle& target) noexcept = 0;

  /// Begins a request on an attached handle (else EBADF) without another request of that direction
  /// (else EINPROGRESS). Returns the outcome if the request could be carried out at once; its
  /// callback is then not called. Otherwise the loop calls the callback later. A request that
  /// repeats, or exceeds the share, is left to the loop.
  [[nodiscard]] virtual std::optional<result> start(request& request) noexcept = 0;
  /// Tries to carry out a request at once, and returns the outcome; the request is not under way
  /// afterwards. EAGAIN: the request would have to wait; start() it then, because attempts alone
  /// may never learn that the handle has become ready. Ignores the limit of the share, but counts
  /// the bytes. Not for a request with `whole`, for which EAGAIN may also mean a partial transfer.
  [[nodiscard]] virtual result attempt(request& request) noexcept = 0;
  /// Returns the bytes of that direction left in the share, for a caller that makes system calls
  /// itself. When none are left, a request that is started waits for the handle's next turn.
  virtual std::size_t share_left(direction side) const noexcept = 0;
  /// Counts bytes that the caller has moved by its own system calls in the share.
  virtual void charge(std::size_t bytes) noexcept = 0;
  /// Ends a request, even one that repeats, without calling its callback; from then on nothing
  /// touches the request or its memory. Returns the outcome (a descriptor is the caller's) if it
  /// was done.
  virtual std::optional<result> cancel(request& request) noexcept = 0;
  /// Starts a request that several handles share. Returns what start() returns; the request never
  /// completes at once.
  virtual std::optional<result> start_receiving(handle& source,
                                                shared_receive_request& request) noexcept = 0;
  /// Cancels the request of `source` that reads, if there is one, shared or not. See cancel().
  virtual void stop_receiving(handle& source) noexcept = 0;

  /// Returns whether something has arrived for an attached handle that no request has received yet:
  /// bytes, an end, an error, a connection. May return true without any while the loop has not yet
  /// processed what the kernel reported. One system call.
  [[nodiscard]] virtual bool has_arrivals(const handle& target) noexcept = 0;
  /// Ends receiving ahead of requests, so that a descriptor may change its owner. The handle must
  /// have no request that reads. Returns whether the backend has already received something, which
  /// attempt() returns, and which detach() would lose.
  [[nodiscard]] virtual bool end_receiving_ahead(handle& source) noexcept = 0;

  /// The memory that receive requests use.
  virtual receive_memory& memory() noexcept = 0;

  /// Returns the service that carries out calls on files without a thread (file_service.hpp), or
  /// null if there is none.
  virtual file_service* files() noexcept { return nullptr; }

 protected:
  ~backend() = default;
  static void set_attached(handle& target, bool is_attached) noexcept {
    target.is_attached_ = is_attached;
  }
};

}  // namespace gyre::io
