// SPDX-License-Identifier: Apache-2.0
// wake_event, pending_message: wake a thread that waits for descriptors.
#pragma once

#include <gyre/base/atomic.hpp>
#include <gyre/base/error.hpp>
#include <gyre/base/unique_fd.hpp>

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

namespace gyre::detail {

/// An eventfd(2), readable from raise() to lower().
class wake_event {
 public:
  /// Throws std::system_error (EMFILE, ENFILE, ENOMEM).
  wake_event() : fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (!fd_) throw_errno("eventfd");
  }

  int fd() const noexcept { return fd_.get(); }
  /// Any thread; async-signal-safe.
  void raise() const noexcept {
    const int error = errno;
    const std::uint64_t one = 1;
    // Fails when the counter is full, and then the descriptor is readable all the same.
    static_cast<void>(::write(fd_.get(), &one, sizeof one));
    errno = error;
  }
  void lower() noexcept {
    std::uint64_t count;
    static_cast<void>(::read(fd_.get(), &count, sizeof count));
  }

 private:
  unique_fd fd_;
};

/// Lets one of many threads send a message while the last one has not been taken: a second message
/// would tell nothing more, and messages would pile up where nobody takes them.
///
/// The thread that takes the message sees all that others did before their begin().
class pending_message {
 public:
  /// Whether the caller has to send it. Any thread; async-signal-safe.
  bool begin() noexcept {
    // release pairs with the acquire in taken(), also where another exchange comes between them.
    return !pending_.exchange(true, std::memory_order_release);
  }
  /// The message could not be sent: the caller must wake the receiver in another way, which then
  /// sees the work of all that relied on the message.
  void failed() noexcept { taken(); }
  /// The message has come, or never will. Call it before looking for the senders' work.
  void taken() noexcept { pending_.exchange(false, std::memory_order_acquire); }

 private:
  atomic<bool> pending_{false};
};

}  // namespace gyre::detail
