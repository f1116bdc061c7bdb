// SPDX-License-Identifier: Apache-2.0
// A fixed or changing number of threads that run tasks and coroutines.
//
//     gyre::thread_pool pool;  // a worker per CPU
//     pool.post([&] { … });    // and forget
//     gyre::future<int> answer = pool.submit([] { return 6 * 7; });
//     int result = answer.get();  // or co_await std::move(answer)
//
//     co_await gyre::resume_on(pool);  // a coroutine goes on there
#pragma once

#include <chrono>
#include <concepts>
#include <cstddef>
#include <functional>
#include <memory>
#include <ranges>
#include <type_traits>
#include <utility>

#include <gyre/base/clock.hpp>
#include <gyre/base/operation.hpp>
#include <gyre/pool/detail/pool_core.hpp>
#include <gyre/pool/detail/submission_awaiter.hpp>
#include <gyre/pool/future.hpp>
#include <gyre/pool/pool_options.hpp>
#include <gyre/task/executor.hpp>

namespace gyre {

/// Worker threads and the tasks that wait for them; see thread_pool_options for all that can be
/// set.
///
/// Tasks are callables without arguments; they may only be movable. A thread's own tasks of one
/// priority start in the order of their submission as long as there is one worker, and its tasks
/// submit none themselves; what a worker of a
/// `stealing` pool submits starts newest first on that worker and oldest first on others, so that
/// memory grows with the depth of what is submitted and not with its width.
///
/// At most `capacity` tasks wait, delayed ones included; how a submission to a full pool goes on is
/// `when_full`. Whoever waits for a place stands in line, and places that come free are for the
/// line: also try_post() finds the pool full until it is served. Under `block`, post(), submit() and
/// post_after() block any thread that calls them, a loop's too: its coroutines and connections all
/// wait, and for ever if the tasks in turn wait for that loop. Coroutines use async_post() and
/// async_submit(), callbacks try_post(). A worker that submits never waits for a place: under `block` its task waits in the
/// worker's own queue, up to 1024 above the capacity, and then is run at once by the submitter.
/// A submitting thread reserves up to 1/256 of the capacity, 64 places at most: that many may be
/// missing to others, and may pass the line.
///
/// An exception from a posted task goes to `on_exception`; from a submitted one, to its future.
///
/// All members may be called from any thread, tasks included; the pool must outlive the calls, and
/// the coroutines that run on it. It may be destroyed by one of its own tasks once the call that
/// submitted the task has returned, unless the task runs above another one that waits and helps, which would
/// go on without a pool.
class thread_pool final : public executor {
 public:
  using options = thread_pool_options;

  /// Returns when all workers run. Throws std::invalid_argument for a capacity of zero, and
  /// std::system_error (EAGAIN: no more threads, EINVAL: a CPU that is not there).
  explicit thread_pool(options how = {});
  /// With so many workers.
  explicit thread_pool(std::size_t workers) : thread_pool(options{.workers = workers}) {}
  thread_pool(const thread_pool&) = delete;
  thread_pool& operator=(const thread_pool&) = delete;
  /// drain().
  ~thread_pool();

  /// Runs `callable` once on a worker and drops what it returns. Up to 24 bytes are stored in
  /// place, more in the slab. Throws std::system_error if the task was refused:
  /// resource_unavailable_try_again when the pool is full, timed_out when it was so for
  /// `block_timeout`, operation_canceled when it is drained or stopped; std::bad_alloc, and what
  /// copying or moving `callable` throws. About 10 ns, and a system call if a worker must be woken.
  template <class F>
    requires std::invocable<std::decay_t<F>&>
  void post(F&& callable, task_priority priority = task_priority::normal) {
    detail::throw_if_refused(core_->submit(std::forward<F>(callable), priority, true));
  }
  /// The same without waiting for a place: false, with `callable` not moved from, if the pool is
  /// full or closed. Under `caller_runs` and `drop_oldest`, and from a worker under `block`, a full
  /// pool takes it all the same, but for drop_oldest with nothing to drop: delayed tasks stay.
  template <class F>
    requires std::invocable<std::decay_t<F>&>
  [[nodiscard]] bool try_post(F&& callable, task_priority priority = task_priority::normal) {
    return core_->submit(std::forward<F>(callable), priority, false) == detail::admission::granted;
  }
  /// post() with the result, or the exception, in a future, which can be waited for and awaited; a
  /// task that is dropped makes it std::errc::operation_canceled. Two blocks from the slab.
  template <class F>
    requires std::invocable<std::decay_t<F>&>
  [[nodiscard]] future<detail::submitted_result_t<std::decay_t<F>>> submit(
      F&& callable, task_priority priority = task_priority::normal) {
    auto made = detail::make_future_task(std::forward<F>(callable));
    made.task.set_pool(core_.get());
    detail::throw_if_refused(core_->submit(detail::owned_task(made.task), priority, true));
    return std::move(made.result);
  }
  /// Awaited, does what post() does, but waits for a place without blocking the thread: for
  /// coroutines on a loop, which post() would hold up with all its other coroutines. Under `reject`
  /// and `drop_oldest`, and from a worker, it does not wait, as post() does not; under `caller_runs`
  /// it waits. It waits in line with blocked threads, first come first served; `block_timeout` does
  /// not apply: see with_timeout().
  ///
  /// Errors: as post(); operation_cancelled when the coroutine is asked to stop, and then the task
  /// was not submitted. Complexity: waiting allocates nothing. With GCC 12 name what this returns,
  /// `auto posting = pool.async_post([…] {…});`, and then await `std::move(posting)`. May be
  /// destroyed while it waits, unless a place is on its way to it.
  template <class F>
    requires std::invocable<std::decay_t<F>&>
  [[nodiscard]] auto async_post(F&& callable, task_priority priority = task_priority::normal) {
    return detail::submission_awaiter<std::decay_t<F>>(*core_, std::forward<F>(callable), priority);
  }
  /// The same for submit(): gives the future once the task has its place, to be awaited in turn.
  ///
  ///     auto submitting = pool.async_submit([] { return 6 * 7; });
  ///     gyre::future<int> answer = co_await std::move(submitting);
  template <class F>
    requires std::invocable<std::decay_t<F>&>
  [[nodiscard]] auto async_submit(F&& callable, task_priority priority = task_priority::normal) {
    auto made = detail::make_future_task(std::forward<F>(callable));
    made.task.set_pool(core_.get());
    return detail::submission_awaiter<detail::owned_task, decltype(made.result)>(
        *core_, detail::owned_task(made.task), priority, std::move(made.result));
  }
  /// post() of each element of `callables`, which are moved from if the range is handed over.
  /// Throws as post(); the tasks before the refused one stay submitted.
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
  /// post() once `delay` has passed, not earlier; takes its place at once. A worker that is busy
  /// with other things does not delay it. Dropped, and counted so, if the pool ends before. From a
  /// worker, and under `caller_runs`, a full pool refuses it.
  template <class F>
    requires std::invocable<std::decay_t<F>&>
  void post_after(std::chrono::nanoseconds delay, F&& callable) {
    post_at(detail::later(detail::monotonic_now(), delay), std::forward<F>(callable));
  }
  /// The same for a point in time.
  template <class F>
    requires std::invocable<std::decay_t<F>&>
  void post_at(steady_time when, F&& callable) {
    detail::throw_if_refused(core_->submit_at(when, std::forward<F>(callable)));
  }

  /// As executor: runs `op` once on a worker, in the order of posts among all but workers' own
  /// tasks. Takes no place and is never refused. Once the workers have ended it runs on the calling
  /// thread.
  void post(operation& op) noexcept override { core_->post(op); }
  /// Whether the calling thread is one of the workers.
  [[nodiscard]] bool running_here() const noexcept override { return core_->running_here(); }
  timer_service* timers() noexcept override { return core_->timers(); }
  /// As executor, for a `stealing` pool's workers: newest first here, oldest first elsewhere.
  bool offer(operation& op) noexcept override { return core_->offer(op); }
  bool retract(operation& op) noexcept override { return core_->retract(op); }

  /// Lets workers start nothing that is submitted from now on, until resume(), and of what waits,
  /// one task each at most; what runs runs on. Does not wait for it.
  void pause() noexcept { core_->pause(); }
  void resume() noexcept { core_->resume(); }
  [[nodiscard]] bool paused() const noexcept { return core_->paused(); }

  /// Changes the number of workers, 1 to thread_pool_options::most_workers. Surplus workers end
  /// after the task they are at; what waited in their queues goes to the others. Throws
  /// std::invalid_argument, std::system_error as the constructor, and that with operation_canceled
  /// when the pool is drained or stopped. Workers that have started by then stay.
  void resize(std::size_t workers) { core_->resize(workers); }
  /// How many there are, or shall be.
  [[nodiscard]] std::size_t workers() const noexcept { return core_->workers(); }

  /// Drops the tasks that wait and returns how many they were. Coroutines and delayed tasks stay.
  /// Tasks that a worker takes meanwhile run.
  std::size_t purge() { return core_->purge(); }

  /// Waits until no task waits or runs, delayed ones apart; from a task: but for the tasks that the
  /// calling thread is running, and helps meanwhile. Waits for ever on a paused pool with tasks.
  void wait_idle() { static_cast<void>(core_->wait_idle(steady_time::max())); }
  /// The same for at most `timeout`; false if that has passed.
  [[nodiscard]] bool wait_idle_for(std::chrono::nanoseconds timeout) {
    return core_->wait_idle(detail::later(detail::monotonic_now(), timeout));
  }

  /// Refuses further tasks from outside, runs all that wait (also when paused) and what they
  /// submit, and ends the workers. Delayed tasks that are not yet due are dropped. Idempotent; from
  /// a task: it helps, and its own thread ends after it. The coroutines on the pool should have
  /// ended.
  void drain() { static_cast<void>(core_->stop(steady_time::max())); }
  /// The same, but what has not started when `grace` has passed is dropped: true if nothing was.
  /// Waits for the tasks that run.
  bool stop(std::chrono::nanoseconds grace = std::chrono::nanoseconds::zero()) {
    return core_->stop(detail::later(detail::monotonic_now(), grace));
  }

  /// Read while the pool runs, and not at one instant.
  [[nodiscard]] thread_pool_metrics metrics() const { return core_->metrics(); }

 private:
  std::shared_ptr<detail::pool_core> core_;
};

}  // namespace gyre
