// SPDX-License-Identifier: Apache-2.0
// signal_mask: blocks or unblocks a signal on the calling thread for a scope.
#pragma once

#include <gyre/io/detail/system_processes.hpp>

#include <csignal>

namespace gyre::io::detail {

/// Changes whether one signal is blocked on this thread while the object lives.
class signal_mask {
 public:
  /// `action`: SIG_BLOCK or SIG_UNBLOCK.
  signal_mask(int action, int signal) noexcept {
    ::sigemptyset(&only_);
    ::sigaddset(&only_, signal);
    before_ = system::change_signal_mask(action, only_);
    is_changed_ = (::sigismember(&before_, signal) == 1) != (action == SIG_BLOCK);
  }
  signal_mask& operator=(signal_mask&&) = delete;
  ~signal_mask() {
    if (is_changed_) system::change_signal_mask(SIG_SETMASK, before_);
  }

  /// With SIG_BLOCK: drops the signal if it is pending, unless it was blocked before, too.
  void discard_pending() const noexcept {
    if (is_changed_) system::discard_pending_signal(only_);
  }

 private:
  ::sigset_t only_;
  ::sigset_t before_;
  bool is_changed_;
};

}  // namespace gyre::io::detail
