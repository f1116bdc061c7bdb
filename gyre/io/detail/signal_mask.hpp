// SPDX-License-Identifier: Apache-2.0
// signal_mask: blocks or unblocks a signal on the calling thread for a scope.
#pragma once

#include <pthread.h>

#include <csignal>

namespace gyre::io::detail {

/// Changes whether one signal is blocked on this thread while the object lives.
class signal_mask {
 public:
  /// `action`: SIG_BLOCK or SIG_UNBLOCK.
  signal_mask(int action, int signal) noexcept {
    ::sigemptyset(&only_);
    ::sigaddset(&only_, signal);
    ::pthread_sigmask(action, &only_, &before_);
    is_changed_ = (::sigismember(&before_, signal) == 1) != (action == SIG_BLOCK);
  }
  signal_mask& operator=(signal_mask&&) = delete;
  ~signal_mask() {
    if (is_changed_) ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }

  /// With SIG_BLOCK: drops the signal if it is pending, unless it was blocked before, too.
  void discard_pending() const noexcept {
    const ::timespec at_once{};
    if (is_changed_) ::sigtimedwait(&only_, nullptr, &at_once);
  }

 private:
  ::sigset_t only_;
  ::sigset_t before_;
  bool is_changed_;
};

}  // namespace gyre::io::detail
