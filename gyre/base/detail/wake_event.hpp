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
  /// Opens the descriptor. Throws std::system_error (EMFILE, ENFILE, ENOMEM).
  wake_event() : fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (!fd_) throw_errno("eventfd");
  }

  int fd() const noexcept { return fd_.get(); }
  /// Makes the descriptor readable. Any thread; async-signal-safe.
  void raise() const noexcept {
    const int error = errno;
    const std::uint64_t increment = 1;
    // The write fails if the counter is full; the descriptor is then readable already.
    static_cast<void>(::write(fd_.get(), &increment, sizeof increment));
    errno = error;
  }
  void lower() noexcept {
    std::uint64_t count;
    static_cast<void>(::read(fd_.get(), &count, sizeof count));
  }

 private:
  unique_fd fd_;
};

/// Coalesces wake-up messages: among the threads that call begin() before the next taken(), only
/// the first must send a message, because further messages would be redundant and would accumulate
/// if the receiver is slow.
///
/// The thread that takes the message sees all writes of the other threads before their begin().
class pending_message {
 public:
  /// Returns whether the caller must send the message. Any thread; async-signal-safe.
  bool begin() noexcept {
    // release: pairs with the acquire in taken(), even if another begin() comes between the two.
    return !is_pending_.exchange(true, std::memory_order_release);
  }
  /// Called if the message could not be sent: the caller must wake the receiver in another way; the
  /// receiver then sees the work of all threads that relied on the message.
  void failed() noexcept { taken(); }
  /// Called when the message has been received, or will never be, before looking for the senders'
  /// work.
  void taken() noexcept { is_pending_.exchange(false, std::memory_order_acquire); }

 private:
  atomic<bool> is_pending_{false};
};

}  // namespace gyre::detail
