// SPDX-License-Identifier: Apache-2.0
// thread_pool: worker threads that run tasks and coroutines.
//
//     gyre::thread_pool pool;  // a worker per CPU
//     pool.post([&] { … });    // no result
//     gyre::future<int> answer = pool.submit([] { return 6 * 7; });
//     int result = answer.get();  // or co_await std::move(answer)
//
//     co_await gyre::resume_on(pool);  // a coroutine goes on there
#pragma once

#include <gyre/base/clock.hpp>
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

/// Worker threads and the tasks that wait for them; thread_pool_options says what can be set.
///
/// Tasks are callables without arguments; they may be only movable. A posted task's exception goes
/// to `on_exception`, that of a submitted one to its future.
///
/// Order: with one worker, the tasks that a thread submits with one priority start in the order of
/// their submission, provided that the tasks submit none themselves. In a `stealing` pool a worker
/// starts the tasks that it has submitted itself newest first, while other workers take them oldest
/// first; so memory grows with the depth of a tree of tasks and not with its width.
///
/// Capacity: at most `capacity` tasks wait, delayed ones included. `when_full` says what happens to
/// a submission that finds no free slot.
/// - Submissions that wait for a slot form a queue. Until it is served, free slots go to this queue
///   alone: even try_post() finds the pool full.
/// - Under `block`, post(), submit() and post_after() block any thread that calls them. If that is
///   a loop's thread, all its coroutines and connections halt, and for ever if the pool's tasks
///   wait for that loop. Coroutines use async_post() and async_submit() instead, callbacks
///   try_post().
/// - A worker that submits never waits for a slot. Under `block` its task waits in the worker's own
///   queue without one; once 1024 tasks of the pool do so, the call itself runs the next one.
/// - In a `stealing` pool each thread that submits keeps a few free slots for itself: up to 1/256
///   of the capacity, at most 64. Other threads do not get these slots, and the thread's next
///   submissions are admitted before those that wait in the queue.
///
/// Thread-safety: all members may be called from any thread, tasks included.
/// Lifetime: the pool must outlive the calls, and the coroutines that run on it. A task may destroy
/// the pool once the call that submitted the task has returned, unless a worker runs the task while
/// another task of the same worker waits (see future).
class thread_pool final : public executor {
 public:
  using options = thread_pool_options;

  /// Returns when all workers run. Throws std::invalid_argument for a capacity of zero, and
  /// std::system_error (EAGAIN: no more threads, EINVAL: a CPU that is not there).
  explicit thread_pool(thread_pool_options settings = {});
  explicit thread_pool(std::size_t workers)
      : thread_pool(thread_pool_options{.workers = workers}) {}
  thread_pool(const thread_pool&) = delete;
  thread_pool& operator=(const thread_pool&) = delete;
  /// Drains the pool.
  ~thread_pool();

  /// Runs `callable` once on a worker and discards its result.
  ///
  /// Errors: std::system_error if the task was refused: resource_unavailable_try_again when the
  /// pool is full, timed_out when it was full for `block_timeout`, operation_canceled when it is
  /// drained or stopped; std::bad_alloc, and any exception of copying or moving `callable`.
  /// Complexity: about 10 ns, and a system call if a worker must be woken. A callable of up to 24
  /// bytes is stored in the queue; a larger one takes a block of the slab.
  template <class F>
    requires std::invocable<std::decay_t<F>&>
  void post(F&& callable, task_priority priority = task_priority::normal) {
    detail::submit(*core_, detail::task_builder(std::forward<F>(callable)), priority);
  }
  /// As post(), but never waits for a slot: false, with `callable` not moved from, if the pool is
  /// full or closed. A full pool still takes the task where post() does not wait either:
  /// - under `caller_runs`,
  /// - under `drop_oldest`, unless delayed tasks, which are not dropped, have all slots,
  /// - from a worker under `block`.
  template <class F>
    requires std::invocable<std::decay_t<F>&>
  [[nodiscard]] bool try_post(F&& callable, task_priority priority = task_priority::normal) {
    return detail::try_submit(*core_, detail::task_builder(std::forward<F>(callable)), priority);
  }
  /// As post(), but returns a future for the result or the exception. If the task is dropped, the
  /// future's result is std::errc::operation_canceled. Allocates two blocks of the slab allocator.
  template <class F>
    requires std::invocable<std::decay_t<F>&>
  [[nodiscard]] future<detail::submitted_result_t<std::decay_t<F>>> submit(
      F&& callable, task_priority priority = task_priority::normal) {
    auto submission = detail::make_future_task(std::forward<F>(callable));
    submission.task.set_pool(core_.get());
    post(detail::owned_task(submission.task), priority);
    return std::move(submission.result);
  }
  /// Awaited, posts as post() does, but a full pool suspends the coroutine instead of blocking its
  /// thread, so that a loop's other coroutines go on. It waits for a slot under `block` and
  /// `caller_runs`; under `reject` and `drop_oldest`, and from a worker, it does not wait, like
  /// post(). Waiting coroutines and blocked threads form one queue, first come, first served.
  /// `block_timeout` does not apply: use with_timeout().
  ///
  /// Lifetime: do not destroy a coroutine that waits here: a slot may be granted at any moment, and
  /// the coroutine's wake-up is then on its way. Request a stop and let the coroutine end. (To
  /// destroy it is safe only while it is certain that no slot was granted and no stop requested.)
  /// With GCC 12, name the awaitable, `auto posting = pool.async_post([…] {…});`, and then await
  /// `std::move(posting)`.
  /// Errors: as post(); operation_cancelled when a stop is requested, and then the task was not
  /// submitted.
  /// Complexity: waiting allocates nothing.
  template <class F>
    requires std::invocable<std::decay_t<F>&>
  [[nodiscard]] auto async_post(F&& callable, task_priority priority = task_priority::normal) {
    return detail::submission_awaiter<std::decay_t<F>>(*core_, std::forward<F>(callable), priority);
  }
  /// As async_post(), but gives the future of submit() once the task has its slot. The future is to
  /// be awaited in turn.
  ///
  ///     auto submitting = pool.async_submit([] { return 6 * 7; });
  ///     gyre::future<int> answer = co_await std::move(submitting);
  template <class F>
    requires std::invocable<std::decay_t<F>&>
  [[nodiscard]] auto async_submit(F&& callable, task_priority priority = task_priority::normal) {
    auto submission = detail::make_future_task(std::forward<F>(callable));
    submission.task.set_pool(core_.get());
    return detail::submission_awaiter<detail::owned_task, decltype(submission.result)>(
        *core_, detail::owned_task(submission.task), priority, std::move(submission.result));
  }
  /// post() of each element of `callables`, which are moved from if the range is an rvalue. Throws
  /// as post(); the tasks before the refused one stay submitted.
  template <std::ranges::input_range Range>
    requires std::invocable<std::ranges::range_value_t<Range>&>
  void post_bulk(Range&& callables, task_priority priority = task_priority::normal) {
    for (auto&& each : callables) {
      if constexpr (std::is_lvalue_reference_v<Range> || std::ranges::view<Range>) {
        post(each, priority);
      } else {
        post(std::move(each), priority);
      }
    }
  }
  /// As post(), but the task waits for a worker only when `delay` has passed; it then starts like
  /// any other task. It has its slot from the call on. A task that is not yet due when the pool
  /// ends is dropped, and counted as such. A full pool refuses it under `caller_runs` too, and from
  /// a worker under `block`.
  template <class F>
    requires std::invocable<std::decay_t<F>&>
  void post_after(std::chrono::nanoseconds delay, F&& callable) {
    post_at(detail::later(detail::monotonic_now(), delay), std::forward<F>(callable));
  }
  /// As post_after(), at a point in time.
  template <class F>
    requires std::invocable<std::decay_t<F>&>
  void post_at(steady_time when, F&& callable) {
    detail::submit_at(*core_, detail::task_builder(std::forward<F>(callable)), when);
  }

  /// As executor: runs `op` once on a worker. Operations start in the order in which a thread posts
  /// them, also among the tasks that it submits, unless the thread is a worker. Takes no slot and
  /// is never refused. Once the workers have ended, `op` runs on the calling thread.
  void post(operation& op) noexcept override;
  /// Whether the calling thread is one of the workers.
  [[nodiscard]] bool running_here() const noexcept override;
  /// As executor: the timers of sleep_for() and the like, in coroutines on the pool. They expire on
  /// workers; the first use starts a thread that waits for them.
  timer_service* timers() noexcept override;
  /// As executor: a worker of a `stealing` pool offers an operation to the other workers, which
  /// take the oldest first, and takes it back, newest first, if none has. False on other threads
  /// and in other pools. For parallel_for() and the like; programs need not call them.
  bool offer(operation& op) noexcept override;
  bool retract(operation& op) noexcept override;

  /// Until resume(), workers start no task that is submitted from now on; each may still start one
  /// of the tasks that wait already. Does not wait for running tasks.
  void pause() noexcept;
  void resume() noexcept;
  [[nodiscard]] bool paused() const noexcept;

  /// Changes the number of workers, 1 to thread_pool_options::most_workers. Surplus workers end
  /// after their current task; the tasks in their queues go to the others.
  ///
  /// Errors: std::invalid_argument for another number; std::system_error as the constructor, after
  /// which workers that have started stay; std::system_error (std::errc::operation_canceled) when
  /// the pool is drained or stopped.
  void resize(std::size_t workers);
  /// The number that the constructor or resize() has set; surplus workers may still run.
  [[nodiscard]] std::size_t workers() const noexcept;

  /// Drops the tasks that wait and returns their number. Coroutines and delayed tasks stay. Tasks
  /// that a worker takes meanwhile run.
  std::size_t purge();

  /// Blocks until no task waits or runs; delayed tasks that are not yet due do not count. Within a
  /// task it runs other tasks meanwhile; it then waits neither for the tasks that the calling
  /// thread is running nor for those that have called wait_idle() themselves. Never returns on a
  /// paused pool in which tasks wait.
  void wait_idle();
  /// As wait_idle(), for at most `timeout`: false if the time has passed before.
  [[nodiscard]] bool wait_idle_for(std::chrono::nanoseconds timeout);

  /// Refuses further tasks from outside, runs all that wait (also when paused) and those that they
  /// submit, drops delayed tasks that are not yet due, and ends the workers. Idempotent. Within a
  /// task, drain() runs waiting tasks on the calling thread too, does not wait for the tasks that
  /// this thread is running already, and the thread ends after them. Let the coroutines on the pool
  /// end first: one that is resumed later runs on the thread that resumes it.
  void drain();
  /// As drain(), but drops the tasks that have not started when `grace` has passed; waits for those
  /// that run. True if no task was dropped, delayed ones included.
  bool stop(std::chrono::nanoseconds grace = std::chrono::nanoseconds::zero());

  /// May be called while the pool runs. Each figure is read at its own time: no snapshot.
  [[nodiscard]] thread_pool_metrics metrics() const;

 private:
  std::shared_ptr<detail::pool_core> core_;
};

}  // namespace gyre
