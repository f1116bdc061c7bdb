// SPDX-License-Identifier: Apache-2.0
// POSIX signals as events of a loop.
//
//     gyre::signal_set quit(loop, {SIGINT, SIGTERM}, [&](const gyre::signal_info&) { loop.stop(); });
#pragma once

#include <sys/signalfd.h>

#include <csignal>
#include <initializer_list>
#include <span>
#include <utility>

#include <gyre/base/move_only_function.hpp>
#include <gyre/base/unique_fd.hpp>
#include <gyre/exec/fd_watch.hpp>

namespace gyre {

/// What the kernel tells about a signal: number, sender, value (see signalfd(2)).
using signal_info = signalfd_siginfo;

/// Calls a function on the loop's thread for each signal of a set that the process receives.
///
/// Stands on signalfd(2): the signals are blocked in the constructing thread, and must be in every
/// other one. gyre's own threads, of loops and pools, block all asynchronous signals, whenever they
/// were started. Threads that the program or another library starts inherit the mask of their
/// creator; so make the set before them, in the main thread, also if the loop runs on another. As
/// with any POSIX signal, several of one number that arrive before the first is served can be merged
/// into one. A signal that is directed at one thread, as by std::raise(), reaches a set only if that
/// thread runs the loop.
///
/// The destructor ends it and restores the thread's mask for those signals that were not blocked
/// before, unless another set of the thread receives them; a signal that is still pending then takes its ordinary effect. Belongs to the loop's
/// thread, like fd_watch, and must be destroyed by the thread that made it for the mask to be
/// restored there.
///
/// Programs that are started inherit the mask of the thread that starts them: see unblock_signals().
class signal_set {
 public:
  using function = move_only_function<void(const signal_info&)>;

  /// Throws std::system_error: EINVAL for a number that is no signal or one that cannot be caught
  /// (SIGKILL, SIGSTOP), EMFILE.
  signal_set(event_loop& target, std::initializer_list<int> signals, function received)
      : signal_set(target, std::span(signals.begin(), signals.size()), std::move(received)) {}
  signal_set(event_loop& loop, std::span<const int> signals, function received);
  signal_set(const signal_set&) = delete;
  signal_set& operator=(const signal_set&) = delete;
  ~signal_set();

 private:
  // The thread's mask; restored after the descriptor is closed.
  class blocked_signals {
   public:
    explicit blocked_signals(const sigset_t& signals);
    blocked_signals(const blocked_signals&) = delete;
    blocked_signals& operator=(const blocked_signals&) = delete;
    ~blocked_signals();

   private:
    sigset_t counted_;
  };

  void receive();

  blocked_signals blocked_;
  unique_fd descriptor_;
  detail::callback<const signal_info&> received_;
  fd_watch watch_;
};

/// Unblocks all signals in the calling thread. For the child of a fork(), before it calls exec():
/// a new program inherits the mask, and so would not be ended by SIGTERM. With posix_spawn() give
/// it an empty mask instead, by POSIX_SPAWN_SETSIGMASK; system() and popen() take the mask of their
/// caller, so call them in a thread of the program's own. Async-signal-safe.
void unblock_signals() noexcept;

}  // namespace gyre
