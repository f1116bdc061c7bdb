// SPDX-License-Identifier: Apache-2.0
// manual_executor: an executor whose operations run, and whose time passes, only when the test
// calls it.
//
//     gyre::testing::manual_executor executor;
//     gyre::spawn(executor, sleeps_for(1h, done));
//     executor.run_all();
//     executor.advance(1h);  // at once
#pragma once

#include <gyre/base/clock.hpp>
#include <gyre/base/duration.hpp>
#include <gyre/base/intrusive_queue.hpp>
#include <gyre/base/operation.hpp>
#include <gyre/base/timer_operation.hpp>
#include <gyre/base/timer_wheel.hpp>
#include <gyre/task/detail/nested_run.hpp>
#include <gyre/task/executor.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <random>

namespace gyre::testing {

/// Runs operations on the thread that calls run_one(), run_all() or advance(): in the order of
/// their posts or, if constructed with a seed, in a pseudo-random order, which is the same on every
/// machine. Operations left at the end are not run.
///
/// Thread-safety: one thread, except for post(), running_here(), now(), pending() and posts().
/// Lifetime: must outlive the coroutines that it runs; a coroutine that is still suspended at its
/// destruction must not be resumed.
/// Errors: exceptions of operations and timers leave the function that runs them.
/// Complexity: allocates nothing. With a seed, each operation costs O(pending()).
class manual_executor final : public executor, public timer_service {
 public:
  /// Constructs an executor that runs operations in the order of their posts.
  manual_executor() = default;
  /// Constructs an executor that runs operations in a pseudo-random order.
  explicit manual_executor(std::uint64_t seed) : random_(seed) {}
  manual_executor(const manual_executor&) = delete;
  manual_executor& operator=(const manual_executor&) = delete;

  void post(operation& op) noexcept override {
    const std::lock_guard lock(mutex_);
    queue_.push_back(op);
    ++queued_count_;
    ++posts_;
  }
  bool running_here() const noexcept override { return innermost_run_.load() == current_run(); }
  timer_service* timers() noexcept override { return this; }

  void start_timer(timer_operation& timer, steady_time deadline) noexcept override {
    wheel_.start(timer, deadline);
  }
  bool cancel_timer(timer_operation& timer) noexcept override { return wheel_.cancel(timer); }
  steady_time now() const noexcept override {
    return steady_time{std::chrono::nanoseconds{since_epoch_.load()}};
  }

  /// Runs the oldest operation or, with a seed, any operation. Returns false if there is none.
  bool run_one() {
    operation* const front = take();
    if (front == nullptr) return false;
    run_here([&] { front->execute(); });
    return true;
  }
  /// Runs operations, including those that they post, until none is left; returns their number.
  std::size_t run_all() {
    std::size_t run_count = 0;
    while (run_one()) ++run_count;
    return run_count;
  }
  /// Advances the time by `length`: runs all operations, then expires each timer that is due
  /// meanwhile at its own time, followed by the operations pending then. Returns the number of
  /// expired timers.
  std::size_t advance(duration length) {
    const steady_time end = gyre::detail::later(now(), length);
    // Timers expire at the end of their tick.
    const steady_time last_tick = gyre::detail::later(end, gyre::detail::timer_wheel::tick_length);
    std::size_t expired_count = 0;
    run_all();
    for (auto wakeup = wheel_.next_wakeup(); wakeup && *wakeup < last_tick;
         wakeup = wheel_.next_wakeup()) {
      expired_count += expire_at(*wakeup);
      run_all();
    }
    set_time(end);
    return expired_count;
  }
  /// Advances the time to the earliest deadline of a timer, and expires that timer alone. Runs no
  /// operation. Returns false if no timer is started that can expire (steady_time::max() never
  /// does).
  bool expire_next() {
    for (auto wakeup = wheel_.next_wakeup(); wakeup; wakeup = wheel_.next_wakeup()) {
      if (*wakeup == steady_time::max()) return false;
      if (expire_at(*wakeup) > 0) return true;
    }
    return false;
  }

  /// The number of pending operations.
  std::size_t pending() const {
    const std::lock_guard lock(mutex_);
    return queued_count_;
  }
  /// The number of operations posted so far.
  std::size_t posts() const {
    const std::lock_guard lock(mutex_);
    return posts_;
  }
  /// The number of started timers.
  std::size_t timers_pending() const noexcept { return wheel_.size(); }

 private:
  operation* take() {
    const std::lock_guard lock(mutex_);
    if (queued_count_ == 0) return nullptr;
    for (std::size_t skip_count = random_ ? (*random_)() % queued_count_ : 0; skip_count > 0;
         --skip_count) {
      queue_.push_back(*queue_.pop_front());
    }
    --queued_count_;
    return queue_.pop_front();
  }
  template <class Function>
  void run_here(Function&& function) {
    struct scope {
      explicit scope(std::atomic<const void*>& innermost) noexcept
          : running_in(innermost), outer_run(running_in.exchange(&run)) {}
      scope& operator=(scope&&) = delete;
      ~scope() { running_in = outer_run; }
      std::atomic<const void*>& running_in;
      const void* const outer_run;
      gyre::detail::nested_run run;
    };
    const scope run_scope(innermost_run_);
    function();
  }
  // Advances the wheel to `time`, which expires one timer, or none if the timers of a slot had to
  // be sorted into finer slots first.
  std::size_t expire_at(steady_time time) {
    return wheel_.advance(time, 1, [this](gyre::detail::timer_node& node) {
      set_time(node.deadline());
      run_here([&] { static_cast<timer_operation&>(node).expire(); });
    });
  }
  void set_time(steady_time time) noexcept {
    since_epoch_ = std::max(since_epoch_.load(), time.time_since_epoch().count());
  }

  // The start is an odd time, because no test should depend on a start that is aligned to the
  // timing wheel.
  static constexpr std::chrono::nanoseconds start{3'600'000'000'357};

  mutable std::mutex mutex_;
  std::optional<std::mt19937_64> random_;
  intrusive_queue<operation> queue_;
  std::size_t queued_count_ = 0;
  std::size_t posts_ = 0;
  std::atomic<const void*> innermost_run_{nullptr};  // the innermost run_here(); null outside of it
  std::atomic<std::chrono::nanoseconds::rep> since_epoch_{start.count()};
  gyre::detail::timer_wheel wheel_{steady_time{start}};
};

}  // namespace gyre::testing
