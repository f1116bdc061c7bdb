// SPDX-License-Identifier: Apache-2.0
// call_on_short_lived_thread: makes calls whose effects on the kernel's state of a thread must not
// stay with the caller.
#pragma once

#include <gyre/base/move_only_function.hpp>

#include <atomic>

namespace gyre::detail {

/// Calls `work` on a new thread, which has ended when this returns, and rethrows its exception. See
/// named_thread for the signals and CPUs of the thread.
///
/// The kernel remembers the threads that have set up or used a ring of io_uring, and interrupts
/// them when the ring is closed: their epoll_wait(2), sigtimedwait(2) or recv(2) with a time limit
/// then fails with EINTR though no signal came. A thread that has ended cannot be interrupted.
///
/// Errors: std::system_error (EAGAIN: too many threads), std::bad_alloc; exceptions of `work`.
/// Complexity: some 50 us.
void call_on_short_lived_thread(move_only_function<void()> work);

/// Functions that pass state of the caller to a short-lived thread. Set by gyre::testing_faults,
/// whose faults belong to threads.
struct short_lived_thread_hooks {
  void* (*state_of_caller)() noexcept;
  void (*adopt_state)(void* caller_state) noexcept;
};
inline constinit std::atomic<const short_lived_thread_hooks*> short_lived_thread_hooks_in_force =
    nullptr;

}  // namespace gyre::detail
