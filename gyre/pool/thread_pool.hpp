// SPDX-License-Identifier: Apache-2.0
// thread_pool: worker threads that run tasks and coroutines.
//
//     gyre::thread_pool pool;  // a worker per CPU
//     pool.post([&] { … });    // no result
//     gyre::future<int> answer = pool.submit([] { return 6 * 7; });
//     int result = answer.get();  // or co_await std::move(answer)
//
//     co_await gyre::resume_on(pool);  // a coroutine continues there
#pragma once

#include <gyre/base/clock.hpp>
#include <gyre/base/detail/misuse.hpp>
#include <gyre/base/duration.hpp>
#include <gyre/base/operation.hpp>
#include <gyre/pool/detail/submission_awaiter.hpp>
#include <gyre/pool/detail/task_builder.hpp>
#include <gyre/pool/future.hpp>
#include <gyre/pool/pool_options.hpp>
#include <gyre/task/executor.hpp>

#include <chrono>
#include <concepts>
#include <cstddef>
#include <memory>
#include <ranges>
#include <type_traits>
#include <utility>

namespace gyre {

/// A bounded pool of worker threads, and an executor of coroutines.
///
/// Tasks are callables without arguments; they may be move-only. The exception of a posted task is
/// passed to `on_exception`, the exception of a submitted task to its future.
///
/// Order: with one worker, the tasks that a thread submits with one priority start in the order of
/// their submission, provided that the tasks themselves submit none. In a `stealing` pool, a worker
/// starts the tasks that it has submitted itself newest first, while other workers take them oldest
/// first: so the memory of a recursively divided task grows only with the depth of the recursion.
///
/// Capacity: at most `capacity` tasks wait, including delayed ones, and up to 1024 more that
/// workers submit. `when_full` decides on a submission that finds no free slot.
/// - Submissions that wait for a slot form a queue. Until it is served, free slots go only to the
///   queue, and try_post() finds the pool full, unless its thread has reserved slots (see below).
/// - Under `block`, post(), submit() and post_after() block threads that are not workers. A blocked
///   loop halts all its coroutines and connections, for ever if the pool's tasks wait for that
///   loop: use async_post() and async_submit() in coroutines, and try_post() in callbacks.
/// - A worker that submits never waits for a slot. Under `block`, its task waits without a slot.
///   While 1024 tasks do so, the worker's call runs the task itself (hold no lock that the task may
///   take); within 16 nested calls of this kind, the task waits without a slot nevertheless.
/// - In a `stealing` pool, each submitting thread reserves a few free slots: up to 1/256 of the
///   capacity, at most 64. Other threads cannot use these slots, and the thread's next submissions
///   are admitted before those that wait in the queue. A thread that ends releases its slots to the
///   queue.
///
/// Thread-safety: all members may be called from any thread, including tasks.
/// Lifetime: the pool must outlive the calls, and the coroutines that run on it. A task may destroy
/// the pool if the call that submitted the task has returned, and the task does not run within
/// another task's wait (see future).
class thread_pool final : public executor {
 public:
  using options = thread_pool_options;

  /// Starts the workers; returns when all threads have been started. Throws std::invalid_argument
  /// for a capacity of zero, too many workers or a negative time; std::system_error (EAGAIN: no
  /// more threads, EINVAL: no such CPU).
  explicit thread_pool(thread_pool_options settings = {});
  explicit thread_pool(std::size_t workers)
      : thread_pool(thread_pool_options{.workers = workers}) {}
  thread_pool& operator=(thread_pool&&) = delete;
  /// Drains the pool.
  ~thread_pool();

  /// Runs `callable` on a worker, unless `when_full` decides otherwise, and discards its result.
  ///
  /// Errors: std::system_error if the task was refused: std::errc::resource_unavailable_try_again
  /// if the pool is full, std::errc::timed_out if it was full for `block_timeout`,
  /// std::errc::operation_canceled if it is drained or stopped; std::bad_alloc, and any exception
  /// of copying or moving `callable`.
  /// Complexity: a system call if a worker must be woken. A task takes a block of the slab, except
  /// that a task of up to 24 bytes and normal priority is stored in the queue if it is submitted
  /// from outside to a `stealing` pool without `record_times`; this takes about 10 ns.
  template <class F>
    requires detail::postable<F>
  void post(F&& callable, task_priority priority = task_priority::normal) {
    submit_built(detail::task_builder(std::forward<F>(callable)), priority);
  }
  /// Like post(), but never waits for a slot: returns false, with `callable` not moved from, if the
  /// pool is full, drained or stopped. A full pool still accepts a task for which post() would not
  /// wait either:
  /// - under `caller_runs`, where this call may run the task,
  /// - under `drop_oldest`, unless delayed tasks, which are not dropped, hold all slots (or,
  ///   rarely, other threads take each slot that becomes free),
  /// - from a worker under `block`.
  template <class F>
    requires detail::postable<F>
  [[nodiscard]] bool try_post(F&& callable, task_priority priority = task_priority::normal) {
    return try_submit_built(detail::task_builder(std::forward<F>(callable)), priority);
  }
  /// Like post(), but returns a future for the result or the exception; the exception of a dropped
  /// task is std::errc::operation_canceled. Allocates a block of the slab, in addition to that of
  /// post().
  template <class F>
    requires detail::postable<F>
  [[nodiscard]] future<detail::submitted_result_t<std::decay_t<F>>> submit(
      F&& callable, task_priority priority = task_priority::normal) {
    auto submission = detail::make_future_task(std::forward<F>(callable));
    submission.task.set_pool(core_.get());
    post(detail::owned_task(submission.task), priority);
    return std::move(submission.result);
  }
  /// An awaitable that posts like post(). If post() would block, and under `caller_runs`, a full
  /// pool suspends the coroutine instead, so that the loop's other coroutines continue. A coroutine
  /// on a worker never waits, like a worker in post(). Waiting coroutines and blocked threads form
  /// one queue, first come, first served. `block_timeout` does not apply: use with_timeout().
  ///
  /// GCC 12 destroys lambdas in a co_await expression twice: name the awaitable, `auto posting =
  /// pool.async_post([…] {…});`, and then await `std::move(posting)`.
  ///
  /// Lifetime: do not destroy a coroutine that waits here, because its wake-up may already be
  /// posted: request a stop, and let the coroutine end.
  /// Errors: those of post(); throws gyre::operation_cancelled if the coroutine is requested to
  /// stop, and then the task was not submitted.
  /// Complexity: waiting allocates nothing.
  template <class F>
    requires detail::postable<F>
  [[nodiscard]] auto async_post(F&& callable, task_priority priority = task_priority::normal) {
    return detail::submission_awaiter<std::decay_t<F>>(*core_, std::forward<F>(callable), priority);
  }
  /// Like async_post(), but awaiting it returns the future of submit() once the task has its slot.
  ///
  ///     auto submitting = pool.async_submit([] { return 6 * 7; });
  ///     gyre::future<int> answer = co_await std::move(submitting);
  template <class F>
    requires detail::postable<F>
  [[nodiscard]] auto async_submit(F&& callable, task_priority priority = task_priority::normal) {
    auto submission = detail::make_future_task(std::forward<F>(callable));
    submission.task.set_pool(core_.get());
    return detail::submission_awaiter<detail::owned_task, decltype(submission.result)>(
        *core_, detail::owned_task(submission.task), priority, std::move(submission.result));
  }
  /// Calls post() for each element of `callables`. Elements are moved from if the range is an
  /// rvalue and not a view. Throws what post() throws; the tasks before the refused one stay
  /// submitted.
  template <std::ranges::input_range Range>
    requires std::invocable<std::ranges::range_value_t<Range>&>
  void post_bulk(Range&& callables, task_priority priority = task_priority::normal) {
    for (auto&& callable : callables) {
      if constexpr (std::is_lvalue_reference_v<Range> || std::ranges::view<Range>) {
        post(callable, priority);
      } else {
        post(std::move(callable), priority);
      }
    }
  }
  /// Like post(), but queues the task after `delay`, among the coroutines, which have no priority.
  /// The task holds its slot from the call on, and is dropped if the pool ends first. A full pool
  /// refuses it under `caller_runs`, too, and from a worker under `block`.
  template <class F>
    requires detail::postable<F>
  void post_after(duration delay, F&& callable) {
    post_at(detail::later(detail::monotonic_now(), delay), std::forward<F>(callable));
  }
  /// Like post_after(), at `deadline`.
  template <class F>
    requires detail::postable<F>
  void post_at(time_point deadline, F&& callable) {
    submit_built_at(detail::task_builder(std::forward<F>(callable)), deadline);
  }
  // These overloads explain wrong arguments: see base/detail/misuse.hpp.
  void post(detail::misused_callable explained, task_priority priority = {});
  template <class F, class... More>
  void post(F&& callable, detail::misused_argument explained, More&&... arguments);
  bool try_post(detail::misused_callable explained, task_priority priority = {});
  template <class F, class... More>
  bool try_post(F&& callable, detail::misused_argument explained, More&&... arguments);
  future<> submit(detail::misused_callable explained, task_priority priority = {});
  template <class F, class... More>
  future<> submit(F&& callable, detail::misused_argument explained, More&&... arguments);
  future<> async_post(detail::misused_callable explained, task_priority priority = {});
  future<> async_submit(detail::misused_callable explained, task_priority priority = {});
  void post_after(duration delay, detail::misused_callable explained);
  template <class F>
  void post_after(detail::misused_duration explained, F&& callable);
  void post_at(time_point deadline, detail::misused_callable explained);

  /// executor: runs `op` once on a worker, or on the calling thread once the workers have ended. In
  /// a pool of one worker, the operations that a thread posts start in their order. A `stealing`
  /// pool also keeps the order between operations and normal tasks of a thread that is not a
  /// worker; other pools start tasks and operations alternately. Takes no slot and is never
  /// refused.
  void post(operation& op) noexcept override;
  /// Whether the calling thread is one of the workers.
  [[nodiscard]] bool running_here() const noexcept override;
  /// executor: the timers of sleep_for() and similar functions, for coroutines on the pool. They
  /// expire on workers; the first use starts a thread that waits for them. Null if the start fails.
  timer_service* timers() noexcept override;
  /// executor: the queue of the calling worker of a `stealing` pool; null on other threads and in
  /// other pools. Used by parallel_for() and similar functions; programs need not call it.
  fork_queue* fork_queue_here() noexcept override;

  /// Pauses the pool: until resume(), workers start no tasks and resume no coroutines; each may
  /// still start one that was already waiting. Calls are not counted. Does not wait for running
  /// tasks.
  void pause() noexcept;
  void resume() noexcept;
  [[nodiscard]] bool paused() const noexcept;

  /// Changes the number of workers, from 1 to thread_pool_options::max_workers. Surplus workers end
  /// after their current task; the tasks in their queues pass to the others.
  ///
  /// Errors: std::invalid_argument for another number; std::system_error like the constructor,
  /// after which workers that were started stay; std::system_error (std::errc::operation_canceled)
  /// if the pool is drained or stopped.
  void resize(std::size_t workers);
  /// The number set by the constructor or resize(); surplus workers may still be running.
  [[nodiscard]] std::size_t workers() const noexcept;

  /// Drops the waiting tasks on the calling thread and returns their number. Does not drop
  /// coroutines and delayed tasks, nor tasks that a worker takes meanwhile.
  std::size_t purge();

  /// Blocks until no task waits or runs; delayed tasks that are not due, and suspended coroutines,
  /// do not count. Within a task, runs other tasks meanwhile (see future), and waits neither for
  /// the tasks that the calling thread is running nor for tasks within their own wait_idle(),
  /// drain() or stop(). Never returns on a paused pool in which tasks wait.
  void wait_idle();
  /// Like wait_idle(), for at most `timeout`; returns false if tasks still wait or run then.
  [[nodiscard]] bool wait_idle_for(duration timeout);

  /// Refuses further tasks, except from workers; runs all waiting tasks (even if paused), drops
  /// delayed tasks that are not due, ends the workers, and blocks until all this is done.
  /// Idempotent. Within a task, drain() runs other tasks and excludes tasks like wait_idle() (so
  /// that several tasks may drain the pool at the same time), and the thread ends after its tasks.
  /// Let the coroutines on the pool end first: a coroutine that is resumed later runs on the thread
  /// that resumes it.
  void drain();
  /// Like drain(), but drops the tasks that have not started when `grace` has passed, by default at
  /// once. Returns true if no task was dropped, including delayed ones.
  bool stop(duration grace = duration::zero());

  /// The metrics, at any time. They are read one by one, so they are not a consistent snapshot.
  [[nodiscard]] thread_pool_metrics metrics() const;

 private:
  // The functions below are not inlined into coroutines, because they use thread-locals.
  void submit_built(detail::task_builder builder, task_priority priority);
  bool try_submit_built(detail::task_builder builder, task_priority priority);
  void submit_built_at(detail::task_builder builder, steady_time deadline);

  std::shared_ptr<detail::pool_core> core_;
};

}  // namespace gyre
