// SPDX-License-Identifier: Apache-2.0
// What is the same in every pool, whatever its scheduler: admission, the workers' threads, pausing,
// resizing, ending, counting. The pool's threads share it, so that a task may destroy the pool.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include <gyre/base/atomic.hpp>
#include <gyre/base/cache_line.hpp>
#include <gyre/base/clock.hpp>
#include <gyre/base/fence.hpp>
#include <gyre/base/operation.hpp>
#include <gyre/exec/detail/calls_in_flight.hpp>
#include <gyre/exec/detail/delayed_tasks.hpp>
#include <gyre/exec/detail/droppable_operation.hpp>
#include <gyre/exec/detail/places.hpp>
#include <gyre/exec/detail/pool_task.hpp>
#include <gyre/exec/detail/pool_worker.hpp>
#include <gyre/exec/detail/submissions.hpp>
#include <gyre/exec/detail/timer_thread.hpp>
#include <gyre/exec/pool_options.hpp>
#include <gyre/task/executor.hpp>

namespace gyre::detail {

[[gnu::cold]] void throw_refused(admission why);
inline void throw_if_refused(admission how) {
  if (how != admission::granted) [[unlikely]]
    throw_refused(how);
}

/// Where the calling thread collects what it takes from the submissions.
taken_items& taking() noexcept;

/// Makes `to` that for a scope.
class taking_scope {
 public:
  explicit taking_scope(taken_items& to) noexcept;
  taking_scope(const taking_scope&) = delete;
  taking_scope& operator=(const taking_scope&) = delete;
  ~taking_scope();

 private:
  taken_items* outer_;
};

/// Enters in the calling worker's histograms how long a task waited, and how long this object
/// lives.
class task_timing {
 public:
  explicit task_timing(steady_time submitted) noexcept;
  task_timing(const task_timing&) = delete;
  task_timing& operator=(const task_timing&) = delete;
  ~task_timing();

 private:
  pool_worker* worker_;
  steady_time started_{};
};

/// The pool without its public face. A derived class holds the queues.
///
/// Nothing is lost at the end: a worker ends when all that was submitted has finished; who submits
/// looks, after a fence, whether the workers have ended meanwhile, and then runs what it finds in
/// the queues itself.
class pool_core : public executor, public std::enable_shared_from_this<pool_core> {
 public:
  static std::shared_ptr<pool_core> make(thread_pool_options options);
  pool_core(const pool_core&) = delete;
  pool_core& operator=(const pool_core&) = delete;
  virtual ~pool_core();

  /// As thread_pool's members.
  template <class F>
  admission submit(F&& callable, task_priority priority, bool may_wait);
  template <class F>
  admission submit_at(steady_time when, F&& callable);
  /// submit() without waiting: not yet, with `callable` untouched, if the caller is to wait in line
  /// for a place.
  template <class F>
  std::optional<admission> submit_now(F&& callable, task_priority priority);
  /// For a caller that has waited in line, and has a place.
  template <class F>
  admission submit_placed(F&& callable, task_priority priority);
  places& line() noexcept { return places_; }
  /// Gives back the places that threads hold which have ended.
  void reclaim() noexcept;
  admission refuse(admission why) noexcept;
  void post(operation& op) noexcept final;
  bool offer(operation& op) noexcept final;
  bool retract(operation& op) noexcept final;
  bool running_here() const noexcept final { return worker_here() != nullptr; }
  timer_service* timers() noexcept final { return timers_.started(); }
  void pause() noexcept;
  void resume() noexcept;
  bool paused() const noexcept { return (attention() & paused_bit) != 0; }
  void resize(std::size_t workers);
  // relaxed, here and for other figures: each stands for itself.
  std::size_t workers() const noexcept { return target_.load(std::memory_order_relaxed); }
  std::size_t purge();
  bool wait_idle(steady_time deadline) noexcept;
  bool stop(steady_time deadline);
  thread_pool_metrics metrics() const;

  /// For the pool's destructor: ends it, and lets its threads go or joins them.
  void leave() noexcept;

  /// For delayed_tasks.
  void run_due(pool_task& task) noexcept;
  void drop_delayed(pool_task& task) noexcept;

  /// For waits within a task: runs one piece of work on this worker; false if it found none.
  bool help(pool_worker& self) noexcept;
  /// As helper's members. A worker that is out of stack, and waits for a task of this pool, is stuck
  /// until another worker runs that. If all are, none of them will.
  bool may_sleep(pool_worker& self, const outcome_base& task) noexcept;
  void woke_up(pool_worker& self) noexcept;

  /// Runs a task that the calling worker has just taken and finds no memory for.
  template <class F>
  void run_taken(F& callable) noexcept;

 protected:
  explicit pool_core(thread_pool_options&& options);

  // What a scheduler provides. Those that add announce what they added; all but the workers'
  // members from any thread.
  virtual void enqueue(pool_task& task, task_priority priority) noexcept = 0;
  virtual void enqueue(operation& op) noexcept = 0;
  virtual void enqueue_own(pool_worker& self, pool_task& task) noexcept = 0;
  virtual bool offer_own(pool_worker& self, operation& op) noexcept = 0;
  /// Worker: takes what to run next, if there is something.
  virtual work_item next(pool_worker& self) noexcept = 0;
  /// Worker: runs items until it is to end.
  virtual void work(pool_worker& self) noexcept = 0;
  /// Worker: puts back what it took last, to be taken next.
  virtual void return_taken(pool_worker& self, work_item item) noexcept = 0;
  /// Takes out a task that waits, the one that matters least first; none if it found none.
  virtual pool_task* take_waiting() noexcept = 0;
  /// Takes out anything that waits, for the time after the workers' end.
  virtual work_item take_left() noexcept = 0;
  virtual void wake_all() noexcept = 0;
  /// Worker: it is about to end; what is in its queue is for others.
  virtual void leave_queues(pool_worker& self) noexcept { static_cast<void>(self); }
  /// How many were put into the queues, workers' own not counted.
  virtual std::uint64_t enqueued() const noexcept = 0;
  virtual std::uint64_t wakeups() const noexcept = 0;
  virtual void resized(std::size_t workers) noexcept { static_cast<void>(workers); }

  /// Worker: the loop that work() is, with the derived class's members inlined.
  template <class Scheduler>
  void run_worker(Scheduler& scheduler, pool_worker& self) noexcept;
  void run(pool_worker& self, work_item item) noexcept;
  /// Worker, between two items, when attention() is not calm: false if it is to end.
  bool attend(pool_worker& self) noexcept;
  /// Worker, when it finds nothing: settles its accounts, and tells who waits for that.
  void settle(pool_worker& self) noexcept;

  static constexpr std::uint32_t paused_bit = 1;
  static constexpr std::uint32_t resized_bit = 2;
  static constexpr std::uint32_t closed_bit = 4;    // to tasks from outside
  static constexpr std::uint32_t dropping_bit = 8;  // what has not started
  static constexpr std::uint32_t ended_bit = 16;
  std::uint32_t attention() const noexcept {
    return attention_.load(std::memory_order_acquire);  // pairs with the releases in raise()
  }
  /// Whether a worker that sleeps, or is about to, has to get up though there is no work.
  bool must_rise(const pool_worker& self) const noexcept {
    return (attention() & (paused_bit | ended_bit)) != 0 || self.index >= workers();
  }
  pool_worker* worker_here() const noexcept {
    pool_worker* const self = current_pool_worker();
    return self != nullptr && &self->core == this ? self : nullptr;
  }
  /// After something was made visible that workers, or the end, must not overlook.
  void settle_if_ended() noexcept {
    asymmetric_light_fence();
    if ((attention_.load(std::memory_order_relaxed) & ended_bit) != 0) [[unlikely]]
      settle_late();
  }
  std::size_t slots() const noexcept {
    return slots_used_.load(std::memory_order_acquire);  // pairs with the release in resize()
  }
  // Below slots().
  pool_worker& slot(std::size_t index) const noexcept { return *slots_[index]; }

  thread_pool_options options_;
  places places_;
  timer_thread timers_;
  delayed_tasks delayed_;
  // The derived class's, if it has them.
  submissions* submissions_ = nullptr;
  idle_workers* idle_workers_ = nullptr;

 private:
  enum class next_step : std::uint8_t { retry, run_here, go_without, full, timed_out, closed };

  template <class F>
  pool_task& make_task(F&& callable);
  template <class F>
  admission submit_as_worker(pool_worker& self, F&& callable, task_priority priority);
  template <class F>
  bool store(F&& callable, task_priority priority, bool& placed);
  template <class F>
  admission run_by_submitter(F&& callable);
  next_step when_full_outside(task_priority priority, bool may_wait, steady_time& deadline,
                              bool& placed);
  next_step when_full_within(const pool_worker& self) noexcept;
  bool take_place(pool_worker& self) noexcept;
  void give_back_place(pool_worker& self) noexcept;
  /// How deep the calling thread runs tasks that found no place.
  std::size_t& submitter_depth() const noexcept;
  bool drop_one() noexcept;
  void drop(pool_task& task) noexcept;
  /// Calls `function`; what it throws goes to on_exception.
  template <class F>
  void guarded(F&& function) noexcept;
  void report_exception() noexcept;

  void start_worker(std::size_t index);
  void live(pool_worker& self) noexcept;
  bool retire(pool_worker& self) noexcept;
  bool has_surplus() const noexcept;
  void leave_unplaced() noexcept { unplaced_.fetch_sub(1, std::memory_order_relaxed); }
  // For a task that no worker starts.
  void leave_place(bool had_place) noexcept { had_place ? places_.give_back(1) : leave_unplaced(); }

  /// A thread that runs what others have left may submit more, which it runs as well.
  class settling {
   public:
    explicit settling(const pool_core& pool) noexcept;
    settling(const settling&) = delete;
    settling& operator=(const settling&) = delete;
    ~settling();

   private:
    const pool_core* outer_;
  };
  bool settles_here() const noexcept;
  void raise(std::uint32_t bits) noexcept;
  void lower(std::uint32_t bits) noexcept;
  bool all_done(const pool_worker* waiting) const noexcept;
  void tell_done() noexcept;
  void settle_late() noexcept;
  void join_workers() noexcept;
  std::unique_ptr<named_thread> take_worker_thread() noexcept;

  std::atomic<std::uint32_t> attention_{0};
  std::atomic<std::size_t> target_{0};
  std::atomic<std::size_t> slots_used_{0};
  const std::unique_ptr<std::unique_ptr<pool_worker>[]> slots_;
  calls_in_flight posts_;  // of operations

  std::mutex join_mutex_;
  std::mutex workers_mutex_;                            // starting and retiring
  std::vector<std::unique_ptr<named_thread>> retired_;  // not joined yet; by the mutex

  // Of tasks that no worker counts.
  std::atomic<std::uint64_t> dropped_{0};
  std::atomic<std::uint64_t> delayed_dropped_{0};
  std::atomic<std::uint64_t> refused_{0};
  std::atomic<std::uint64_t> run_by_submitter_{0};
  std::atomic<std::uint64_t> settled_late_{0};
  std::atomic<std::uint64_t> exceptions_{0};

  std::atomic<bool> dropped_while_stopping_{false};
  std::atomic<std::size_t> unplaced_{0};  // tasks that wait without a place

  std::atomic<std::size_t> done_waiters_{0};
  std::atomic<std::size_t> waiting_within_{
      0};  // tasks whose workers wait until all others are done
  std::mutex done_mutex_;
  std::condition_variable done_;
};

// ---- submitting

/// What the submissions hold: run by the worker that takes it, it hands itself over to that worker.
template <class F>
struct handed_over {
  F callable;

  void operator()() {
    taken_items& to = taking();
    try {
      pool_task& task = make_pool_task(std::move(callable));
      task.has_place = true;
      to.add(work_item(task));
    } catch (const std::bad_alloc&) {
      to.pool().run_taken(callable);
    }
  }
};

/// A task that has its block already.
class handed_over_task {
 public:
  explicit handed_over_task(pool_task& task) noexcept : task_(&task) {}
  handed_over_task(handed_over_task&& other) noexcept
      : task_(std::exchange(other.task_, nullptr)) {}
  handed_over_task& operator=(handed_over_task&&) = delete;
  ~handed_over_task() {
    if (task_ != nullptr) task_->drop();
  }

  void operator()() noexcept { taking().add(work_item(*std::exchange(task_, nullptr))); }

 private:
  pool_task* task_;
};

struct handed_over_operation {
  operation* op;
  void operator()() const noexcept { taking().add(work_item(*op)); }
};

/// A task with a future; dropped with this.
class owned_task {
 public:
  explicit owned_task(droppable_operation& task) noexcept : task_(&task) {}
  owned_task(owned_task&& other) noexcept : task_(std::exchange(other.task_, nullptr)) {}
  owned_task& operator=(owned_task&&) = delete;
  ~owned_task() {
    if (task_ != nullptr) task_->drop();
  }

  void operator()() { std::exchange(task_, nullptr)->execute(); }

 private:
  droppable_operation* task_;
};

/// A task that is timed, on workers.
template <class F>
struct timed_task {
  F callable;
  steady_time submitted = monotonic_now();

  void operator()() {
    const task_timing timing(submitted);
    static_cast<void>(callable());
  }
};

template <class F>
void pool_core::guarded(F&& function) noexcept {
  try {
    static_cast<void>(function());
  } catch (...) {
    report_exception();
  }
}

template <class F>
pool_task& pool_core::make_task(F&& callable) {
  if (options_.record_times) [[unlikely]] {
    return make_pool_task(timed_task<std::decay_t<F>>{std::forward<F>(callable)});
  }
  return make_pool_task(std::forward<F>(callable));
}

// NOLINTBEGIN(bugprone-use-after-move): a callable is forwarded once more only if nobody took it.
template <class F>
admission pool_core::submit(F&& callable, task_priority priority, bool may_wait) {
  if (pool_worker* const self = worker_here()) {
    return submit_as_worker(*self, std::forward<F>(callable), priority);
  }
  steady_time deadline{};
  bool placed = false;
  for (;;) {
    if ((attention() & closed_bit) != 0) {
      if (placed) places_.give_back(1);
      if (settles_here()) return run_by_submitter(std::forward<F>(callable));
      return refuse(admission::closed);
    }
    if (store(std::forward<F>(callable), priority, placed)) {
      settle_if_ended();
      return admission::granted;
    }
    switch (when_full_outside(priority, may_wait, deadline, placed)) {
      case next_step::retry: break;
      case next_step::go_without: {
        pool_task& task = make_task(std::forward<F>(callable));
        unplaced_.fetch_add(1, std::memory_order_relaxed);
        enqueue(task, priority);
        settle_if_ended();
        return admission::granted;
      }
      case next_step::run_here: return run_by_submitter(std::forward<F>(callable));
      case next_step::full: return refuse(admission::full);
      case next_step::timed_out: return refuse(admission::timed_out);
      case next_step::closed: return refuse(admission::closed);
    }
  }
}

template <class F>
std::optional<admission> pool_core::submit_now(F&& callable, task_priority priority) {
  if (pool_worker* const self = worker_here()) {
    return submit_as_worker(*self, std::forward<F>(callable), priority);
  }
  bool placed = false;
  for (;;) {
    if ((attention() & closed_bit) != 0) {
      if (settles_here()) return run_by_submitter(std::forward<F>(callable));
      return refuse(admission::closed);
    }
    if (store(std::forward<F>(callable), priority, placed)) {
      settle_if_ended();
      return admission::granted;
    }
    if (options_.when_full == gyre::when_full::reject) return refuse(admission::full);
    if (options_.when_full != gyre::when_full::drop_oldest) return std::nullopt;
    if (!drop_one()) return refuse(admission::full);
  }
}

template <class F>
admission pool_core::submit_placed(F&& callable, task_priority priority) {
  const bool within = worker_here() != nullptr || (attention() & closed_bit) != 0;
  bool placed = !within;
  if (within) {
    places_.give_back(1);
  } else if (submissions_ != nullptr && priority == task_priority::normal) {
    submissions_->add_places(1);
    placed = false;
  }
  if (within || !store(std::forward<F>(callable), priority, placed)) {
    return submit(std::forward<F>(callable), priority, false);
  }
  settle_if_ended();
  return admission::granted;
}

// False, with `callable` untouched, if there is no place, and the caller has none.
template <class F>
bool pool_core::store(F&& callable, task_priority priority, bool& placed) {
  using function = std::decay_t<F>;
  if (submissions_ != nullptr && priority == task_priority::normal) [[likely]] {
    bool stored = false;
    const auto with_block = [&] {
      pool_task& task = make_task(std::forward<F>(callable));
      task.has_place = true;
      return handed_over_task(task);
    };
    if constexpr (inbox::detail::task_cell::holds<handed_over<function>> &&
                  std::is_nothrow_constructible_v<function, F>) {
      if (options_.record_times) [[unlikely]] {
        stored = submissions_->try_push_made(with_block);
      } else {
        stored = submissions_->try_push_made(
            [&]() noexcept { return handed_over<function>{std::forward<F>(callable)}; });
      }
    } else {
      stored = submissions_->try_push_made(with_block);
    }
    if (stored) idle_workers_->notify();
    return stored;
  }
  if (!std::exchange(placed, false) && !places_.take(1)) return false;
  pool_task* task = nullptr;
  try {
    task = &make_task(std::forward<F>(callable));
  } catch (...) {
    places_.give_back(1);
    throw;
  }
  task->has_place = true;
  enqueue(*task, priority);
  return true;
}

// A worker does not wait for a place.
template <class F>
admission pool_core::submit_as_worker(pool_worker& self, F&& callable, task_priority priority) {
  bool placed = false;
  for (;;) {
    if ((attention() & (dropping_bit | ended_bit)) != 0) {
      if (settles_here()) return run_by_submitter(std::forward<F>(callable));
      return refuse(admission::closed);
    }
    placed = take_place(self);
    if (placed) break;
    const next_step step = when_full_within(self);
    if (step == next_step::run_here) return run_by_submitter(std::forward<F>(callable));
    if (step == next_step::full) return refuse(admission::full);
    if (step == next_step::go_without) break;
  }
  pool_task* task = nullptr;
  try {
    task = &make_task(std::forward<F>(callable));
  } catch (...) {
    if (placed) give_back_place(self);
    throw;
  }
  task->has_place = placed;
  if (!placed) unplaced_.fetch_add(1, std::memory_order_relaxed);
  if (priority == task_priority::normal) {
    enqueue_own(self, *task);
  } else {
    enqueue(*task, priority);
  }
  return admission::granted;
}
// NOLINTEND(bugprone-use-after-move)

template <class F>
admission pool_core::submit_at(steady_time when, F&& callable) {
  steady_time deadline{};
  bool placed = false;
  while (!placed && !places_.take(1)) {
    if ((attention() & closed_bit) != 0) return refuse(admission::closed);
    // A task whose time will come can neither be run at once nor wait without a place.
    switch (when_full_outside(task_priority::low, worker_here() == nullptr, deadline, placed)) {
      case next_step::retry: break;
      case next_step::timed_out: return refuse(admission::timed_out);
      case next_step::closed: return refuse(admission::closed);
      default: return refuse(admission::full);
    }
  }
  pool_task* task = nullptr;
  const auto undo = [&]() noexcept {
    if (task != nullptr) task->drop();
    places_.give_back(1);
  };
  try {
    task = &make_pool_task(std::forward<F>(callable));
    if (delayed_.add(when, *task)) return admission::granted;
  } catch (...) {
    undo();
    throw;
  }
  undo();
  return refuse(admission::closed);
}

template <class F>
admission pool_core::run_by_submitter(F&& callable) {
  std::decay_t<F> own(std::forward<F>(callable));
  run_by_submitter_.fetch_add(1, std::memory_order_relaxed);
  std::size_t& depth = submitter_depth();
  ++depth;
  guarded(own);
  --depth;
  return admission::granted;
}

// It was counted when it was submitted, and has a place.
template <class F>
void pool_core::run_taken(F& callable) noexcept {
  places_.give_back(1);
  guarded(callable);
  settled_late_.fetch_add(1, std::memory_order_release);
}

template <class Scheduler>
void pool_core::run_worker(Scheduler& scheduler, pool_worker& self) noexcept {
  for (;;) {
    if ((attention() & (paused_bit | resized_bit | ended_bit)) != 0) [[unlikely]] {
      if (!attend(self)) return;
    }
    if (const work_item item = scheduler.next(self)) {
      scheduler.found(self);
      if (paused()) [[unlikely]] {
        // Since it looked: what was submitted to a paused pool does not start.
        scheduler.return_taken(self, item);
      } else {
        run(self, item);
      }
    } else {
      settle(self);
      scheduler.rest(self);
    }
  }
}

}  // namespace gyre::detail
