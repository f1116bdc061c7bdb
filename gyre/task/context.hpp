// SPDX-License-Identifier: Apache-2.0
// task_context: the execution context of coroutines that await each other: executor, stop token,
// task-local values. A child that runs concurrently (of when_all, of a scope) has a context of its
// own.
#pragma once

#include <gyre/task/detail/backtrace.hpp>
#include <gyre/task/executor.hpp>
#include <gyre/task/stop_token.hpp>

#include <concepts>
#include <coroutine>
#include <cstdint>

namespace gyre {
namespace detail {
struct promise_base;
struct local_binding;
}  // namespace detail

/// The state that is shared by a chain of coroutines that await each other. For authors of awaiters
/// and promises; other code uses current_executor(), current_stop_token() and task_local.
///
/// Thread-safety: accessed only by the coroutine of the chain that runs.
/// Lifetime: must outlive the coroutines.
struct task_context {
  /// The executor that resumes the coroutine after a wait.
  executor* where = &inline_executor();
  /// The stop token, which every wait that can end early observes.
  inplace_stop_token stop;
  /// The task-local values, the innermost first.
  const detail::local_binding* locals = nullptr;
  /// Called when the outermost coroutine has finished and its frame has been destroyed. Returns the
  /// coroutine to resume next on this thread. May destroy the context.
  std::coroutine_handle<> (*finished)(task_context& self) noexcept = nullptr;
  /// The number of times that a wait has thrown gyre::operation_cancelled since `stop` was
  /// requested. Mutable, because waits refer to a const context: coroutines without a context share
  /// a constant one.
  mutable std::uint32_t cancellations = 0;
  /// The number of awaits of consume_budget() since the last one that yielded.
  std::uint8_t budget_used = 0;
  /// Whether a wait has returned the error of other work, such as a task that was stopped. A
  /// cancellation is then not attributed to a time limit. Mutable for the same reason as
  /// `cancellations`.
  mutable bool has_taken_cancellation = false;
  /// Whether a wait that a stop has ended reports the stop as an error, instead of throwing
  /// gyre::operation_cancelled.
  bool reports_stops = false;
  /// Whether `finished` is also called before the frame of the outermost coroutine is destroyed,
  /// with its result ignored. This call ends stop callbacks, as the frame may own their source, and
  /// clears the flag.
  bool announces_end = false;
  /// The data of backtraces; empty where they are off.
  [[no_unique_address]] detail::context_trace trace{};
};

namespace detail {

// ABI tags like those of backtrace.hpp: the layout of standard containers is a part of the
// program's layout.
#if defined(_GLIBCXX_DEBUG)
void library_built_with_glibcxx_debug() noexcept;
[[gnu::used, gnu::retain]] inline constexpr auto debug_containers_on =
    &library_built_with_glibcxx_debug;
#else
void library_built_without_glibcxx_debug() noexcept;
[[gnu::used, gnu::retain]] inline constexpr auto debug_containers_off =
    &library_built_without_glibcxx_debug;
#endif

/// The base of every promise of gyre. Must be the first base, so that a type-erased coroutine
/// handle can reach it.
struct promise_base {
  task_context* context;
  [[no_unique_address]] promise_trace trace;
};

/// A promise with a context: a promise of gyre, or another one with a member `task_context&
/// context()`.
template <class Promise>
concept has_context = std::derived_from<Promise, promise_base> || requires(Promise& promise) {
  { promise.context() } -> std::same_as<task_context&>;
};

/// Returns the context of coroutines without a context of their own: no stop token, resumed inline.
inline const task_context& no_context() noexcept {
  static const task_context empty_context;
  return empty_context;
}

/// Returns the context of the coroutine `h`, as a `task_context&` if the coroutine has one; else
/// no_context(), which is const.
template <class Promise>
auto& context_of(std::coroutine_handle<Promise> h) noexcept {
  if constexpr (std::derived_from<Promise, promise_base>) {
    return *static_cast<promise_base&>(h.promise()).context;
  } else if constexpr (has_context<Promise>) {
    return h.promise().context();
  } else {
    return no_context();
  }
}

/// Records in await_suspend() that the queue of `holder` may hold the awaiter, so that the deadlock
/// report does not destroy the coroutine if `holder` is not its executor.
template <class Promise>
void set_holder([[maybe_unused]] std::coroutine_handle<Promise> coroutine,
                [[maybe_unused]] const executor& holder) noexcept {
  if constexpr (records_backtraces && has_context<Promise>) {
    task_context& context = context_of(coroutine);
    if (context.where != &holder) context.trace.holder.set(&holder);
  }
}

/// Announces the end of `context`, before the frame of its outermost coroutine is destroyed: see
/// task_context::announces_end.
inline void announce_end(task_context& context) noexcept {
  if (context.announces_end) static_cast<void>(context.finished(context));
}

/// Initialises `child`, except for `finished`, as the context of work that runs concurrently with
/// the coroutines of `parent`. The work observes `stop`; without that argument the token of
/// `parent`.
inline void fork_context(task_context& child, const task_context& parent,
                         inplace_stop_token stop) noexcept {
  child.where = parent.where;
  child.stop = stop;
  child.locals = parent.locals;
  child.cancellations = parent.cancellations;
  child.trace.fork(parent);
}
inline void fork_context(task_context& child, const task_context& parent) noexcept {
  fork_context(child, parent, parent.stop);
}
/// Initialises `child`, except for `finished`, as the context of work that runs concurrently with
/// the coroutine `parent`.
template <class Promise>
void fork_context(task_context& child, std::coroutine_handle<Promise> parent) noexcept {
  fork_context(child, context_of(parent));
  child.trace.awaited_by.set(promise_of(parent));
}

}  // namespace detail
}  // namespace gyre
