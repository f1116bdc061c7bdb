// SPDX-License-Identifier: Apache-2.0
// idle_workers: an eventcount on which the workers of a pool sleep; it counts the workers that
// search for work. Sources: the searching workers of Tokio's and Go's schedulers (Vyukov, 2012);
// the eventcount of Eigen's thread pool (Vyukov, 2016); the fences are those of sleep_gate.hpp.
#pragma once

#include <gyre/base/atomic.hpp>
#include <gyre/base/cache_line.hpp>
#include <gyre/base/clock.hpp>
#include <gyre/base/fence.hpp>
#include <gyre/base/intrusive_list.hpp>

#include <cstddef>
#include <cstdint>
#include <mutex>

namespace gyre::detail {

/// The word on which one worker sleeps.
///
/// Thread-safety: belongs to one thread.
/// Lifetime: must outlive its thread's calls of idle_workers::park().
class parker : private intrusive_list_node {
 public:
  /// Whether the worker is counted as searching.
  [[nodiscard]] bool is_searching() const noexcept { return is_searching_; }

 private:
  friend class idle_workers;
  friend class intrusive_list<parker>;

  gyre::detail::atomic<std::uint32_t> wake_word_{0};  // a futex; 1 once the worker was notified
  bool is_searching_ = false;
};

/// The protocol: a worker that runs out of work calls start_searching() and searches all queues;
/// then it calls end_search() if it found work, otherwise park(). A worker that retires calls
/// end_search(), so that a wake-up sent to it is not lost. A thread that has made work visible to
/// the workers calls notify().
///
/// While a worker searches, notify() wakes no other: the searcher finds the work, at the latest by
/// the last check in park(). In return, the last searcher that finds work wakes the next worker,
/// because there may be more work. So k pieces of work wake k workers, with one system call each.
///
/// The fences are those of sleep_gate: first full ones on both sides. After many notifications
/// during which no worker fell asleep, the workers count as busy: then notify() uses the light
/// fence, and a worker that falls asleep uses the heavy one. The busy state ends when the last
/// worker falls asleep, and at every 64th sleep.
///
/// Thread-safety: functions with a parker are called by its worker, all others by any thread.
class idle_workers {
 public:
  static constexpr std::uint32_t default_busy_threshold = full_fences_per_heavy_one;

  /// For a pool of `workers` workers, at most 65535. They count as busy after `busy_threshold`
  /// notifications without a sleep.
  explicit idle_workers(std::size_t workers,
                        std::uint32_t busy_threshold = default_busy_threshold) noexcept
      : busy_threshold_(busy_threshold) {
    resize(workers);
  }

  /// Allows half of `workers`, but at least two, to search at the same time.
  void resize(std::size_t workers) noexcept {
    // relaxed: the limit may take effect later.
    workers_.store(static_cast<std::uint32_t>(workers), std::memory_order_relaxed);
  }

  /// Call after making work visible. Wakes one sleeper, which becomes a searcher, unless a worker
  /// is searching. If several threads notify at the same time, only one of them wakes a worker.
  ///
  /// Complexity: a load if no worker sleeps, a read-modify-write if one searches, else a lock and a
  /// system call; also a full fence while the workers are not busy.
  void notify() noexcept {
    asymmetric_light_fence();
    // relaxed: the fences order the state.
    const std::uint64_t state = state_.load(std::memory_order_relaxed);
    if ((state & busy) != 0 && sleepers_in(state) == 0) [[likely]]
      return;
    notify_slowly(state);
  }

  /// Wakes all sleepers, which become searchers, after a change that concerns every worker.
  void notify_all() noexcept;

  /// Makes the worker a searcher. Returns false if enough others search: then the worker should
  /// park.
  bool start_searching(parker& self) noexcept;

  /// Ends the worker's search, if it is a searcher. The last searcher wakes another worker.
  void end_search(parker& self) noexcept {
    if (stop_searching(self)) wake_one();
  }

  /// Ends the worker's search, if it is a searcher. The last searcher wakes a sleeping worker if
  /// `has_more()`, which sees the work of every notifier that relied on this searcher. So a single
  /// task does not wake a second worker.
  template <class HasMore>
  void end_search(parker& self, HasMore&& has_more) noexcept {
    if (stop_searching(self) && has_more()) wake_one();
  }

  /// Sleeps until notified or until `deadline`, unless `has_work()`, which is called after the
  /// worker was counted as a sleeper and no longer as a searcher. Returns true if it was notified
  /// or there is work: the worker is then a searcher. Returns false if the deadline has passed: the
  /// worker is then no searcher. The worker that fell asleep last is woken first.
  ///
  /// Complexity: a full fence, or a heavy one while the workers are busy; a system call to sleep.
  template <class HasWork>
  [[nodiscard]] bool park(parker& self, HasWork&& has_work,
                          steady_time deadline = steady_time::max()) noexcept {
    add_sleeper(self) ? asymmetric_heavy_fence() : full_fence();
    if (has_work()) {
      remove_sleeper(self, true);
    } else if (!sleep(self, deadline)) {
      remove_sleeper(self, false);
    }
    return self.is_searching_;
  }

  /// The numbers of workers that sleep and that search; exact while nothing changes.
  [[nodiscard]] std::size_t sleepers() const noexcept {
    // relaxed: the state is read as a statistic.
    return sleepers_in(state_.load(std::memory_order_relaxed));
  }
  [[nodiscard]] std::size_t searchers() const noexcept {
    // relaxed: the state is read as a statistic.
    return searchers_in(state_.load(std::memory_order_relaxed));
  }
  [[nodiscard]] bool are_busy() const noexcept {
    // relaxed: the state is read as a statistic.
    return (state_.load(std::memory_order_relaxed) & busy) != 0;
  }
  /// The number of sleeps that were ended by a notification.
  [[nodiscard]] std::uint64_t wakes() const noexcept {
    return wakes_.load(std::memory_order_relaxed);  // relaxed: the counter is a statistic
  }

 private:
  // The layout of state_: the number of sleepers in the low 32 bits, the number of searchers in the
  // next 31 bits, and in the top bit whether the workers are busy.
  static constexpr std::uint64_t sleeper = 1;
  static constexpr std::uint64_t searcher = std::uint64_t{1} << 32;
  static constexpr std::uint64_t busy = std::uint64_t{1} << 63;
  static constexpr std::uint64_t sleepers_in(std::uint64_t state) noexcept {
    return state % searcher;
  }
  static constexpr std::uint64_t searchers_in(std::uint64_t state) noexcept {
    return (state & ~busy) / searcher;
  }
  static constexpr bool needs_searcher(std::uint64_t state) noexcept {
    return sleepers_in(state) != 0 && searchers_in(state) == 0;
  }

  void notify_slowly(std::uint64_t state) noexcept;
  std::uint64_t state_while_not_busy() noexcept;
  parker& pop_sleeper() noexcept;
  void wake_one() noexcept;
  bool stop_searching(parker& self) noexcept;
  bool add_sleeper(parker& self) noexcept;
  bool sleep(parker& self, steady_time deadline) noexcept;
  void remove_sleeper(parker& self, bool becomes_searcher) noexcept;

  alignas(false_sharing_range) gyre::detail::atomic<std::uint64_t> state_{0};
  // The notifications since the last sleep, approximately.
  gyre::detail::atomic<std::uint32_t> notifications_{0};
  gyre::detail::atomic<std::uint32_t> workers_{0};
  const std::uint32_t busy_threshold_;

  alignas(false_sharing_range) std::mutex mutex_;
  // The members below are protected by mutex_; wakes_ may be read without it.
  intrusive_list<parker> sleepers_;  // the worker that fell asleep last comes first
  unsigned parks_ = 0;
  gyre::detail::atomic<std::uint64_t> wakes_{0};
};

}  // namespace gyre::detail
