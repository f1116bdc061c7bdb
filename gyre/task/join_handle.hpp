// SPDX-License-Identifier: Apache-2.0
// join_handle: a handle of a started task, whose result one coroutine awaits later.
//
//     gyre::join_handle<std::string> first = gyre::spawn_joinable(workers, fetch("one"));
//     std::string second = co_await fetch("two");  // while the first is fetched
//     std::string joined = co_await first.join();
#pragma once

#include <gyre/base/atomic.hpp>
#include <gyre/task/as_task.hpp>
#include <gyre/task/context.hpp>
#include <gyre/task/detail/cancelled.hpp>
#include <gyre/task/detail/recorded_task.hpp>
#include <gyre/task/executor.hpp>
#include <gyre/task/scope.hpp>
#include <gyre/task/shared_task.hpp>
#include <gyre/task/stop_token.hpp>
#include <gyre/task/task.hpp>

#include <coroutine>
#include <exception>
#include <optional>
#include <source_location>
#include <utility>

namespace gyre {

/// Settings of a task that spawn_joinable() starts.
struct joinable_options {
  /// A stop token that asks the task to stop, in addition to its handle. The token's source must
  /// outlive the task's code; it may be destroyed with the task's frame, as a parameter of its
  /// coroutine.
  inplace_stop_token stop = {};
  /// The name that live_tasks() shows, and backtraces where they are on. Must outlive the task.
  const char* name = nullptr;
};

namespace detail {

/// Throws the std::logic_error for the use of an empty handle.
[[noreturn, gnu::cold]] void throw_empty_join_handle();
[[noreturn, gnu::cold]] void throw_joined_twice();

/// The shared_work behind a join_handle: a task whose owner is the handle.
// NOLINTNEXTLINE(cppcoreguidelines-virtual-class-destructor): its last owner deletes the object
class joinable_work : public shared_work, scope_entry {
 public:
  /// Starts the task. Called once, by the handle. If it throws, the handle drops the work.
  void launch();
  using shared_work::request_stop;
  /// Removes the handle from the work's owners: asks the task to stop unless a coroutine joins it,
  /// and drops its result.
  void drop() noexcept {
    remove_owner();
    release();
  }
  /// Removes the handle from the work's owners, and lets the task continue.
  void detach() noexcept;

 protected:
  // Makes work whose scope is `owner`, or null.
  joinable_work(executor& target, scope* owner, const joinable_options& options) noexcept;

  /// Starts to observe the parent's stop token. Called when the task starts, not earlier, because a
  /// frame that never runs may own the token's source.
  void observe_parent() noexcept;
  /// Returns whether the caller is the first to take the result.
  bool claim_result() noexcept {
    // relaxed: the wait for the result has made it visible.
    return !is_claimed_.exchange(true, std::memory_order_relaxed);
  }

 private:
  struct pass_on_stop {
    joinable_work* self;
    void operator()() const noexcept { self->request_stop(); }
  };

  /// Ends a task that has not started, with `error`.
  virtual void fail_unstarted(std::exception_ptr error) noexcept = 0;
  virtual std::exception_ptr take_error() noexcept = 0;

  static std::coroutine_handle<> on_end(task_context& context) noexcept;
  static void discard(operation& starter) noexcept;
  void report_error() noexcept;

  scope* const owner_;
  const inplace_stop_token parent_;
  std::optional<inplace_stop_callback<pass_on_stop>> on_stop_;  // set while the task runs
  atomic<bool> is_detached_{false};
  atomic<bool> is_claimed_{false};
};

template <class T>
class joinable_state final : public joinable_work {
 public:
  joinable_state(task<T>&& work, executor& target, scope* owner, const joinable_options& options)
      : joinable_work(target, owner, options), work_(std::move(work)) {
    // The task is prepared here, so that backtraces show it before it begins.
    if constexpr (records_backtraces) {
      task_access::state(work_).prepare(static_cast<task_context&>(*this));
    }
  }

  /// Returns whether the task has ended with a result.
  bool has_result() const noexcept { return is_ready() && !has_failed(); }
  /// Returns the result of a task that has ended, once. `reader` is the context of the coroutine
  /// that takes the result; null outside of coroutines.
  T take(const task_context* reader) {
    if (!claim_result()) throw_joined_twice();
    if (std::exception_ptr error = take_error()) [[unlikely]] {
      std::rethrow_exception(reader != nullptr ? translate_taken_error(*reader, std::move(error))
                                               : error_outside(std::move(error)));
    }
    return task_access::state(work_).take_result();
  }

 private:
  std::coroutine_handle<> start(task_context& own_context) noexcept override {
    observe_parent();
    return task_access::state(work_).prepare(own_context);
  }
  bool has_failed() const noexcept override { return task_access::state(work_).failed(); }
  std::exception_ptr take_error() noexcept override {
    return task_access::state(work_).take_error();
  }
  void fail_unstarted(std::exception_ptr error) noexcept override {
    work_ = task<T>();
    task_access::state(work_).fail_if_empty(std::move(error));
  }

  task<T> work_;
};

/// The awaiter of a join_handle.
template <class T>
class [[nodiscard]] join_wait : public shared_waiter {
 public:
  explicit join_wait(joinable_state<T>& work) noexcept : shared_waiter(work) {}
  // False for a failed task, whose error is reported to the coroutine's context, known only from
  // await_suspend().
  bool await_ready() const noexcept { return state().has_result(); }
  T await_resume() {
    end_wait_or_throw();
    return state().take(context());
  }

 private:
  joinable_state<T>& state() const noexcept { return static_cast<joinable_state<T>&>(work()); }
};

}  // namespace detail

/// A move-only handle of a task that spawn_joinable() or scope::spawn_joinable() has started: the
/// coroutine's form of std::jthread, or Tokio's JoinHandle. The task runs in any case; join()
/// returns its result to one coroutine, once, on any thread.
///
/// A class that owns tasks which use the class should have an async_scope instead, whose end can be
/// awaited.
///
/// Destroying the handle of a task that has not ended asks the task to stop, without waiting for
/// its end, and drops its result or error. (The JoinHandle of Tokio detaches instead: see detach().
/// std::jthread waits: see scope.) So no task runs for nothing after its coroutine has failed or
/// was stopped between the start and join().
///
/// | | the task is asked to stop | its result | its error |
/// |---|---|---|---|
/// | join() | no | to the caller | to the caller |
/// | the destructor | yes, unless a coroutine joins it | dropped | dropped |
/// | detach() | no | dropped | handled as by spawn(), or scope::spawn() |
///
/// If the handle is destroyed or detached while a coroutine joins the task, that coroutine receives
/// the result or error. After the handle's destruction a stop of that coroutine asks the task to
/// stop.
///
/// Thread-safety: one thread at a time; request_stop() and is_done() may also be called during a
/// join().
/// Lifetime: the task may outlive its handle; the handle may outlive the executor and the scope of
/// its task. A handle may be destroyed, detached or moved while a coroutine joins the task.
/// Errors: members throw std::logic_error if the handle is empty.
/// Complexity: some 250 bytes from the slab and a frame for each task. Joining costs a load if the
/// task has a result, else a short lock; no allocation.
template <class T = void>
class [[nodiscard]] join_handle {
 public:
  using value_type = T;

  /// Makes an empty handle.
  join_handle() noexcept = default;
  join_handle(join_handle&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
  join_handle& operator=(join_handle&& other) noexcept {
    join_handle(std::move(other)).swap(*this);
    return *this;
  }
  ~join_handle() {
    if (state_ != nullptr) state_->drop();
  }
  void swap(join_handle& other) noexcept { std::swap(state_, other.state_); }

  /// Returns whether the handle is not empty: it has a task, which may have been joined.
  [[nodiscard]] bool valid() const noexcept { return state_ != nullptr; }
  /// Returns whether the task has ended, so that join() does not wait.
  [[nodiscard]] bool is_done() const { return state().is_done(); }

  /// Awaited, waits until the task has ended and returns its result or throws its exception, once.
  /// A stop of the awaiting coroutine ends the wait at once; the task continues, and can be joined
  /// again.
  ///
  /// Thread-safety: the coroutine resumes on its own executor.
  /// Errors: those of the task; std::system_error (std::errc::operation_canceled) if the task was
  /// stopped, or its executor was destroyed before the task had started; gyre::operation_cancelled
  /// if the awaiting coroutine was asked to stop; std::logic_error if the result has been taken.
  /// Lifetime: the returned awaitable must be awaited, or converted to a task, while the handle
  /// exists.
  detail::join_wait<T> join() const { return detail::join_wait<T>(state()); }
  /// Makes `co_await std::move(handle)` equivalent to join(), for combinators, which keep the
  /// handle: `with_timeout(std::move(handle), 1s)` asks the task to stop after a second.
  detail::join_wait<T> operator co_await() && { return join(); }

  /// Asks the task to stop (Tokio: abort). Returns false if the task was asked before. The task can
  /// still be joined; join() waits for its end, and returns the result of a task that ends with
  /// one.
  bool request_stop() const { return state().request_stop(); }
  /// Lets the task continue without a handle, like a task of spawn() or scope::spawn(). An error
  /// that was thrown before is dropped; a later one is thrown in a coroutine that joins the task,
  /// else it is added to the scope, or terminates the program.
  void detach() {
    state().detach();
    state_ = nullptr;
  }

 private:
  friend scope;
  template <awaitable Awaitable>
  friend join_handle<task_result_t<Awaitable>> spawn_joinable(executor& target, Awaitable awaitable,
                                                              joinable_options options,
                                                              std::source_location location);

  static join_handle start(task<T>&& work, executor& target, scope* owner,
                           const joinable_options& options, std::source_location location) {
    if (!work.valid()) detail::throw_empty_task();
    detail::record_if_enabled(work, target, options.name, location);
    join_handle handle;
    handle.state_ = new detail::joinable_state<T>(std::move(work), target, owner, options);
    handle.state_->launch();
    return handle;
  }

  detail::joinable_state<T>& state() const {
    if (state_ == nullptr) [[unlikely]]
      detail::throw_empty_join_handle();
    return *state_;
  }

  detail::joinable_state<T>* state_ = nullptr;
};

/// Starts `awaitable`, by executor::post_discardable() on `target`, and returns the handle with
/// which a coroutine joins it. The task has a context of its own: no task-local values, and only
/// the handle and `options.stop` ask it to stop.
///
/// Thread-safety: may be called from any thread.
/// Lifetime: `target` must outlive the task. Only a loop may be destroyed before the task has
/// started; it then destroys the task.
/// Errors: std::bad_alloc; std::logic_error for an empty task.
/// Complexity: that of join_handle; `awaitable` brings its own frame if it is a task.
template <awaitable Awaitable>
join_handle<task_result_t<Awaitable>> spawn_joinable(
    executor& target, Awaitable awaitable, joinable_options options = {},
    std::source_location location = std::source_location::current()) {
  return join_handle<task_result_t<Awaitable>>::start(as_task(std::move(awaitable)), target,
                                                      nullptr, options, location);
}
// This overload explains wrong arguments: see base/detail/misuse.hpp.
std::suspend_never spawn_joinable(executor& target, detail::misused_awaitable explained,
                                  joinable_options options = {});

}  // namespace gyre
