// SPDX-License-Identifier: Apache-2.0
// signal_set: POSIX signals as events of a loop.
//
//     gyre::signal_set quit(loop, {SIGINT, SIGTERM}, [&](const gyre::signal_info&) { loop.stop(); });
#pragma once

#include <gyre/base/move_only_function.hpp>
#include <gyre/base/unique_fd.hpp>
#include <gyre/exec/fd_watch.hpp>

#include <sys/signalfd.h>

#include <csignal>
#include <initializer_list>
#include <span>
#include <utility>

namespace gyre {

/// A signal's number, sender and value; see signalfd(2).
using signal_info = signalfd_siginfo;

/// Calls a function on the loop's thread for each signal of a set that the process receives.
///
/// Uses signalfd(2): the constructor blocks the signals in the calling thread, and every other
/// thread must have them blocked as well. gyre's own threads block all asynchronous signals. Other
/// threads inherit the mask of their creator, so make the set before them, in the main thread, also
/// if the loop runs on another. Child processes inherit the mask, too: see unblock_signals().
///
/// As with any POSIX signal, several of one number that arrive before the first is served can be
/// merged into one. A signal that is directed at one thread, as by std::raise(), reaches a set only
/// if that thread runs the loop.
///
/// Thread-safety: all members belong to the loop's thread, or to one other thread while none runs
/// the loop. The destructor must be called by the thread that called the constructor, to restore
/// its mask.
/// Lifetime: the loop must outlive the set. The destructor unblocks the signals that were not
/// blocked before, unless another set of the thread receives them; a signal that is pending then
/// takes its ordinary effect. The function may destroy the set.
class signal_set {
 public:
  using function = move_only_function<void(const signal_info&)>;

  /// Throws std::system_error: EINVAL for a number that is no signal, or a signal that cannot be
  /// caught (SIGKILL, SIGSTOP); EMFILE.
  signal_set(event_loop& target, std::initializer_list<int> signals, function callback)
      : signal_set(target, std::span(signals.begin(), signals.size()), std::move(callback)) {}
  signal_set(event_loop& loop, std::span<const int> signals, function callback);
  signal_set(const signal_set&) = delete;
  signal_set& operator=(const signal_set&) = delete;

 private:
  // Restores the thread's mask after the descriptor is closed.
  class blocked_signals {
   public:
    explicit blocked_signals(const sigset_t& signals);
    blocked_signals& operator=(blocked_signals&&) = delete;
    ~blocked_signals();

   private:
    sigset_t signals_;
  };

  void receive();

  blocked_signals blocked_;
  unique_fd descriptor_;
  detail::callback<const signal_info&> callback_;
  fd_watch watch_;
};

/// Unblocks all signals in the calling thread. For the child of a fork() before it calls exec(), as
/// a program inherits the mask, and SIGTERM would not end it. For posix_spawn() set an empty mask
/// with POSIX_SPAWN_SETSIGMASK. system() and popen() pass on the mask of their caller, so call them
/// in one of the program's own threads. Async-signal-safe.
void unblock_signals() noexcept;

}  // namespace gyre
