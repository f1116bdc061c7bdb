// SPDX-License-Identifier: Apache-2.0
// scope: structured concurrency: no task outlives the scope in which it was started.
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

/// The reaction of a scope to an error.
enum class scope_errors {
  /// The first error asks the body and all tasks to stop; when they have ended, only that error is
  /// thrown.
  stop_at_first,
  /// No task is stopped; when all have ended, all errors are thrown in a scope_error.
  collect,
};

/// All errors of a scope, in the order in which they occurred; at least one.
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

/// The link of a task in the list of its scope; only backtraces need the list.
using scope_entry = listed_contexts::link;

}  // namespace detail

/// The set of tasks that a with_scope(), or the join() of an async_scope, waits for.
///
/// Thread-safety: every member may be called from any thread.
/// Lifetime: exists until the body of with_scope() and all tasks, which may use the scope, have
/// ended.
class scope : detail::child_set {
 public:
  /// Starts `awaitable`, by an executor::post() to the executor where with_scope() was awaited, or
  /// that of the async_scope. The result is dropped; an error is handled according to scope_errors.
  /// After a stop the task still starts, with a stopped token. `name` is shown by live_tasks() and
  /// backtraces, and must outlive the task.
  ///
  /// Errors: std::bad_alloc; std::logic_error for an empty task, and when an async_scope was joined
  /// and its last task has ended.
  /// Complexity: 48 bytes from the slab, and a frame unless `awaitable` is a task.
  template <awaitable Awaitable>
  void spawn(Awaitable awaitable, const char* name = nullptr,
             std::source_location location = std::source_location::current()) {
    spawn(*inherited_.where, std::move(awaitable), name, location);
  }
  /// Starts `awaitable` as spawn(awaitable) does, but on `target`, which must outlive the scope.
  template <awaitable Awaitable>
  void spawn(executor& target, Awaitable awaitable, const char* name = nullptr,
             std::source_location location = std::source_location::current()) {
    task<> work = detail::as_task_without_result(std::move(awaitable));
    detail::record_if_enabled(work, target, name, location);
    spawn_task(target, std::move(work), name);
  }
  // This overload explains wrong arguments: see base/detail/misuse.hpp.
  void spawn(detail::misused_awaitable explained, const char* name = nullptr);
  void spawn(executor& target, detail::misused_awaitable explained, const char* name = nullptr);

  /// Starts `awaitable` as spawn() does, and returns a handle with which a coroutine awaits the
  /// task's result; the caller includes join_handle.hpp. The scope waits for the task, and can ask
  /// it to stop, but the task's error goes only to the handle, unless the handle is detached first.
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
  // This overload explains wrong arguments: see base/detail/misuse.hpp.
  std::suspend_never spawn_joinable(detail::misused_awaitable explained,
                                    const char* name = nullptr);
  std::suspend_never spawn_joinable(executor& target, detail::misused_awaitable explained,
                                    const char* name = nullptr);

  /// Asks the body and all tasks to stop. Their gyre::operation_cancelled, or a std::system_error
  /// (std::errc::operation_canceled), is then no error. Returns false if they were asked before.
  bool request_stop() noexcept { return stop_.request_stop(); }
  /// Returns the stop token of the body and the tasks.
  inplace_stop_token get_token() const noexcept { return stop_.get_token(); }
  /// Returns the number of tasks that have not ended.
  std::size_t size() const noexcept {
    // relaxed: the number may have changed by the time it is used.
    return open_.load(std::memory_order_relaxed) / one_task;
  }

  /// Returns the backtraces of the tasks that have not ended, the oldest first; empty where
  /// backtraces are off. None of the tasks may run on another thread meanwhile. O(tasks).
  std::vector<async_backtrace> live_tasks();

 protected:
  using detail::child_set::attach;
  /// Called on `end_executor` once the scope is closed and its last task has ended. Returns the
  /// coroutine to resume. May destroy the scope.
  using end_function = std::coroutine_handle<>(scope& self, const executor* end_executor) noexcept;

  // Makes an open scope. `outlives_end`: spawn() and close() may be called after the end; spawn()
  // then needs a compare-exchange instead of one fetch_add.
  scope(inplace_stop_token parent, scope_errors policy, end_function* end,
        bool outlives_end) noexcept;
  ~scope() = default;

  /// Closes the scope: no task may start once the last one has ended. Returns true, and does not
  /// call `end`, if no task is left.
  bool close() noexcept {
    // release: pairs with the acquire in finish_task(), which calls `end`; makes the waiting
    // coroutine visible there. acquire: pairs with the release in finish_task(); makes the errors
    // visible.
    const std::size_t seen = outlives_end_ ? open_.fetch_and(~not_closed, std::memory_order_acq_rel)
                                           : open_.fetch_sub(not_closed, std::memory_order_acq_rel);
    return seen == not_closed;
  }
  /// Ends the program with a message and `advice` if tasks are running. Called by the destructor of
  /// the class `name`.
  void abort_if_running(const char* name, const char* advice) const noexcept;

  // Stores the error of the body or of a task, unless the error only reports a cancellation after a
  // stop of the scope.
  void add_error(std::exception_ptr error) noexcept;
  /// Returns the exception that the coroutine of `joiner` throws after the end, because of errors
  /// or of its own stop; null if there is none. Counts a cancellation unless `was_counted`.
  std::exception_ptr final_error(const task_context& joiner, bool was_counted) const;

  void append_children(std::vector<task_context*>& contexts);

  task_context inherited_;
  detail::linked_stop_source stop_;

 private:
  friend detail::scope_access;
  class started_child;
  class posted_child;
  class traced_child;
  using starter = std::conditional_t<detail::records_backtraces, traced_child, posted_child>;

  // The end of all tasks of posted_child: adds their errors to the scope.
  class error_collector final : public detail::detached_end {
   public:
    explicit error_collector(scope& owner) noexcept : detached_end(&add_error), owner_(owner) {}

   private:
    static void add_error(const detached_end& self, const std::exception_ptr& error) noexcept {
      static_cast<const error_collector&>(self).owner_.add_error(error);
    }

    scope& owner_;
  };

  void spawn_task(executor& target, task<> work, const char* name);
  // Counts and lists a task. Throws std::logic_error after the end of the scope.
  void add_task(detail::scope_entry& entry, task_context& context);
  void unlist(detail::scope_entry& entry) noexcept;
  std::coroutine_handle<> finish_task(const executor* end_executor) noexcept;

  static constexpr std::size_t not_closed = 1;
  static constexpr std::size_t one_task = 2;
  // The sum of one_task for each task that has not ended, and of not_closed while the scope is
  // open. Zero after the end.
  detail::atomic<std::size_t> open_{not_closed};
  error_collector error_collector_{*this};
  end_function* const end_;
  const scope_errors policy_;
  const bool outlives_end_;
  // mutex_ protects the following members until the end.
  bool was_cancelled_ = false;  // whether the body or a task ended because of the stop
  std::exception_ptr first_error_;
  // The errors after the first, for scope_errors::collect.
  std::vector<std::exception_ptr> more_errors_;
  std::mutex mutex_;
  [[no_unique_address]] detail::listed_contexts children_;  // the tasks that have not ended
};

namespace detail {

/// The interface of a scope for tasks that are not started by scope::spawn().
struct scope_access {
  static const task_context& inherited(const scope& owner) noexcept { return owner.inherited_; }
  /// Counts and lists the task of `context`. Throws std::logic_error after the end of the scope.
  static void add_task(scope& owner, scope_entry& entry, task_context& context) {
    owner.add_task(entry, context);
  }
  static void unlist(scope& owner, scope_entry& entry) noexcept { owner.unlist(entry); }
  /// Adds `work`, which is about to start on `target`, to the record of live tasks if tasks are
  /// recorded.
  template <class T>
  static void record_if_enabled(task<T>& work, const executor& target, const char* name,
                                std::source_location location) {
    detail::record_if_enabled(work, target, name, location);
  }
  /// Adds the error of `task` to `owner`, unless `task` was cancelled by another stop source than
  /// that of the scope.
  static void add_error_of(const task_context& task, scope& owner,
                           std::exception_ptr error) noexcept {
    if (task.stop.stop_requested() && !owner.stop_.stop_requested() && is_cancelled(error)) return;
    owner.add_error(std::move(error));
  }
  /// Called when a task has ended on `end_executor`, after unlist(). Returns the coroutine to
  /// resume; if `end_executor` is null, no coroutine is resumed on this thread.
  static std::coroutine_handle<> finish_task(scope& owner, const executor* end_executor) noexcept {
    return owner.finish_task(end_executor);
  }
};

/// The scope of with_scope(): a scope with a coroutine that waits for it.
class open_scope final : public scope {
 public:
  open_scope(inplace_stop_token parent, scope_errors policy) noexcept
      : scope(parent, policy, &resume_parent, false) {}
  ~open_scope() {
    abort_if_running("with_scope()", "let the coroutine end, by a stop request if need be");
  }

  /// Returns an awaitable that makes the awaiting coroutine the parent. Awaited before any other
  /// member is used.
  auto adopt() noexcept {
    return suspension([this](auto parent) noexcept {
      fork_context(inherited_, parent);
      inherited_.stop = get_token();
      attach(parent);
      return false;
    });
  }
  /// Returns an awaitable that waits until all tasks have ended. Awaited after the body.
  auto join() noexcept {
    return suspension([this](auto parent) noexcept {
      parent_.waiting = parent;
      parent_executor_ = context_of(parent).where;
      return !close();
    });
  }
  /// Returns the exception for the coroutine, because of errors or of its own stop; null if there
  /// is none. Called after join().
  std::exception_ptr take_error(const task_context& parent) const {
    // Whether a wait in the body has counted the cancellation.
    const bool was_counted = parent.cancellations != inherited_.cancellations;
    return final_error(parent, was_counted);
  }

  using scope::add_error;

 private:
  static std::coroutine_handle<> resume_parent(scope& self, const executor* end_executor) noexcept;

  resumption parent_;  // resumes the coroutine that joins
  executor* parent_executor_ = nullptr;
};

/// A parameter type that accepts only wrong bodies of with_scope(), and explains the mistake in the
/// compiler's error.
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

/// Opens a scope, awaits the awaitable that `body(scope)` returns and all tasks that are started in
/// the scope, and returns the result of the body. The body is stopped with the tasks, and its
/// errors are handled like theirs: see scope_errors. A stop of the coroutine stops the body and all
/// tasks.
///
/// Thread-safety: the coroutine resumes on the executor on which the body ended.
/// Lifetime: `body` exists until the scope has ended. The coroutine must not be destroyed earlier;
/// if it is, the program ends with a message.
/// Errors: those of the body and the tasks. Throws gyre::operation_cancelled if the coroutine was
/// asked to stop and the body or a task was cancelled; std::errc::operation_canceled if
/// scope::request_stop() ended a body that has a result.
/// Complexity: two coroutine frames.
template <class Body>
  requires std::invocable<Body&, scope&> && awaitable<std::invoke_result_t<Body&, scope&>>
task<detail::scope_result_t<Body>> with_scope(Body body,
                                              scope_errors errors = scope_errors::stop_at_first) {
  using result = detail::scope_result_t<Body>;
  task_context& context = co_await detail::this_context();
  detail::open_scope task_scope(context.stop, errors);
  co_await task_scope.adopt();
  task<result> work;
  try {
    work = as_task(std::invoke(body, static_cast<scope&>(task_scope)));
  } catch (...) {
    task_scope.add_error(detail::caught_error());
  }
  if (work.valid()) {
    {
      const detail::stopped_by token_scope(context, task_scope.get_token());
      co_await detail::await_ready_state(work);
    }
    if (std::exception_ptr error = detail::task_access::state(work).take_error()) {
      task_scope.add_error(std::move(error));
    }
  }
  co_await task_scope.join();
  std::exception_ptr error = task_scope.take_error(context);
  co_await detail::fail_with(error);
  const bool has_result = std::is_void_v<result> || !detail::task_access::state(work).empty();
  if (!has_result) detail::throw_cancelled(context);
  co_return co_await detail::take_result(work);
}
// This overload explains wrong arguments: see base/detail/misuse.hpp.
std::suspend_never with_scope(detail::misused_body explained, scope_errors errors = {});

}  // namespace gyre
