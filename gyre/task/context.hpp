// SPDX-License-Identifier: Apache-2.0
// task_context: the execution context of coroutines that await each other: executor, stop token,
// task-local values. A child that runs concurrently (of when_all, of a scope) has its own.
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

/// The state that a chain of coroutines shares while they await each other. For authors of awaiters
/// and promises; coroutines use current_executor(), current_stop_token() and task_local.
///
/// Thread-safety: read and written only by the coroutine of the chain that runs.
/// Lifetime: outlives the coroutines.
struct task_context {
  /// Resumes the coroutine after a wait.
  executor* where = &inline_executor();
  /// Observed by every wait that can end early.
  inplace_stop_token stop;
  /// Task-local values, the innermost first.
  const detail::local_binding* locals = nullptr;
  /// Called when the outermost coroutine has finished and its frame is gone; returns the coroutine
  /// to resume next on this thread. May destroy the context.
  std::coroutine_handle<> (*finished)(task_context& self) noexcept = nullptr;
  /// How often a wait has thrown gyre::operation_cancelled since `stop` was requested. Mutable, as
  /// waits refer to a const context: coroutines without a context share a constant one.
  mutable std::uint32_t cancellations = 0;
  /// How often consume_budget() was awaited since it last gave way.
  std::uint8_t budget_used = 0;
  /// Whether the last cancellation is the result of other work, which a wait has taken, such as a
  /// task that was stopped: so no time limit was its reason. Mutable as `cancellations`.
  mutable bool has_taken_cancellation = false;
  /// Whether `finished` is called while that frame still exists, too, and its result ignored: to
  /// end stop callbacks, as the frame may own their source. That call clears this.
  bool announces_end = false;
  /// The part of backtraces; empty where they are off.
  [[no_unique_address]] detail::context_trace trace{};
};

namespace detail {

// ABI tags, as those of backtrace.hpp: the containers of a program are part of its layout.
#if defined(_GLIBCXX_DEBUG)
void library_built_with_glibcxx_debug() noexcept;
[[gnu::used, gnu::retain]] inline constexpr auto debug_containers_on =
    &library_built_with_glibcxx_debug;
#else
void library_built_without_glibcxx_debug() noexcept;
[[gnu::used, gnu::retain]] inline constexpr auto debug_containers_off =
    &library_built_without_glibcxx_debug;
#endif

/// The common part of all promises of gyre. Comes first in them: a bare handle leads to it.
struct promise_base {
  task_context* context;
  [[no_unique_address]] promise_trace trace;
};

/// A promise with a context: one of gyre, or another with `task_context& context()`.
template <class Promise>
concept has_context = std::derived_from<Promise, promise_base> || requires(Promise& promise) {
  { promise.context() } -> std::same_as<task_context&>;
};

/// The context of coroutines without one: no stop token, resumed inline.
inline const task_context& no_context() noexcept {
  static const task_context none;
  return none;
}

/// The context of the coroutine `h`, as `task_context&` if it has one, else a constant.
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

/// For await_suspend(): notes that `holder` may have the awaiter in its queue, so that the deadlock
/// report does not destroy the coroutine if `holder` is not its executor.
template <class Promise>
void set_holder([[maybe_unused]] std::coroutine_handle<Promise> coroutine,
                [[maybe_unused]] const executor& holder) noexcept {
  if constexpr (records_backtraces && has_context<Promise>) {
    task_context& context = context_of(coroutine);
    if (context.where != &holder) context.trace.holder.set(&holder);
  }
}

/// Called before the frame of the outermost coroutine is destroyed: see
/// task_context::announces_end.
inline void announce_end(task_context& context) noexcept {
  if (context.announces_end) static_cast<void>(context.finished(context));
}

/// Makes `child` a context, without an end, for work that runs concurrently with that of
/// `parent`, and observes `stop`, or the token of `parent`.
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
/// Makes `child` a context, without an end, for work that runs concurrently with `parent`.
template <class Promise>
void fork_context(task_context& child, std::coroutine_handle<Promise> parent) noexcept {
  fork_context(child, context_of(parent));
  child.trace.awaited_by.set(promise_of(parent));
}

}  // namespace detail
}  // namespace gyre
