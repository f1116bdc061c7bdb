// SPDX-License-Identifier: Apache-2.0
// Structured concurrency: coroutines that are started one by one, and none of which outlives the
// scope they are started in.
//
//     co_await gyre::with_scope([&](gyre::scope& scope) -> gyre::task<> {
//       while (auto connection = co_await listener.accept()) {
//         scope.spawn(serve(std::move(*connection)));
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
#include <gyre/task/when_all.hpp>

#include <concepts>
#include <coroutine>
#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

namespace gyre {

/// A scope's reaction to an error.
enum class scope_errors {
  /// The first one asks the body and all tasks to stop; it is thrown when they have ended. Errors
  /// that come after it are dropped.
  stop_at_first,
  /// Nobody is stopped; when all have ended, all errors are thrown together, in a scope_error.
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

/// Where with_scope() starts tasks. It is open until the body and all its tasks have ended: both
/// may use it, and whoever they wait for. All members from any thread.
class scope : detail::child_set {
 public:
  scope(const scope&) = delete;
  scope& operator=(const scope&) = delete;

  /// Starts `awaitable` on the executor where with_scope() was awaited, never before spawn()
  /// returns there, and beside everything else in the scope. Takes it by value; its result is
  /// dropped, for its error see scope_errors. In a scope that was asked to stop it starts, with a
  /// token that says so.
  ///
  /// Some 100 bytes from the slab, given back when it ends, and a frame unless it is a task. Throws
  /// std::bad_alloc, and std::logic_error for an empty task.
  ///
  /// `name` is shown by backtraces and must outlive the task.
  template <awaitable Awaitable>
  void spawn(Awaitable awaitable, const char* name = nullptr) {
    spawn(*inherited_.where, std::move(awaitable), name);
  }
  /// The same on `where`, which must outlive the scope.
  template <awaitable Awaitable>
  void spawn(executor& where, Awaitable awaitable, const char* name = nullptr) {
    if constexpr (std::is_same_v<Awaitable, task<>>) {
      spawn_task(where, std::move(awaitable), name);
    } else {
      spawn_task(where, drop_result(std::move(awaitable)), name);
    }
  }

  /// Asks the body and all tasks to stop. One that then ends with operation_cancelled, or with
  /// std::errc::operation_canceled, has not failed. False if they were asked before.
  bool request_stop() noexcept { return stop_.request_stop(); }
  /// The token that the body and the tasks have.
  inplace_stop_token get_token() const noexcept { return stop_.get_token(); }
  /// Tasks that have not ended.
  std::size_t size() const noexcept {
    // relaxed: a number that may have changed when it is read.
    return open_.load(std::memory_order_relaxed) / one_task;
  }

  /// Where each task waits that has not ended, the oldest first, for people who look for what
  /// hangs. None of them may run on another thread meanwhile. Empty where backtraces are off.
  /// O(tasks).
  std::vector<async_backtrace> live_tasks();

 protected:
  using detail::child_set::attach;
  scope(inplace_stop_token parent, scope_errors policy) noexcept;
  ~scope();

  // Keeps the error of the body or of a task, unless that was asked to stop and did.
  void note_error(std::exception_ptr error) noexcept;

  task_context inherited_;
  detail::linked_stop_source stop_;
  detail::resumption parent_;  // resumes the coroutine that joins
  executor* home_ = nullptr;   // and where
  // The body, and one_task for each task that has not ended.
  detail::atomic<std::size_t> open_{1};
  static constexpr std::size_t one_task = 2;
  const scope_errors policy_;
  bool cancelled_ =
      false;  // somebody was; belongs, as what follows, to the lock until all have ended
  std::exception_ptr first_error_;
  std::vector<std::exception_ptr> more_errors_;  // if they are collected

 private:
  class child;

  template <class Awaitable>
  static task<> drop_result(Awaitable held) {
    static_cast<void>(co_await std::move(held));
  }
  void spawn_task(executor& where, task<> work, const char* name);
  std::coroutine_handle<> leave(const executor* here) noexcept;
#if GYRE_ASYNC_BACKTRACE
  void append_children(std::vector<task_context*>& to) override;
#endif

  std::mutex mutex_;
#if GYRE_ASYNC_BACKTRACE
  intrusive_list<child> children_;  // those that have not ended
#endif
};

namespace detail {

/// A scope for the coroutine that waits for it.
class open_scope final : public scope {
 public:
  open_scope(inplace_stop_token parent, scope_errors policy) noexcept : scope(parent, policy) {}

  /// Awaited before anything else: the coroutine is the one that will wait.
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

  using scope::note_error;
};

template <class Body>
using scope_result_t = task_result_t<std::invoke_result_t<Body&, scope&>>;

}  // namespace detail

/// Opens a scope, awaits what `body(scope)` returns and all tasks that were started in the scope,
/// and gives what the body gave. However it ends, nothing of it is left; `body`, a lambda with
/// captures for instance, lives as long.
///
/// The body is stopped with the tasks, and its errors count like theirs (see scope_errors). All
/// stop when the coroutine is asked to, and then operation_cancelled is thrown if one of them ended
/// with it. After scope::request_stop(), by whomever, those that ended with it have not failed; but
/// if the body has a value to give and was among them, std::errc::operation_canceled is thrown.
///
/// Goes on where the body ended (its own executor, unless the body used resume_on()). Costs a
/// frame, and one for the body. Must not be destroyed while tasks of the scope run or wait, as they
/// refer to it: the program ends with a message if it is. Ask it to stop, and await it, instead.
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
    here.note_error(detail::caught_error());
  }
  std::optional<detail::element_t<result>> value;
  if (work.valid()) {
    {
      const detail::stopped_by scoped(context, here.get_token());
      co_await detail::await_ready_state(work);
    }
    if (std::exception_ptr error = detail::task_access::state(work).take_error()) {
      here.note_error(std::move(error));
    } else {
      try {
        value.emplace(detail::take_element(work));
      } catch (...) {
        here.note_error(std::current_exception());
      }
    }
  }
  co_await here.join();
  std::exception_ptr error = here.take_error(context);
  co_await detail::fail_with(error);
  if constexpr (!std::is_void_v<result>) {
    if (!value) detail::throw_cancelled(context);
    if constexpr (std::is_reference_v<result>) {
      co_return value->get();
    } else {
      co_return std::move(*value);
    }
  }
}

}  // namespace gyre
