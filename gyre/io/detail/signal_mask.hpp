// SPDX-License-Identifier: Apache-2.0
// signal_mask: blocks or unblocks a signal on the calling thread for a scope.
#pragma once

#include <gyre/io/detail/system_processes.hpp>

#include <csignal>

namespace gyre::io::detail {

/// Blocks or unblocks one signal on this thread during the object's lifetime.
class signal_mask {
 public:
  /// `action`: SIG_BLOCK or SIG_UNBLOCK.
  signal_mask(int action, int signal) noexcept {
    ::sigemptyset(&signals_);
    ::sigaddset(&signals_, signal);
    old_mask_ = system::change_signal_mask(action, signals_);
    is_changed_ = (::sigismember(&old_mask_, signal) == 1) != (action == SIG_BLOCK);
  }
  signal_mask& operator=(signal_mask&&) = delete;
  ~signal_mask() {
    if (is_changed_) system::change_signal_mask(SIG_SETMASK, old_mask_);
  }

  /// Drops the signal if it is pending, unless it was already blocked before the scope. Only with
  /// SIG_BLOCK.
  void discard_pending() const noexcept {
    if (is_changed_) system::discard_pending_signal(signals_);
  }

 private:
  ::sigset_t signals_;
  ::sigset_t old_mask_;
  bool is_changed_;
};

}  // namespace gyre::io::detail
