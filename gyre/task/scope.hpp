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
#include <gyre/task/as_task.hpp>
#include <gyre/task/async_backtrace.hpp>
#include <gyre/task/context.hpp>
#include <gyre/task/detail/cancelled.hpp>
#include <gyre/task/detail/child_set.hpp>
#include <gyre/task/detail/listed_contexts.hpp>
#include <gyre/task/detail/recorded_task.hpp>
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
#include <source_location>
#include <type_traits>
#include <utility>
#include <vector>

namespace gyre {

template <class T>
class join_handle;

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

namespace detail {

struct scope_access;

/// A task in the list of its scope, which only backtraces need.
using scope_entry = listed_contexts::link;

}  // namespace detail

/// The set of tasks that a with_scope(), or the join() of an async_scope, waits for.
///
/// Thread-safety: every member may be called from any thread.
/// Lifetime: until the body of with_scope() and all tasks, which may use the scope, have ended.
class scope : detail::child_set {
 public:
  /// Starts `awaitable`, by an executor::post() to the executor where with_scope() was awaited, or
  /// that of the async_scope. Its result is dropped, its error handled according to scope_errors.
  /// After a stop the task still starts, with a stopped token. `name` is shown by live_tasks() and
  /// backtraces, and must outlive the task.
  ///
  /// Errors: std::bad_alloc; std::logic_error for an empty task, and when an async_scope was joined
  /// and its last task has ended.
  /// Complexity: 64 bytes from the slab, and a frame unless `awaitable` is a task.
  template <awaitable Awaitable>
  void spawn(Awaitable awaitable, const char* name = nullptr,
             std::source_location location = std::source_location::current()) {
    spawn(*inherited_.where, std::move(awaitable), name, location);
  }
  /// As spawn(awaitable), on `target`, which must outlive the scope.
  template <awaitable Awaitable>
  void spawn(executor& target, Awaitable awaitable, const char* name = nullptr,
             std::source_location location = std::source_location::current()) {
    task<> work = detail::as_task_without_result(std::move(awaitable));
    detail::record_if_asked(work, target, name, location);
    spawn_task(target, std::move(work), name);
  }
  // Explains wrong arguments: see base/detail/misuse.hpp.
  void spawn(detail::misused_awaitable explained, const char* name = nullptr);
  void spawn(executor& target, detail::misused_awaitable explained, const char* name = nullptr);

  /// As spawn(), but returns a handle by which the task's result is awaited; the caller includes
  /// join_handle.hpp. The scope waits for the task, and asks it to stop, but the task's error goes
  /// to the handle alone, unless that is detached before.
  template <awaitable Awaitable>
  join_handle<task_result_t<Awaitable>> spawn_joinable(
      Awaitable awaitable, const char* name = nullptr,
      std::source_location location = std::source_location::current()) {
    return spawn_joinable(*inherited_.where, std::move(awaitable), name, location);
  }
  template <awaitable Awaitable>
  join_handle<task_result_t<Awaitable>> spawn_joinable(
      executor& target, Awaitable awaitable, const char* name = nullptr,
      std::source_location location = std::source_location::current()) {
    return join_handle<task_result_t<Awaitable>>::start(as_task(std::move(awaitable)), target, this,
                                                        {.name = name}, location);
  }
  // Explains wrong arguments: see base/detail/misuse.hpp.
  std::suspend_never spawn_joinable(detail::misused_awaitable explained,
                                    const char* name = nullptr);
  std::suspend_never spawn_joinable(executor& target, detail::misused_awaitable explained,
                                    const char* name = nullptr);

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
  /// Called once the scope is closed and its last task has ended, on the executor `here`; returns
  /// the coroutine to resume. The scope may be gone afterwards.
  using end_function = std::coroutine_handle<>(scope& self, const executor* end_executor) noexcept;

  // `outlives_end`: spawn() and close() may be called after the end, which costs them a loop.
  scope(inplace_stop_token parent, scope_errors policy, end_function* end,
        bool outlives_end) noexcept;
  ~scope() = default;

  /// Admits no tasks once the last one has ended. True, and `end` is not called, if none is left.
  bool close() noexcept {
    // release: pairs with the acquire in finish_task(), which calls `end`; acquire: pairs with the
    // release there: the errors are seen.
    const std::size_t seen = outlives_end_ ? open_.fetch_and(~not_closed, std::memory_order_acq_rel)
                                           : open_.fetch_sub(not_closed, std::memory_order_acq_rel);
    return seen == not_closed;
  }
  /// Called by the destructor of `name`: if tasks are running, ends the program with a message and
  /// `advice`.
  void abort_if_running(const char* name, const char* advice) const noexcept;

  // Keeps the error of the body or of a task, unless that was asked to stop and did.
  void add_error(std::exception_ptr error) noexcept;
  /// The exception for the coroutine of `joiner` after the end, of the errors or its stop; null if
  /// there is none. Counts a cancellation unless that `was_counted`.
  std::exception_ptr final_error(const task_context& joiner, bool was_counted) const;

  void append_children(std::vector<task_context*>& contexts);

  task_context inherited_;
  detail::linked_stop_source stop_;

 private:
  friend detail::scope_access;
  class child;
  class posted_child;
  class traced_child;
  using starter = std::conditional_t<detail::records_backtraces, traced_child, posted_child>;

  void spawn_task(executor& target, task<> work, const char* name);
  // Counts a task, or throws std::logic_error after the end; from then on it is listed.
  void add_task(detail::scope_entry& entry, task_context& context);
  void unlist(detail::scope_entry& entry) noexcept;
  std::coroutine_handle<> finish_task(const executor* end_executor) noexcept;

  static constexpr std::size_t not_closed = 1;
  static constexpr std::size_t one_task = 2;
  // The sum of one_task for each task that has not ended, and not_closed. Zero is the end.
  detail::atomic<std::size_t> open_{not_closed};
  end_function* const end_;
  const scope_errors policy_;
  const bool outlives_end_;
  // Until the end, mutex_ guards the members from here on.
  bool cancelled_ = false;  // the body or a task ended because of the stop
  std::exception_ptr first_error_;
  std::vector<std::exception_ptr> more_errors_;  // if they are collected
  std::mutex mutex_;
  [[no_unique_address]] detail::listed_contexts children_;  // those that have not ended
};

namespace detail {

/// A scope's interface for tasks of other kinds than those of scope::spawn().
struct scope_access {
  static const task_context& inherited(const scope& owner) noexcept { return owner.inherited_; }
  /// Counts the task of `context`, and lists it. Throws std::logic_error after the end.
  static void add_task(scope& owner, scope_entry& entry, task_context& context) {
    owner.add_task(entry, context);
  }
  static void unlist(scope& owner, scope_entry& entry) noexcept { owner.unlist(entry); }
  /// Adds `work`, which is about to start on `target`, to the record of live tasks if that is on.
  template <class T>
  static void record_if_asked(task<T>& work, const executor& target, const char* name,
                              std::source_location location) {
    detail::record_if_asked(work, target, name, location);
  }
  /// Gives `owner` the error of `task`, unless something else than the scope has stopped that task.
  static void add_error_of(const task_context& task, scope& owner,
                           std::exception_ptr error) noexcept {
    if (task.stop.stop_requested() && !owner.stop_.stop_requested() && is_cancelled(error)) return;
    owner.add_error(std::move(error));
  }
  /// A task's end on `here`, after unlist(): returns the coroutine to resume. With a null pointer
  /// none is resumed on this thread.
  static std::coroutine_handle<> finish_task(scope& owner, const executor* end_executor) noexcept {
    return owner.finish_task(end_executor);
  }
};

/// A scope with the members for the coroutine that waits for it.
class open_scope final : public scope {
 public:
  open_scope(inplace_stop_token parent, scope_errors policy) noexcept
      : scope(parent, policy, &resume_parent, false) {}
  ~open_scope() {
    abort_if_running("with_scope()", "let the coroutine end, by a stop request if need be");
  }

  /// Awaited before anything else: makes the coroutine the parent.
  auto adopt() noexcept {
    return suspension([this](auto parent) noexcept {
      fork_context(inherited_, parent);
      inherited_.stop = get_token();
      attach(parent);
      return false;
    });
  }
  /// Awaited after the body: waits until all tasks have ended.
  auto join() noexcept {
    return suspension([this](auto parent) noexcept {
      parent_.waiting = parent;
      home_ = context_of(parent).where;
      return !close();
    });
  }
  /// After join(): the exception for the coroutine, of the errors or its stop; null if none.
  std::exception_ptr take_error(const task_context& parent) const {
    const bool was_counted = parent.cancellations != inherited_.cancellations;  // in the body
    return final_error(parent, was_counted);
  }

  using scope::add_error;

 private:
  static std::coroutine_handle<> resume_parent(scope& self, const executor* end_executor) noexcept;

  resumption parent_;  // resumes the coroutine that joins
  executor* home_ = nullptr;
};

/// Takes the place of a wrong body of with_scope(), and explains the mistake.
class misused_body {
 public:
  GYRE_MISUSE_FAILS(misused_body);

  template <class Body>
  GYRE_MISUSE(
      "the body of with_scope() takes the scope and returns an awaitable: write "
      "[&](gyre::scope& scope) -> gyre::task<> { … }")
  misused_body(Body&&) {}
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
// Explains wrong arguments: see base/detail/misuse.hpp.
std::suspend_never with_scope(detail::misused_body explained, scope_errors errors = {});

}  // namespace gyre
