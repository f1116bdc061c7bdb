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
/// Order: the tasks of one thread and one priority start in the order of their submission if there
/// is one worker and the tasks submit none. A worker's own tasks in a `stealing` pool start newest
/// first on that worker and oldest first on others, so that memory grows with the depth of a tree
/// of tasks and not with its width.
///
/// Capacity: at most `capacity` tasks wait, delayed ones included; `when_full` says how a
/// submission to a full pool goes on. Submissions that wait for a slot queue, and free slots are
/// for the queue: even try_post() finds the pool full until the queue is served. Under `block`,
/// post(), submit() and post_after() block any thread that calls them, also a loop's: its
/// coroutines and connections all wait, and for ever if the tasks in turn wait for that loop.
/// Coroutines use async_post() and async_submit(), callbacks try_post(). A worker that submits
/// never waits for a slot: under `block` its task waits in the worker's own queue, up to 1024 above
/// the capacity, and later ones are run at once by the submitter. A submitting thread reserves up
/// to 1/256 of the capacity, 64 slots at most: that many may be missing to others, and may overtake
/// the queue.
///
/// Thread-safety: all members may be called from any thread, tasks included.
/// Lifetime: the pool must outlive the calls, and the coroutines that run on it. A task may destroy
/// the pool once the call that submitted the task has returned, unless the task runs above another
/// one that waits and helps.
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
  /// Complexity: about 10 ns, and a system call if a worker must be woken. Up to 24 bytes are
  /// stored in place, more in the slab.
  template <class F>
    requires std::invocable<std::decay_t<F>&>
  void post(F&& callable, task_priority priority = task_priority::normal) {
    detail::submit(*core_, detail::task_builder(std::forward<F>(callable)), priority);
  }
  /// As post(), without waiting for a slot: false, with `callable` not moved from, if the pool is
  /// full or closed. Under `caller_runs` and `drop_oldest`, and from a worker under `block`, a full
  /// pool takes it all the same, unless drop_oldest has nothing to drop: delayed tasks stay.
  template <class F>
    requires std::invocable<std::decay_t<F>&>
  [[nodiscard]] bool try_post(F&& callable, task_priority priority = task_priority::normal) {
    return detail::try_submit(*core_, detail::task_builder(std::forward<F>(callable)), priority);
  }
  /// post() with the result, or the exception, in a future, which can be waited for and awaited; if
  /// the task is dropped, the result is std::errc::operation_canceled. Two blocks from the slab.
  template <class F>
    requires std::invocable<std::decay_t<F>&>
  [[nodiscard]] future<detail::submitted_result_t<std::decay_t<F>>> submit(
      F&& callable, task_priority priority = task_priority::normal) {
    auto submission = detail::make_future_task(std::forward<F>(callable));
    submission.task.set_pool(core_.get());
    post(detail::owned_task(submission.task), priority);
    return std::move(submission.result);
  }
  /// Awaited, posts as post() does, but waits for a slot without blocking the thread, and so a
  /// loop's other coroutines. Under `reject` and `drop_oldest`, and from a worker, it does not
  /// wait, as post(); under `caller_runs` it waits. It queues with blocked threads, first come
  /// first served; `block_timeout` does not apply: see with_timeout().
  ///
  /// Lifetime: may be destroyed while it waits, unless a slot was granted to it meanwhile. With
  /// GCC 12 name the awaitable, `auto posting = pool.async_post([…] {…});`, and then await
  /// `std::move(posting)`.
  /// Errors: as post(); operation_cancelled when a stop is requested, and then the task was not
  /// submitted.
  /// Complexity: waiting allocates nothing.
  template <class F>
    requires std::invocable<std::decay_t<F>&>
  [[nodiscard]] auto async_post(F&& callable, task_priority priority = task_priority::normal) {
    return detail::submission_awaiter<std::decay_t<F>>(*core_, std::forward<F>(callable), priority);
  }
  /// As async_post(); gives the future of submit() once the task has its slot, to be awaited in
  /// turn.
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
  /// post() once `delay` has passed, not earlier; takes its slot at once. Busy workers delay it no
  /// more than any task. Dropped, and counted so, if the pool ends before. From a worker, and under
  /// `caller_runs`, a full pool refuses it.
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

  /// As executor: runs `op` once on a worker, in the order of posts among all but workers' own
  /// tasks. Takes no slot and is never refused. Once the workers have ended it runs on the calling
  /// thread.
  void post(operation& op) noexcept override;
  /// Whether the calling thread is one of the workers.
  [[nodiscard]] bool running_here() const noexcept override;
  timer_service* timers() noexcept override;
  /// As executor, for a `stealing` pool's workers: newest first here, oldest first elsewhere.
  bool offer(operation& op) noexcept override;
  bool retract(operation& op) noexcept override;

  /// Until resume(), workers start no task that is submitted from now on, and at most one each of
  /// those that wait. Does not wait for running tasks.
  void pause() noexcept;
  void resume() noexcept;
  [[nodiscard]] bool paused() const noexcept;

  /// Changes the number of workers, 1 to thread_pool_options::most_workers. Surplus workers end
  /// after their current task; the tasks in their queues go to the others. Throws
  /// std::invalid_argument, std::system_error as the constructor, and that with operation_canceled
  /// when the pool is drained or stopped. Workers that have started by then stay.
  void resize(std::size_t workers);
  /// The number of workers that is wanted.
  [[nodiscard]] std::size_t workers() const noexcept;

  /// Drops the tasks that wait and returns their number. Coroutines and delayed tasks stay. Tasks
  /// that a worker takes meanwhile run.
  std::size_t purge();

  /// Waits until no task waits or runs, delayed ones apart; within a task, also apart from the
  /// tasks that the calling thread is running, and helps meanwhile. Waits for ever on a paused pool
  /// with tasks.
  void wait_idle();
  /// The same for at most `timeout`; false if that has passed.
  [[nodiscard]] bool wait_idle_for(std::chrono::nanoseconds timeout);

  /// Refuses further tasks from outside, runs all that wait (also when paused) and those that they
  /// submit, and ends the workers. Delayed tasks that are not yet due are dropped. Idempotent;
  /// within a task it helps, and its own thread ends after it. The coroutines on the pool should
  /// have ended.
  void drain();
  /// As drain(), but drops the tasks that have not started when `grace` has passed: true if there
  /// were none. Waits for the tasks that run.
  bool stop(std::chrono::nanoseconds grace = std::chrono::nanoseconds::zero());

  /// Read while the pool runs, and not at one instant.
  [[nodiscard]] thread_pool_metrics metrics() const;

 private:
  std::shared_ptr<detail::pool_core> core_;
};

}  // namespace gyre
