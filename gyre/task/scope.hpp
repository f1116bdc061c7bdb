// SPDX-License-Identifier: Apache-2.0
// scope: structured concurrency; no task outlives the scope in which it was started.
//
//     co_await gyre::with_scope([&](gyre::scope& scope) -> gyre::task<> {
//       while (auto connection = co_await listener.accept()) {
//         scope.spawn(serve(std::move(*connection)));  // its error would stop all others
//       }
//     });  // all connections have been served
//
// Source: Smith, "Notes on structured concurrency", 2018.
#pragma once

#include <gyre/base/atomic.hpp>
#include <gyre/base/intrusive_list.hpp>
#include <gyre/task/as_task.hpp>
#include <gyre/task/async_backtrace.hpp>
#include <gyre/task/context.hpp>
#include <gyre/task/detail/cancelled.hpp>
#include <gyre/task/detail/child_set.hpp>
#include <gyre/task/detail/resumption.hpp>
#include <gyre/task/detail/this_context.hpp>
#include <gyre/task/executor.hpp>
#include <gyre/task/stop_token.hpp>
#include <gyre/task/task.hpp>

#include <concepts>
#include <coroutine>
#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>
#include <type_traits>
#include <utility>
#include <vector>

namespace gyre {

/// A scope's reaction to an error.
enum class scope_errors {
  /// The first error asks the body and all tasks to stop; when they have ended, it alone is thrown.
  stop_at_first,
  /// No task is stopped; when all have ended, all errors are thrown in a scope_error.
  collect,
};

/// All errors of a scope, in the order in which they came; at least one.
class scope_error : public std::exception {
 public:
  explicit scope_error(std::vector<std::exception_ptr> errors) noexcept
      : errors_(std::move(errors)) {}  // NOLINT: nothing to throw

  const std::vector<std::exception_ptr>& errors() const noexcept { return errors_; }
  const char* what() const noexcept override;

 private:
  std::vector<std::exception_ptr> errors_;
};

/// The set of tasks that a with_scope() waits for.
///
/// Thread-safety: every member may be called from any thread.
/// Lifetime: until the body of with_scope() and all tasks, which may use the scope, have ended.
class scope : detail::child_set {
 public:
  /// Starts `awaitable`, by an executor::post() to the executor where with_scope() was awaited. Its
  /// result is dropped, its error handled according to scope_errors. After a stop it starts all the
  /// same, with a stopped token. `name` is shown by backtraces and must outlive the task.
  ///
  /// Errors: std::bad_alloc; std::logic_error for an empty task.
  /// Complexity: some 100 bytes from the slab, and a frame unless `awaitable` is a task.
  template <awaitable Awaitable>
  void spawn(Awaitable awaitable, const char* name = nullptr) {
    spawn(*inherited_.where, std::move(awaitable), name);
  }
  /// The same on `where`, which must outlive the scope.
  template <awaitable Awaitable>
  void spawn(executor& where, Awaitable awaitable, const char* name = nullptr) {
    spawn_task(where, detail::as_task_without_result(std::move(awaitable)), name);
  }

  /// Asks the body and all tasks to stop. Their gyre::operation_cancelled, or a std::system_error
  /// (std::errc::operation_canceled), is then no error. False if they were asked before.
  bool request_stop() noexcept { return stop_.request_stop(); }
  /// The token of the body and the tasks.
  inplace_stop_token get_token() const noexcept { return stop_.get_token(); }
  /// The number of tasks that have not ended.
  std::size_t size() const noexcept {
    // relaxed: a number that may have changed when it is read.
    return open_.load(std::memory_order_relaxed) / one_task;
  }

  /// The backtraces of tasks that have not ended, the oldest first; empty where backtraces are off.
  /// None of the tasks may run on another thread meanwhile. O(tasks).
  std::vector<async_backtrace> live_tasks();

 protected:
  using detail::child_set::attach;
  scope(inplace_stop_token parent, scope_errors policy) noexcept;
  ~scope();

  // Keeps the error of the body or of a task, unless that was asked to stop and did.
  void add_error(std::exception_ptr error) noexcept;

  task_context inherited_;
  detail::linked_stop_source stop_;
  detail::resumption parent_;  // resumes the coroutine that joins
  executor* home_ = nullptr;   // and where
  // The body, and one_task for each task that has not ended.
  detail::atomic<std::size_t> open_{1};
  static constexpr std::size_t one_task = 2;
  const scope_errors policy_;
  // The rest belongs to the lock until all have ended.
  bool cancelled_ = false;  // the body or a task ended because of the stop
  std::exception_ptr first_error_;
  std::vector<std::exception_ptr> more_errors_;  // if they are collected

 private:
  class child;

  void spawn_task(executor& where, task<> work, const char* name);
  std::coroutine_handle<> finish_task(const executor* here) noexcept;
#if GYRE_ASYNC_BACKTRACE
  void append_children(std::vector<task_context*>& to) override;
#endif

  std::mutex mutex_;
#if GYRE_ASYNC_BACKTRACE
  intrusive_list<child> children_;  // those that have not ended
#endif
};

namespace detail {

/// A scope with the members for the coroutine that waits for it.
class open_scope final : public scope {
 public:
  open_scope(inplace_stop_token parent, scope_errors policy) noexcept : scope(parent, policy) {}

  /// Awaited before anything else: makes the coroutine the parent.
  auto adopt() noexcept {
    return suspension([this](auto parent) noexcept {
      fork_context(inherited_, parent);
      inherited_.stop = get_token();
      attach(parent);
      return false;
    });
  }
  /// Awaited after the body: until all tasks have ended.
  auto join() noexcept {
    return suspension([this](auto parent) noexcept {
      parent_.waiting = parent;
      home_ = context_of(parent).where;
      // release: pairs with the acquire in finish_task(), which resumes; acquire: pairs with the
      // release there: the errors are seen.
      return open_.fetch_sub(1, std::memory_order_acq_rel) != 1;
    });
  }
  /// After that: the exception for the coroutine, of the errors or its stop; null if there is none.
  std::exception_ptr take_error(const task_context& parent);

  using scope::add_error;
};

template <class Body>
using scope_result_t = task_result_t<std::invoke_result_t<Body&, scope&>>;

}  // namespace detail

/// Opens a scope, awaits the awaitable that `body(scope)` returns and all tasks started in the
/// scope, and gives the result of the body. The body is stopped with the tasks, and its errors
/// count like theirs: see scope_errors. A stop of the coroutine stops all of them.
///
/// Thread-safety: the coroutine resumes on the executor on which the body ended.
/// Lifetime: `body` lives until all have ended. The coroutine must not be destroyed before; if it
/// is, the program ends with a message.
/// Errors: those of the body and the tasks. Throws gyre::operation_cancelled if the coroutine was
/// asked to stop and the body or a task ended with that; std::errc::operation_canceled if
/// scope::request_stop() ended a body that has a result.
/// Complexity: two coroutine frames.
template <class Body>
  requires std::invocable<Body&, scope&> && awaitable<std::invoke_result_t<Body&, scope&>>
task<detail::scope_result_t<Body>> with_scope(Body body,
                                              scope_errors errors = scope_errors::stop_at_first) {
  using result = detail::scope_result_t<Body>;
  task_context& context = co_await detail::this_context();
  detail::open_scope here(context.stop, errors);
  co_await here.adopt();
  task<result> work;
  try {
    work = as_task(std::invoke(body, static_cast<scope&>(here)));
  } catch (...) {
    here.add_error(detail::caught_error());
  }
  if (work.valid()) {
    {
      const detail::stopped_by scoped(context, here.get_token());
      co_await detail::await_ready_state(work);
    }
    if (std::exception_ptr error = detail::task_access::state(work).take_error()) {
      here.add_error(std::move(error));
    }
  }
  co_await here.join();
  std::exception_ptr error = here.take_error(context);
  co_await detail::fail_with(error);
  const bool has_result = std::is_void_v<result> || !detail::task_access::state(work).empty();
  if (!has_result) detail::throw_cancelled(context);
  co_return co_await detail::take_result(work);
}

}  // namespace gyre
