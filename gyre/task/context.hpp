// SPDX-License-Identifier: Apache-2.0
// task_context: the execution context of coroutines that await each other: executor, stop token,
// task-local values. A child that runs concurrently (of when_all, of a scope) has its own.
#pragma once

#include <gyre/task/detail/build_options.hpp>
#include <gyre/task/executor.hpp>
#include <gyre/task/stop_token.hpp>

#include <concepts>
#include <coroutine>
#include <cstdint>
#include <source_location>

namespace gyre {
namespace detail {
struct promise_base;
struct local_binding;
class child_set;
class task_end;
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

#if GYRE_ASYNC_BACKTRACE
  detail::promise_base* innermost = nullptr;         // the coroutine that runs or waits
  const task_context* parent = nullptr;              // the context that waits for this one
  const detail::promise_base* awaited_by = nullptr;  // the coroutine that waits for this context
  const char* name = nullptr;
  detail::child_set* child_sets = nullptr;  // the coroutines' concurrent children, newest first
  detail::task_end* outermost = nullptr;    // the task of the outermost coroutine
  const executor* held_by = nullptr;        // besides `where`, may have the wait in its queue
  // Within a handler: destroys that coroutine, as if it had thrown what is being handled.
  void (*destroy)(detail::task_end& outermost) noexcept = nullptr;
#endif
};

namespace detail {

// ABI tags: an object file refers to the functions of the configuration it was compiled with, and
// the library defines its own, so that a program with mixed layouts does not link.
#if GYRE_ASYNC_BACKTRACE
void library_built_with_gyre_async_backtrace_1() noexcept;
[[gnu::used, gnu::retain]] inline constexpr auto backtraces_on =
    &library_built_with_gyre_async_backtrace_1;
#else
void library_built_with_gyre_async_backtrace_0() noexcept;
[[gnu::used, gnu::retain]] inline constexpr auto backtraces_off =
    &library_built_with_gyre_async_backtrace_0;
#endif
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
#if GYRE_ASYNC_BACKTRACE
  promise_base* awaited_by = nullptr;
  std::source_location where{};  // the await it is suspended in
#endif
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
void set_holder([[maybe_unused]] std::coroutine_handle<Promise> awaiting,
                [[maybe_unused]] const executor& holder) noexcept {
#if GYRE_ASYNC_BACKTRACE
  if constexpr (has_context<Promise>) {
    task_context& context = context_of(awaiting);
    if (context.where != &holder) context.held_by = &holder;
  }
#endif
}

/// Before the frame of the outermost coroutine is destroyed: see task_context::announces_end.
inline void announce_end(task_context& context) noexcept {
  if (context.announces_end) static_cast<void>(context.finished(context));
}

/// Makes `child` a context, without an end, for work that runs concurrently with that of `from`,
/// and observes `stop`, or the token of `from`.
inline void fork_context(task_context& child, const task_context& from,
                         inplace_stop_token stop) noexcept {
  child.where = from.where;
  child.stop = stop;
  child.locals = from.locals;
  child.cancellations = from.cancellations;
#if GYRE_ASYNC_BACKTRACE
  child.innermost = nullptr;
  child.parent = &from;
  child.child_sets = nullptr;
  child.held_by = nullptr;
#endif
}
inline void fork_context(task_context& child, const task_context& from) noexcept {
  fork_context(child, from, from.stop);
}
/// The same for work of the coroutine `parent`.
template <class Promise>
void fork_context(task_context& child, std::coroutine_handle<Promise> parent) noexcept {
  fork_context(child, context_of(parent));
#if GYRE_ASYNC_BACKTRACE
  if constexpr (std::derived_from<Promise, promise_base>) child.awaited_by = &parent.promise();
#endif
}

}  // namespace detail
}  // namespace gyre
