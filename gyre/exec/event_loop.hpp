// SPDX-License-Identifier: Apache-2.0
// event_loop: the interface of every loop, for timers, watches and I/O objects; programs make a
// `loop` (loop.hpp).
//
// Pending work waits in these containers. A turn runs them from top to bottom, except that the
// overflow queue and the inbox take turns. The poller reports ready descriptors and completions.
// | container | holds | any thread adds | at the end of the loop |
// |---|---|---|---|
// | operation_chain | the rest of a post_all() that exceeded a batch | no | do not run |
// | inbox (basic_loop) | callables and operations, by Inbox::push() | yes | callables are destroyed |
// | overflow_queue | operations for which the inbox has no memory, release_queue | yes | do not run |
// | release_queue | releases of objects in a later turn | yes | run |
// | deferred_operations_ | operations that the I/O of this turn has deferred | no | do not run |
// | heavy_queue | operations that compute for long | no | do not run |
// | timer_wheel | timers, sleeps and callables of post_at() | no | callables are destroyed |
#pragma once

#include <gyre/base/atomic.hpp>
#include <gyre/base/cache_line.hpp>
#include <gyre/base/clock.hpp>
#include <gyre/base/detail/misuse.hpp>
#include <gyre/base/detail/relaxed_counter.hpp>
#include <gyre/base/duration.hpp>
#include <gyre/base/histogram.hpp>
#include <gyre/base/intrusive_list.hpp>
#include <gyre/base/intrusive_queue.hpp>
#include <gyre/base/move_only_function.hpp>
#include <gyre/base/operation.hpp>
#include <gyre/base/timer_operation.hpp>
#include <gyre/base/timer_wheel.hpp>
#include <gyre/exec/detail/heavy_queue.hpp>
#include <gyre/exec/detail/io_slice.hpp>
#include <gyre/exec/detail/operation_chain.hpp>
#include <gyre/exec/detail/overflow_queue.hpp>
#include <gyre/exec/detail/release_queue.hpp>
#include <gyre/exec/detail/sleep_gate.hpp>
#include <gyre/exec/detail/wait_strategy.hpp>
#include <gyre/exec/inbox/detail/erased_task.hpp>
#include <gyre/exec/inbox/detail/task_cell.hpp>
#include <gyre/exec/inbox/inbox.hpp>
#include <gyre/exec/loop_metrics.hpp>
#include <gyre/exec/loop_options.hpp>
#include <gyre/exec/poller.hpp>
#include <gyre/exec/posting.hpp>
#include <gyre/task/executor.hpp>
#include <gyre/trace/detail/each_or_batch.hpp>
#include <gyre/trace/detail/function_sequence.hpp>
#include <gyre/trace/detail/recorder.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

namespace gyre {
namespace detail {

class waiting_loop;

}  // namespace detail

/// An abstract event loop: a single-threaded reactor for posted tasks, timers, descriptors and I/O.
/// `loop` (loop.hpp) implements it. A turn is a batch of tasks, then ready I/O, then due timers.
///
/// Thread-safety: members marked "Any thread" may be called from any thread, tasks of the loop
/// included. The others belong to the thread that runs the loop; while no thread runs it, to one
/// thread at a time.
/// Lifetime: a loop must outlive its timers, watches and I/O objects, every call on it, and the
/// coroutines that have started on it: end them first, by a scope, a runtime or sync_wait(). The
/// destructor destroys posted callables, and spawned coroutines that have not started. Suspended
/// coroutines are not resumed, and leak; posted operations do not run.
class event_loop : public executor, public timer_service, public posting<event_loop> {
 public:
  using posting<event_loop>::post;

  event_loop& operator=(event_loop&&) = delete;
  virtual ~event_loop();

  /// Runs tasks, timers and descriptor watches on the calling thread until stop(), and sleeps while
  /// there is nothing to do.
  ///
  /// Errors, for every run and poll member: exceptions that on_exception throws; std::system_error
  /// if the wait fails; std::logic_error when called by one of the loop's own tasks, or while
  /// another thread runs the loop.
  void run();
  /// Waits until there is work, and runs a turn. Returns false if the loop is stopped.
  bool run_once();
  /// Runs one turn without waiting. Returns false if there was no work, or the loop is stopped.
  bool poll();
  /// Runs until stop(), but at most for `limit`; stopped() is true if stop() ended the run.
  void run_for(duration limit) { run_until(deadline_after(limit)); }
  // This overload explains wrong arguments: see base/detail/misuse.hpp.
  void run_for(detail::misused_duration explained);
  /// Runs until stop(), but at most until `deadline`.
  void run_until(time_point deadline);

  /// Makes run() return: called by a task, after that task; by a timer or watch, after the timers
  /// or watches due in the same turn; by another thread, after the current batch. A later run()
  /// returns at once, until restart(). Waiting tasks keep waiting. Idempotent. Synchronises with
  /// run()'s return. Any thread; async-signal-safe.
  void stop() noexcept;
  /// Undoes stop(), so that the loop can run again. Must not be called while the loop runs.
  void restart() noexcept { is_stopped_.store(false, std::memory_order_relaxed); }
  /// Returns whether stop() was called, without a restart() since. Any thread.
  bool stopped() const noexcept {
    // acquire: pairs with the release in stop().
    return is_stopped_.load(std::memory_order_acquire);
  }

  /// Returns whether the calling thread is inside this loop's run(), directly or in another loop
  /// that one of its tasks runs. Any thread.
  bool in_loop_thread() const noexcept {
    const event_loop* loop = current_loop_;
    while (loop != nullptr && loop != this) loop = loop->outer_;
    return loop == this;
  }
  /// Returns the innermost loop that the calling thread is running, or null. Any thread.
  static event_loop* current() noexcept { return current_loop_; }

  /// Runs `op`, which must stay alive until then, once on the loop's thread. Does not fail: if the
  /// inbox cannot grow, only the order of `op` is lost. Any thread.
  void post(operation& op) noexcept override = 0;
  /// Runs `release` once, in a later turn or when the loop is destroyed, unordered with other
  /// tasks. Called by detail::deferred_release. Does not fail. Any thread.
  void post_release(detail::release_node& release) noexcept;
  /// Like post(callable), but runs `callable` only after `delay` has passed. Unlike a timer, it
  /// cannot be cancelled, and allocates: std::bad_alloc goes to the caller or, later, to
  /// on_exception. Any thread.
  template <class F>
    requires detail::postable<F>
  void post_after(duration delay, F&& callable) {
    post_at(deadline_after(delay), std::forward<F>(callable));
  }
  /// Like post_after(), but runs `callable` at `deadline`.
  template <class F>
    requires detail::postable<F>
  void post_at(time_point deadline, F&& callable) {
    dispatch(
        [this, deadline, task = move_only_function<void()>(std::forward<F>(callable))]() mutable {
          start_delayed(deadline, std::move(task));
        });
  }
  // This overload explains wrong arguments: see base/detail/misuse.hpp.
  void post_after(duration delay, detail::misused_callable explained);
  template <class F>
  void post_after(detail::misused_duration explained, F&& callable);
  void post_at(time_point deadline, detail::misused_callable explained);

  /// Reads the time from the poller. Any thread.
  steady_time now() const noexcept final { return poller_->now(); }
  /// Returns the time that the loop has read last, while it serves I/O, which is earlier than now()
  /// by at most half of loop_options::io_time and the duration of one function; at other times,
  /// returns now(). Meant for deadlines of many short operations, where reading the clock would
  /// cost as much as the rest. Called on the loop's thread.
  steady_time recent_time() const noexcept {
    const steady_time check_time = io_slice_.last_check();
    return check_time != steady_time::min() ? check_time : now();
  }

  /// executor: runs_only_here() is in_loop_thread(). running_here() is in_loop_thread(), but false
  /// while one of the loop's tasks runs another loop or a sync_wait(). timers() is the loop.
  bool running_here() const noexcept final {
    return in_loop_thread() &&
           // relaxed: this thread has stored its own run.
           current_run() == run_.load(std::memory_order_relaxed);
  }
  bool runs_only_here() const noexcept final { return in_loop_thread(); }
  timer_service* timers() noexcept final { return this; }

  /// Returns the counters, which the loop updates after each batch. They are read one by one and
  /// are not a consistent snapshot. Any thread.
  loop_metrics metrics() const;

  /// Replaces the kernel objects, which still belong to the parent, in a child after fork();
  /// watches, timers and tasks stay. Must not be called if another thread was running the loop or
  /// posting to it at the fork, because that call never ends in the child. Throws
  /// std::system_error.
  void after_fork_in_child();

  /// Returns the backend of sockets and pipes; null if the loop's poller cannot do I/O. Any thread.
  io::backend* io() const noexcept { return poller_->io(); }
  /// watch(), rewatch() and unwatch() are called by fd_watch, on the loop's thread.
  void watch(readiness_operation& op, readiness interest, trigger mode);
  void rewatch(readiness_operation& op, readiness interest, trigger mode) {
    poller_->rewatch(op, interest, mode);
  }
  void unwatch(readiness_operation& op) noexcept;
  /// Posts an operation that must not run within the call that starts it. While the loop serves
  /// I/O, `op` runs after the I/O, in the same turn, which saves a pass through the inbox and
  /// another poll. Called on the loop's thread.
  void defer(operation& op) noexcept {
    is_serving_io_ ? deferred_operations_.push_back(op) : post(op);
  }
  /// Posts an operation that computes for long: runs `op` after the ready I/O of this turn or of a
  /// later one, in the order of these calls. A turn runs such operations for
  /// loop_options::heavy_time, at least one and at most 16; the loop does not sleep while some
  /// wait. Called on the loop's thread.
  void defer_heavy(heavy_operation& op) noexcept { heavy_.push_back(op); }
  /// Starts a timer or the sleep of a coroutine. Called on the loop's thread.
  void start_timer(timer_operation& timer, steady_time deadline) noexcept final;
  /// timer_service: `limit` counts from the time at which this turn, or the next one, looks for
  /// I/O, so that the limits of operations that one turn begins expire together, and need no
  /// reading of the clock.
  void start_time_limit(timer_operation& timer, duration limit) noexcept final;
  /// Cancels `timer`. Returns false if the timer was not started, or has fired.
  bool cancel_timer(timer_operation& timer) noexcept final;
  /// Returns now() + `delay`, at most steady_time::max(); for a delay of zero or less, a time
  /// already past for timers, which fire in the next turn. Any thread.
  steady_time deadline_after(duration delay) const noexcept;

 protected:
  event_loop(loop_options options, std::unique_ptr<gyre::poller> poller);

  // basic_loop implements the next five functions. push_erased() wakes the loop if it sleeps.
  // next_task_code() returns the address of the code of the inbox's next task; zero if there is no
  // task, or if the inbox does not tell.
  virtual void push_erased(const inbox::detail::erased_task& task) = 0;
  virtual void run_inbox(inbox::batch& batch) = 0;
  virtual bool inbox_ready() noexcept = 0;
  virtual std::size_t inbox_pending() const noexcept = 0;
  virtual std::uint64_t next_task_code() noexcept = 0;

  // The deleter of an inbox_slot, which is a task's slot within inbox_limit. It releases the slot,
  // unless the task was stored. A null inbox_slot means that slots are not counted.
  struct free_slot {
    void operator()(event_loop* loop) const noexcept { loop->release_slot(); }
  };
  using inbox_slot = std::unique_ptr<event_loop, free_slot>;
  inbox_slot take_slot() noexcept {
    if (!is_limited_) [[likely]]
      return nullptr;
    slots_in_use_.fetch_add(1, std::memory_order_relaxed);  // relaxed: the count orders nothing
    return inbox_slot(this);
  }
  // Takes a slot; returns nullopt if none is left.
  std::optional<inbox_slot> try_take_slot() noexcept;
  [[nodiscard]] bool is_limited() const noexcept { return is_limited_; }
  // Calls in_loop_thread(). The function is not inlined, because compilers cache the addresses of
  // thread-locals, and a coroutine may be on another thread after each suspension.
  [[nodiscard, gnu::noinline]] bool is_run_here() const noexcept;
  // The task that begins the chain of operations of one post_all().
  struct begin_chain {
    event_loop* loop;
    operation* first;
    void operator()() const { loop->chain_.begin(*first, loop->batch_); }
  };
  [[nodiscard]] detail::operation_chain& chain() noexcept { return chain_; }
  // Wakes the loop if necessary, after a push by the thread that runs the loop.
  void wake_own_thread() noexcept {
    if (gate_.claim_wake_up()) [[unlikely]]
      wake_poller();
  }
  // Wakes the loop if it sleeps, after a push by any thread.
  void wake_if_asleep() noexcept {
    if (!gate_.is_busy()) [[unlikely]]
      wake_unless_awake();
  }
  // Adds an operation that the inbox had no memory for to the overflow queue; its slot stays taken.
  [[gnu::noinline, gnu::cold]] void push_without_memory(operation& op) noexcept;
  // The derived destructor calls both functions, while tasks can still be posted. The first
  // destroys the callables of post_at(), the second runs the releases.
  void discard_delayed() noexcept;
  void run_last_releases() noexcept;

 private:
  friend posting<event_loop>;
  friend detail::wait_strategy;
  friend detail::waiting_loop;

  class run_scope;
  class delayed_task;

  template <class F>
  void push(F&& callable) {
    inbox::detail::with_cell_sized<inbox::detail::task_cell::max_cells>(
        std::forward<F>(callable), [this]<class G>(G&& task) {
          push_erased(inbox::detail::erased_task(std::forward<G>(task)));
        });
  }

  std::size_t turn(steady_time deadline);
  void begin_time_limits() noexcept;
  std::size_t run_tasks();
  void run_all();
  void run_inbox_tasks();
  void run_limited();
  bool run_measured();
  void run_overflow();
  void wait_for_work(steady_time deadline);
  void sleep_until(steady_time deadline);
  std::size_t run_io();
  void record_batch(std::uint64_t begin) noexcept;
  void record_io(const trace::detail::function_sequence& callbacks,
                 std::size_t completions) noexcept;
  void record_timers(std::uint64_t begin, duration lateness, std::size_t timer_count) noexcept;
  std::size_t run_deferred();
  std::size_t run_timers();
  bool has_tasks() noexcept { return !chain_.empty() || inbox_ready() || !overflow_.empty(); }
  bool is_watching() const noexcept { return poller_->watched() > 0; }
  bool poll_for_io();
  void record_wakeup() noexcept;
  void adapt_batch(duration run_time) noexcept;
  void release_slot() noexcept { slots_in_use_.fetch_sub(1, std::memory_order_relaxed); }
  template <class Work, class Count>
  void run_and_count(Work&& work, Count&& count_tasks);
  [[gnu::noinline]] void wake_unless_awake() noexcept;
  [[nodiscard]] bool claim_wake_up() noexcept;
  [[gnu::cold]] void wake_poller() noexcept;
  [[gnu::cold]] void signal_poller() noexcept;
  void start_delayed(steady_time deadline, move_only_function<void()> task);

  // The variable is visible, so that the library and its users share it even if the users hide
  // their symbols.
  [[gnu::visibility("default")]] static inline constinit thread_local event_loop* current_loop_ =
      nullptr;

  // Every post reads the next members, up to is_stopped_.
  const bool is_limited_;
  detail::sleep_gate gate_;
  detail::atomic<bool> is_stopped_{false};
  // Every turn reads the members below, and posting threads write them if the inbox has no memory.
  detail::overflow_queue overflow_;
  detail::release_queue releases_{*this};  // posted to overflow_ unless empty

  // Only the loop's thread writes the members below.
  alignas(false_sharing_range) event_loop* outer_ = nullptr;  // the loop whose task runs this one
  detail::atomic<const detail::nested_run*> run_{nullptr};    // the run of the loop's thread
  loop_options options_;
  std::unique_ptr<gyre::poller> poller_;
  detail::timer_wheel timers_;
  detail::io_slice io_slice_;
  std::optional<steady_time> io_polled_at_;     // the time of this turn's poll, if there was one
  intrusive_list<delayed_task> delayed_tasks_;  // the tasks in timers_, for discard_delayed()
  std::size_t batch_size_;
  std::size_t tasks_since_sleep_ = 0;
  unsigned busy_sleeps_ = 0;
  inbox::batch batch_{0};
  intrusive_queue<operation> deferred_operations_;
  detail::heavy_queue heavy_;
  bool is_serving_io_ = false;
  // The recorder of the loop's thread; null outside of run().
  trace::detail::recorder* recorder_ = nullptr;
  trace::detail::each_or_batch measured_tasks_;
  trace::detail::each_or_batch measured_timers_;
  detail::operation_chain chain_;  // the chain runs before the tasks in the inbox
  bool is_inbox_first_ = false;    // whether the last batch began with the inbox, not overflow_
  detail::wait_strategy wait_strategy_;
  detail::published_counter tasks_run_, timers_fired_, io_events_, exceptions_, turns_, polls_,
      sleeps_;
  detail::published_counter timers_pending_, descriptors_watched_;
  histogram timer_lateness_, wakeup_lateness_, post_lateness_;
  // The time of the post that ended the last sleep; 0 once it has run.
  std::int64_t wakeup_time_ = 0;

  // Posting threads write the members below: by each post of a limited loop, and by each wake-up.
  alignas(false_sharing_range) detail::atomic<std::size_t> slots_in_use_{0};  // at most inbox_limit
  detail::atomic<std::uint64_t> refused_tasks_{0};
  detail::atomic<std::uint64_t> wakeups_{0};
  // The time of the post that wakes the loop, in nanoseconds; 0 if there was none.
  detail::atomic<std::int64_t> new_wakeup_time_{0};
};

}  // namespace gyre
