// SPDX-License-Identifier: Apache-2.0
// signal_set: receives POSIX signals as events of a loop.
//
//     gyre::signal_set quit(loop, {SIGINT, SIGTERM}, [&](const gyre::signal_info&) { loop.stop(); });
//
// A coroutine can wait for signals, too:
//
//     gyre::signal_set hang_up(loop, {SIGHUP});
//     for (;;) {
//       co_await hang_up.wait();
//       reload();
//     }
#pragma once

#include <gyre/base/detail/callback.hpp>
#include <gyre/base/detail/misuse.hpp>
#include <gyre/base/move_only_function.hpp>
#include <gyre/base/unique_fd.hpp>
#include <gyre/exec/detail/readable_line.hpp>
#include <gyre/exec/event_loop.hpp>
#include <gyre/exec/fd_watch.hpp>

#include <sys/signalfd.h>

#include <csignal>
#include <expected>
#include <initializer_list>
#include <optional>
#include <span>
#include <system_error>
#include <utility>

namespace gyre {

/// The number, sender and value of a signal; see signalfd(2).
using signal_info = signalfd_siginfo;

namespace detail {

GYRE_MISUSED_CALLBACK(misused_signal_callback,
                      "the callback of a signal_set takes (const gyre::signal_info&)",
                      void(const signal_info&));

}  // namespace detail

/// A subscription to POSIX signals by signalfd(2). With a function, calls it on the loop's thread
/// for each signal of the set that the process receives; without a function, coroutines can wait
/// for the signals.
///
/// The constructor blocks the signals in the calling thread; they must be blocked in every other
/// thread as well. gyre's own threads block all asynchronous signals. Other threads inherit the
/// mask of their creator, so construct the set in the main thread before other threads, even if
/// another thread runs the loop later. Child processes inherit the mask, too: see
/// unblock_signals().
///
/// As with any POSIX signal, several signals of one number that arrive before the first is received
/// may be merged into one. A signal directed at one thread, as by std::raise(), reaches a set only
/// if that thread runs the loop. A signal that is in several sets reaches one of them.
///
/// Signals that arrive while no coroutine waits stay pending, and end the next waits. Each signal
/// ends one wait, the oldest.
///
/// Thread-safety: one thread constructs and destroys the set, because it changes that thread's
/// mask: the loop's thread, or another thread while none runs the loop (otherwise a data race).
/// wait(): any thread.
/// Lifetime: the loop must outlive the set, and the set must outlive the coroutines that wait for
/// its signals. The destructor unblocks the signals that were not blocked before, unless another
/// set of the thread receives them. A signal that is pending then has its ordinary effect, which is
/// none in the first process of a container (PID 1), unless the program has a handler. The function
/// may destroy a set that was constructed on the loop's thread.
/// Errors: exceptions of the function are passed to the loop's on_exception.
/// Complexity: a signal costs one system call, and two more for a wait that finds no pending
/// signal.
class signal_set {
 public:
  using function = move_only_function<void(const signal_info&)>;

  /// Throws std::system_error: EINVAL for a number that is not a signal, or a signal that cannot be
  /// caught (SIGKILL, SIGSTOP); EMFILE.
  signal_set(event_loop& target, std::initializer_list<int> signals, function callback)
      : signal_set(target, std::span(signals.begin(), signals.size()), std::move(callback)) {}
  signal_set(event_loop& loop, std::span<const int> signals, function callback);
  // These overloads explain wrong arguments: see base/detail/misuse.hpp.
  signal_set(event_loop& target, std::initializer_list<int> signals,
             detail::misused_signal_callback explained);
  signal_set(event_loop& target, std::span<const int> signals,
             detail::misused_signal_callback explained);
  /// Constructs a set without a function, for wait(). Throws like the constructors with a function.
  signal_set(event_loop& target, std::initializer_list<int> signals)
      : signal_set(target, std::span(signals.begin(), signals.size())) {}
  signal_set(event_loop& loop, std::span<const int> signals);
  signal_set& operator=(signal_set&&) = delete;

  /// An awaitable that returns the next signal as a signal_info, and resumes on the coroutine's
  /// executor. A stopped wait takes no signal.
  ///
  /// Errors: throws gyre::operation_cancelled when a stop is requested; std::system_error if the
  /// loop cannot watch the descriptor; std::logic_error if the set has a function.
  /// Complexity: allocates nothing.
  [[nodiscard]] detail::readable_wait<signal_set, signal_info> wait() {
    if (watch_.active()) throw_has_function();
    return detail::readable_wait<signal_set, signal_info>(waits_);
  }

 private:
  friend detail::readable_line<signal_set, signal_info>;
  friend detail::readable_wait<signal_set, signal_info>;
  static constexpr const char* wait_name = "gyre::signal_set: wait";

  // Blocks the signals in the thread's mask, from construction to destruction. Declared before the
  // descriptor, so that the mask is restored after the descriptor is closed.
  class blocked_signals {
   public:
    explicit blocked_signals(const sigset_t& signals);
    blocked_signals& operator=(blocked_signals&&) = delete;
    ~blocked_signals();

   private:
    sigset_t signals_;
  };

  [[noreturn]] static void throw_has_function();
  std::optional<std::expected<signal_info, std::error_code>> try_take() noexcept;
  void receive();

  blocked_signals blocked_signals_;
  unique_fd descriptor_;
  detail::callback<const signal_info&> callback_;
  fd_watch watch_;  // watches descriptor_ if callback_ is set
  detail::readable_line<signal_set, signal_info> waits_;
};

/// Unblocks all signals in the calling thread, including those that the program itself has blocked.
/// Call it in the child of a fork() before exec(): a program inherits the mask, so SIGTERM would
/// not terminate it. For posix_spawn(), set an empty mask with POSIX_SPAWN_SETSIGMASK. The children
/// of system() and popen() always inherit the blocked signals of the caller. Async-signal-safe.
void unblock_signals() noexcept;

}  // namespace gyre
