// SPDX-License-Identifier: Apache-2.0
// join_set: tasks of a scope whose results are taken in the order in which the tasks end.
//
//     gyre::join_set<std::string> downloads(scope);
//     for (const std::string& url : urls) downloads.spawn(fetch(url));
//     while (auto done = co_await downloads.next()) show(*done);  // the fastest first
//
// At most eight tasks at a time, and their results at once:
//
//     for (const std::string& url : urls) {
//       if (downloads.size() == 8) {
//         auto done = co_await downloads.next();
//         show(*done);
//       }
//       downloads.spawn(fetch(url));
//     }
#pragma once

#include <gyre/sync/detail/join_set_core.hpp>
#include <gyre/sync/semaphore.hpp>
#include <gyre/task/as_task.hpp>
#include <gyre/task/context.hpp>
#include <gyre/task/detail/cancelled.hpp>
#include <gyre/task/executor.hpp>
#include <gyre/task/scope.hpp>
#include <gyre/task/stop_token.hpp>
#include <gyre/task/task.hpp>

#include <coroutine>
#include <cstddef>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <source_location>
#include <type_traits>
#include <utility>

namespace gyre {

/// Tasks of one result type in a scope, from which one coroutine takes the results in the order in
/// which the tasks end, like Tokio's JoinSet. If the coroutine needs all results anyway, when_all()
/// is simpler. To limit how many run at a time, and how many results wait, take a result before
/// each spawn() once size() is the limit, as in the example; or collect(), if the results are
/// needed together and in the order of the tasks.
///
/// The scope awaits the tasks, and a stop of the scope stops them. Errors of the tasks are stored
/// in the set instead of the scope: next() throws them. A set that is destroyed leaves its tasks to
/// the scope, as if scope::spawn() had started them: results and errors that were not taken are
/// dropped, and the scope gets later errors. (Tokio's JoinSet aborts the tasks: call request_stop()
/// first for that.)
///
/// Thread-safety: spawn(), size() and request_stop() from any thread; next() and try_next() by one
/// coroutine at a time.
/// Lifetime: the scope outlives the set; the set may end before its tasks.
/// Errors: see next().
/// Complexity: the set is one block of the slab. A task takes some 150 bytes from the slab, and a
/// frame unless the awaitable is a task; its end is O(1), and a wait allocates nothing.
template <class T = void>
class join_set {
  class next_operation;

 public:
  using value_type = T;
  /// The result of next(): an optional, of std::reference_wrapper for references; bool for void.
  using next_result =
      std::conditional_t<std::is_void_v<T>, bool, std::optional<detail::element_t<T>>>;

  /// Makes a set of tasks that run in `owner`, on its executor. Throws std::bad_alloc.
  explicit join_set(scope& owner) : core_(new detail::join_set_core(owner)) {}
  join_set(const join_set&) = delete;
  join_set& operator=(const join_set&) = delete;
  ~join_set() {
    core_->close();
    core_->release();
  }

  /// Starts `awaitable` as scope::spawn() does. Throws the exceptions of scope::spawn().
  template <awaitable Awaitable>
    requires std::is_same_v<task_result_t<Awaitable>, T>
  void spawn(Awaitable awaitable, const char* name = nullptr,
             std::source_location location = std::source_location::current()) {
    spawn(*detail::scope_access::inherited(core_->owner()).where, std::move(awaitable), name,
          location);
  }
  /// Like spawn(awaitable), but runs on `target`, which must outlive the scope.
  template <awaitable Awaitable>
    requires std::is_same_v<task_result_t<Awaitable>, T>
  void spawn(executor& target, Awaitable awaitable, const char* name = nullptr,
             std::source_location location = std::source_location::current()) {
    task<T> work = as_task(std::move(awaitable));
    if (!work.valid()) detail::throw_empty_task();
    detail::scope_access::record_if_enabled(work, target, name, location);
    detail::join_set_task::start(
        std::make_unique<detail::typed_join_set_task<T>>(*core_, target, std::move(work), name));
  }
  // This overload explains wrong arguments: see base/detail/misuse.hpp.
  void spawn(detail::misused_awaitable explained, const char* name = nullptr);
  void spawn(executor& target, detail::misused_awaitable explained, const char* name = nullptr);

  /// Awaited, returns the result of the task that ended first of those not taken yet; waits if none
  /// has ended. Returns std::nullopt (false) if all were taken. A stop of the awaiting coroutine
  /// ends the wait at once, and takes nothing.
  ///
  /// Errors: throws the exception of the task, which is thereby taken: next() continues with the
  /// others. The error of a task that was asked to stop is std::system_error
  /// (std::errc::operation_canceled). Throws gyre::operation_cancelled if the awaiting coroutine
  /// was asked to stop.
  [[nodiscard]] auto next() noexcept { return next_operation(*core_); }
  /// Like next(), but does not wait: returns std::nullopt (false) also if no task has ended.
  [[nodiscard]] next_result try_next() {
    if (!core_->ended().try_acquire()) return next_result{};
    return take(*core_, nullptr);
  }

  /// Returns the number of tasks whose results were not taken, ended ones included.
  [[nodiscard]] std::size_t size() const noexcept { return core_->size(); }
  /// Asks the tasks to stop, also those started later, but not the scope. Returns false if called
  /// before.
  bool request_stop() noexcept { return core_->request_stop(); }

 private:
  static next_result take(detail::join_set_core& core, const task_context* context) {
    const std::unique_ptr<detail::join_set_task> owner = core.pop();
    core.remove_one();
    if (std::exception_ptr error = owner->take_error()) [[unlikely]] {
      std::rethrow_exception(context != nullptr
                                 ? detail::translate_taken_error(*context, std::move(error))
                                 : detail::error_outside(std::move(error)));
    }
    auto& task = static_cast<detail::typed_join_set_task<T>&>(*owner);
    if constexpr (std::is_void_v<T>) {
      task.take_result();
      return true;
    } else {
      return next_result(task.take_result());
    }
  }

  detail::join_set_core* core_;
};

/// The awaitable of join_set::next().
template <class T>
class [[nodiscard]] join_set<T>::next_operation {
 public:
  explicit next_operation(detail::join_set_core& core) noexcept
      : core_(core), wait_(core.ended().acquire()) {}

  static constexpr bool executor_affine = true;
  static constexpr bool await_ready() noexcept { return false; }
  template <class Promise>
  bool await_suspend(std::coroutine_handle<Promise> coroutine) noexcept {
    context_ = &detail::context_of(coroutine);
    is_empty_ = core_.size() == 0;
    if (is_empty_ || wait_.await_ready()) return detail::gives_way(*context_, coroutine);
    return wait_.await_suspend(coroutine);
  }
  next_result await_resume() {
    if (is_empty_) return next_result{};
    wait_.await_resume();
    return take(core_, context_);
  }

 private:
  detail::join_set_core& core_;
  semaphore::acquire_operation wait_;
  const task_context* context_ = nullptr;
  bool is_empty_ = false;
};

}  // namespace gyre
