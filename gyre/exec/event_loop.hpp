// SPDX-License-Identifier: Apache-2.0
// What every loop offers, whatever its inbox: running, stopping, posting, time. Timers, descriptor
// watches and I/O objects take an `event_loop&`; programs make a `loop` (loop.hpp).
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <limits>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include <gyre/base/atomic.hpp>
#include <gyre/base/cache_line.hpp>
#include <gyre/base/clock.hpp>
#include <gyre/base/detail/tally.hpp>
#include <gyre/base/intrusive_list.hpp>
#include <gyre/base/intrusive_stack.hpp>
#include <gyre/base/move_only_function.hpp>
#include <gyre/base/operation.hpp>
#include <gyre/base/timer_operation.hpp>
#include <gyre/base/timer_wheel.hpp>
#include <gyre/exec/detail/io_slice.hpp>
#include <gyre/exec/detail/sleep_gate.hpp>
#include <gyre/exec/detail/spin_budget.hpp>
#include <gyre/exec/detail/wager.hpp>
#include <gyre/exec/inbox/inbox.hpp>
#include <gyre/exec/poller.hpp>
#include <gyre/task/executor.hpp>

namespace gyre {

/// When posting makes the system call that wakes a loop.
enum class wakeup {
  /// Only when the loop sleeps: many tasks share one.
  coalesced,
  /// With every task, as evpp 0.3.1 did; for the lab's comparison with the published figures.
  per_task,
};

/// How a loop behaves; fixed when it is made.
struct loop_options {
  static constexpr std::size_t unlimited = std::numeric_limits<std::size_t>::max();

  /// Tasks that may wait before try_post() refuses one. Counting them costs every post an atomic
  /// addition, so the default does not. post() is never refused, but counts.
  std::size_t inbox_limit = unlimited;
  /// The most tasks that run between two looks at timers and descriptors; at least 1.
  std::size_t batch = 1024;
  /// How long a batch may take when timers or descriptors wait; a longer one makes the next smaller.
  std::chrono::nanoseconds batch_time = std::chrono::milliseconds{1};
  /// How long descriptors are served between two looks at timers and tasks; those that have not had
  /// their turn by then have it first next time. One function that takes longer is not interrupted.
  std::chrono::nanoseconds io_time = std::chrono::milliseconds{1};
  /// How long the loop goes on asking for I/O, tasks and timers before it sleeps; zero: not at all.
  /// A message that comes within that time finds the loop awake, which spares it the wake-up of a
  /// sleeping processor (some 5 to 50 us). It costs that processor up to so much time per sleep, and
  /// helps only where the loop has one to itself. When eight times in a row nothing came, the loop
  /// stops it and tries again only after 8, 16 ... 512 sleeps, so that an idle loop pays nothing.
  std::chrono::nanoseconds busy_poll = std::chrono::nanoseconds::zero();
  /// What sockets, pipes, files and watches of this loop stand on; loop_metrics::io tells which it is.
  io_interface io = io_interface::automatic;
  gyre::wakeup wakeup = gyre::wakeup::coalesced;
  /// Receives what a task, a timer or a watch throws, on the loop's thread; what it throws itself
  /// leaves run(). The default prints the exception and terminates the program.
  move_only_function<void(std::exception_ptr)> on_exception = {};
};

/// Counts since the loop was made, readable while it runs.
struct loop_metrics {
  /// What the poller says it is: "epoll" or "uring"; "several" for the sum of different ones.
  const char* io = "";
  std::uint64_t tasks_run = 0;
  std::uint64_t tasks_refused = 0;  ///< by try_post()
  std::uint64_t timers_fired = 0;
  std::uint64_t io_events = 0;   ///< reports of readiness
  std::uint64_t exceptions = 0;  ///< given to on_exception
  std::uint64_t turns = 0;
  std::uint64_t polls = 0;        ///< system calls that asked for events without waiting
  std::uint64_t sleeps = 0;       ///< system calls that waited for events
  std::uint64_t wakeups = 0;      ///< system calls made by posting threads
  std::size_t tasks_pending = 0;  ///< what is being run included; boost_lockfree: 0 or 1
  std::size_t timers_pending = 0;
  std::size_t descriptors_watched = 0;

  /// The sum of several loops.
  loop_metrics& operator+=(const loop_metrics& other) noexcept;
};

/// A loop as its timers, descriptors and tasks see it. Made as a `basic_loop`.
///
/// "Any thread" below includes tasks of the loop itself. Everything else belongs to the thread that
/// runs the loop, or to the loop's owner while no thread runs it.
///
/// Lifetime: a loop must outlive everything registered with it, every call on it, and the coroutines
/// that have started on it: end them first, by a scope, a runtime or sync_wait(). When it is
/// destroyed, callables that were posted and coroutines that were spawned but have not started are
/// destroyed without being run. A coroutine that waits then is neither resumed nor destroyed, and
/// what it holds leaks; so does an operation that was posted, which is its owner's.
class event_loop : public executor, public timer_service {
 public:
  event_loop(const event_loop&) = delete;
  event_loop& operator=(const event_loop&) = delete;
  virtual ~event_loop();

  /// Runs tasks, timers and descriptor watches on the calling thread until stop(). Sleeps while
  /// there is nothing to do. Throws what on_exception throws, std::system_error if waiting fails, and
  /// std::logic_error when called from one of the loop's own tasks, as do the next four.
  void run();
  /// Waits until there is something to do, and does one turn's worth of it. False if it was stopped.
  bool run_once();
  /// Does one turn's worth without waiting. False if there was nothing to do.
  bool poll();
  /// Runs until stop(), but at most for `duration`.
  void run_for(std::chrono::nanoseconds duration);
  /// Runs until stop(), but at most until `deadline`.
  void run_until(steady_time deadline);

  /// Makes run() return: from a task of the loop after that task (from a timer or watch: after those
  /// due in the same turn), from another thread after the batch it is at; a later run() returns at
  /// once. Tasks that wait keep waiting. Idempotent; stays until restart(). What happened before it
  /// is seen behind run(). Any thread; async-signal-safe.
  void stop() noexcept;
  /// Takes stop() back, so that the loop can run again. Not while it runs.
  void restart() noexcept;
  /// Any thread.
  bool stopped() const noexcept {
    // acquire: pairs with the release in stop().
    return stopped_.load(std::memory_order_acquire);
  }

  /// Whether the calling thread is inside this loop's run(), directly or in another loop that one of
  /// its tasks runs. Any thread.
  bool in_loop_thread() const noexcept {
    const event_loop* each = current_loop_;
    while (each != nullptr && each != this) each = each->outer_;
    return each == this;
  }
  /// The innermost loop that the calling thread is running, or null.
  static event_loop* current() noexcept { return current_loop_; }

  /// Runs `op` once on the loop's thread. Allocates nothing for the operation, and does not fail: if
  /// the inbox cannot grow, the operation loses its place in the order, nothing more. Any thread.
  void post(operation& op) noexcept override = 0;
  /// Runs `callable` (move-only is enough) once on the loop's thread, in the inbox's order, never
  /// before post() returns on the loop's own thread. Up to 24 bytes are stored in place, more in the
  /// thread's slab. Any thread. Throws std::bad_alloc, or what copying or moving it throws.
  template <class F>
    requires std::is_invocable_v<std::decay_t<F>&>
  void post(F&& callable) {
    admission counted = admit_always();
    push_function(move_only_function<void()>(std::forward<F>(callable)));
    counted.keep();
  }
  /// As post(), but refuses (false) when `inbox_limit` tasks wait; `callable` is then not moved from.
  template <class F>
    requires std::is_invocable_v<std::decay_t<F>&>
  [[nodiscard]] bool try_post(F&& callable) {
    admission granted = admit();
    if (!granted) return false;
    push_function(move_only_function<void()>(std::forward<F>(callable)));
    granted.keep();
    return true;
  }
  /// Calls `callable` at once when on the loop's thread, else posts it. Any thread.
  template <class F>
    requires std::is_invocable_v<std::decay_t<F>&>
  void dispatch(F&& callable) {
    if (in_loop_thread()) {
      std::forward<F>(callable)();
    } else {
      post(std::forward<F>(callable));
    }
  }
  /// Runs `callable` on the loop's thread when `delay` has passed, not earlier. Any thread. It
  /// cannot be cancelled: for that, and to allocate nothing, use a timer.
  template <class F>
    requires std::is_invocable_v<std::decay_t<F>&>
  void post_after(std::chrono::nanoseconds delay, F&& callable) {
    post_at(deadline_after(delay), std::forward<F>(callable));
  }
  /// The same for a point in time.
  template <class F>
    requires std::is_invocable_v<std::decay_t<F>&>
  void post_at(steady_time deadline, F&& callable) {
    dispatch(
        [this, deadline, task = move_only_function<void()>(std::forward<F>(callable))]() mutable {
          start_delayed(deadline, std::move(task));
        });
  }

  /// The time, read from the poller now. Any thread.
  steady_time now() const noexcept final { return poller_->now(); }

  /// As executor: in_loop_thread(), and the loop itself.
  bool running_here() const noexcept final { return in_loop_thread(); }
  bool runs_only_here() const noexcept final { return in_loop_thread(); }
  timer_service* timers() noexcept final { return this; }

  /// Any thread. The loop adds to its counts when a batch ends, so that they lag by what is being
  /// run; they are not read at one instant.
  loop_metrics metrics() const;

  /// In the child after fork(): makes the loop independent of the parent's, with the same watches,
  /// timers and tasks. For loops that no other thread was running or posting to at the fork: what
  /// such a thread had begun stays half done. Throws std::system_error.
  void after_fork_in_child();

  /// What sockets and pipes stand on: null if the loop's poller cannot do I/O. Any thread.
  io::backend* io() const noexcept { return poller_->io(); }
  /// What timers and watches stand on. The loop's thread.
  void watch(readiness_operation& op, readiness interest, trigger how);
  void rewatch(readiness_operation& op, readiness interest, trigger how);
  void unwatch(readiness_operation& op) noexcept;
  void start_timer(timer_operation& timer, steady_time deadline) noexcept final;
  /// False if it was not started, or has fired.
  bool cancel_timer(timer_operation& timer) noexcept final;
  /// `delay` from now; the end of time if that is beyond it. For no delay (zero or less) a moment
  /// that has passed for timers too, so that they fire in the next turn.
  steady_time deadline_after(std::chrono::nanoseconds delay) const noexcept;

 protected:
  event_loop(loop_options options, std::unique_ptr<gyre::poller> poller);

  // What basic_loop provides, for callers that know only the base. push_function() announces what it
  // pushed.
  virtual void push_function(move_only_function<void()> function) = 0;
  virtual void run_inbox(inbox::batch& batch) = 0;
  virtual bool inbox_ready() noexcept = 0;
  virtual std::size_t inbox_pending() const noexcept = 0;

  // A task's place within inbox_limit; given back unless the task was stored.
  class admission {
   public:
    explicit admission(event_loop* counting, bool granted = true) noexcept
        : counting_(counting), granted_(granted) {}
    admission(const admission&) = delete;
    admission& operator=(const admission&) = delete;
    ~admission() {
      if (counting_ != nullptr) [[unlikely]]
        counting_->leave();
    }
    explicit operator bool() const noexcept { return granted_; }
    void keep() noexcept { counting_ = nullptr; }

   private:
    event_loop* counting_;
    bool granted_;
  };
  admission admit_always() noexcept {
    if (limited_) [[unlikely]]
      enter();
    return admission(limited_ ? this : nullptr);
  }
  admission admit() noexcept;
  // After a push: wakes the loop if it sleeps.
  void announce() noexcept {
    if (gate_.must_wake()) wake();
  }
  // For an operation that found no memory in the inbox; what it counted stays counted.
  [[gnu::noinline, gnu::cold]] void push_without_memory(operation& op) noexcept;
  // For the derived destructor: drops what post_at() holds while tasks can still be posted.
  void discard_delayed() noexcept;

 private:
  class running;
  class delayed_task;

  std::size_t turn(steady_time deadline);
  std::size_t run_tasks();
  void run_limited();
  void run_left_over();
  bool tasks_ready() noexcept { return inbox_ready() || has_left_over(); }
  bool has_left_over() noexcept { return !left_over_taken_.empty() || !left_over_.empty(); }
  std::size_t run_timers();
  std::size_t run_io();
  std::size_t poll_io();
  bool ask_poller();
  std::size_t wait_until(steady_time deadline);
  std::size_t sleep_until(steady_time deadline);
  bool look_for_tasks(steady_time deadline);
  bool poll_busily(steady_time deadline);
  void let_tasks_gather() const noexcept;
  void adapt_batch(std::chrono::nanoseconds taken) noexcept;
  void enter() noexcept;
  void leave() noexcept;
  template <class Work, class Count>
  void guarded(Work&& work, Count&& count);
  [[gnu::noinline]] void wake() noexcept;
  void start_delayed(steady_time deadline, move_only_function<void()> task);

  // One for the library and its users, also if those hide their symbols.
  [[gnu::visibility("default")]] static inline constinit thread_local event_loop* current_loop_ =
      nullptr;

  // Read by every post.
  const bool limited_;
  detail::sleep_gate gate_;
  detail::atomic<bool> stopped_{false};

  // The loop's thread.
  alignas(false_sharing_range) event_loop* outer_ = nullptr;  // whose task runs this loop, if any
  loop_options options_;
  std::unique_ptr<gyre::poller> poller_;
  detail::timer_wheel timers_;
  detail::io_slice io_slice_;
  std::optional<steady_time> looked_for_io_;  // in this turn, at that time
  intrusive_list<delayed_task> delayed_;
  std::size_t batch_size_;
  inbox::batch batch_{0};
  std::size_t last_batch_ = 0;
  intrusive_queue<operation> left_over_taken_;  // of left_over_, in the loop's hands
  bool left_over_last_ = false;  // whether the last batch of both began with the inbox
  detail::spin_budget spin_;
  detail::wager poll_first_{0, 1};
  detail::wager busy_poll_{detail::wager::most, detail::wager::most};
  bool tasks_came_ = false;  // since the last sleep
  detail::tally tasks_run_, timers_fired_, io_events_, exceptions_, turns_, polls_, sleeps_;
  detail::tally timers_pending_, descriptors_watched_;

  // Written by posting threads, seldom.
  alignas(false_sharing_range) detail::atomic<std::size_t> waiting_{0};
  detail::atomic<std::uint64_t> refused_{0};
  detail::atomic<std::uint64_t> wakeups_{0};
  atomic_intrusive_stack<operation> left_over_;  // by inboxes that could not grow
};

}  // namespace gyre
