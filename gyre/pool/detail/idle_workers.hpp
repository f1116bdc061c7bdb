// SPDX-License-Identifier: Apache-2.0
//
// Where the workers of a pool sleep, and how whoever has work for them knows that nobody need be
// woken: an eventcount that also counts the workers who are awake and looking. Sources: the
// searching workers of Tokio's and Go's schedulers (Vyukov, 2012); the eventcount of Eigen's thread
// pool (Vyukov, 2016); the fences are those of sleep_gate.hpp.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include <gyre/base/atomic.hpp>
#include <gyre/base/cache_line.hpp>
#include <gyre/base/clock.hpp>
#include <gyre/base/fence.hpp>
#include <gyre/base/intrusive_list.hpp>

namespace gyre::detail {

/// One worker's bed. Belongs to one thread; must outlive its stay in idle_workers::park().
class parker : private intrusive_list_node {
 public:
  /// Whether the worker counts as searching. Its own thread.
  [[nodiscard]] bool searching() const noexcept { return searching_; }

 private:
  friend class idle_workers;
  friend class intrusive_list<parker>;

  bool wait_until(steady_time deadline) noexcept;

  gyre::detail::atomic<std::uint32_t> notified_{0};  // a word for futex(2)
  bool searching_ = false;
};

/// What idle_workers has counted since it was made.
struct idle_counts {
  std::uint64_t parks = 0;  ///< how often a worker went to sleep
  std::uint64_t wakes = 0;  ///< how often a notification ended a sleep
};

/// The idle workers of one pool. A worker that runs out of work calls start_searching() and looks
/// everywhere; then found_work() if that was worth it, else park(). One that retires calls
/// found_work(), so that a wake-up it was sent is not lost with it. A thread that has made work
/// visible to the workers calls notify().
///
/// While somebody searches nobody is woken: the work is found by the searcher, or by the last look
/// it takes in park(). In return the last searcher that finds work has the next one woken, as there
/// may be more. So k pieces of work wake k workers, one after the other, with one system call each.
class idle_workers {
 public:
  /// For a pool of `workers` workers, at most 65535.
  explicit idle_workers(std::size_t workers) noexcept { resize(workers); }
  idle_workers(const idle_workers&) = delete;
  idle_workers& operator=(const idle_workers&) = delete;

  /// Lets half of `workers`, at least two, search at a time. Any thread.
  void resize(std::size_t workers) noexcept {
    // relaxed: a limit that is heeded a little later harms nobody.
    most_searchers_.store(static_cast<std::uint32_t>(std::max<std::size_t>(2, workers / 2)),
                          std::memory_order_relaxed);
  }

  /// After work was made visible: wakes one sleeper, which becomes a searcher, unless somebody
  /// searches already. Of several notifiers one wakes. Any thread. A load where nobody sleeps, a
  /// read-modify-write where somebody searches, else a lock and a system call.
  void notify() noexcept {
    asymmetric_light_fence();
    std::uint32_t state = state_.load(std::memory_order_relaxed);  // relaxed: ordered by the fences
    if (sleepers_in(state) == 0) [[likely]]
      return;
    // A searcher on whom it relies must not have stopped. acq_rel: pairs with that in
    // stop_searching(); who stops after this sees the work.
    if (searchers_in(state) != 0) state = state_.fetch_add(0, std::memory_order_acq_rel);
    if (needs_searcher(state)) wake_one();
  }

  /// Wakes all who sleep; all become searchers. For news that concern every worker, made visible
  /// before. Any thread.
  void notify_all() noexcept;

  /// Worker: whether it may look for work, which makes it a searcher. False if enough others do:
  /// then it parks. True if it is one already.
  bool start_searching(parker& me) noexcept;

  /// Worker: it has work and searches no longer. If no searcher is left, wakes the next one.
  /// Nothing if it was not searching.
  void found_work(parker& me) noexcept {
    if (stop_searching(me)) wake_one();
  }

  /// The same, but wakes another only if `has_more()`, which sees what every notifier that relied
  /// on this searcher has made visible: where a lone task is the rule, no second worker wakes for
  /// nothing. Not asked while nobody sleeps.
  template <class HasMore>
  void found_work(parker& me, HasMore&& has_more) noexcept {
    if (stop_searching(me) && has_more()) wake_one();
  }

  /// Worker: sleeps until notified or until `deadline`, unless `has_work()`, which is asked once
  /// more after the worker was counted as a sleeper (and no longer as a searcher). True: notified,
  /// or there is work; the worker is a searcher now. False: the deadline has passed; it is none.
  /// The last to lie down is the first to be woken. Costs a heavy fence, and a system call to
  /// sleep.
  template <class HasWork>
  [[nodiscard]] bool park(parker& me, HasWork&& has_work,
                          steady_time deadline = steady_time::max()) noexcept {
    lie_down(me);
    asymmetric_heavy_fence();
    if (has_work()) {
      get_up(me, true);
    } else if (!sleep(me, deadline)) {
      get_up(me, false);
    }
    return me.searching_;
  }

  /// How many sleep, and how many search, now. Any thread; exact while nothing changes.
  [[nodiscard]] std::size_t sleepers() const noexcept {
    return sleepers_in(state_.load(std::memory_order_relaxed));  // relaxed: statistics
  }
  [[nodiscard]] std::size_t searchers() const noexcept {
    return searchers_in(state_.load(std::memory_order_relaxed));  // relaxed: statistics
  }
  /// Any thread; each number by itself is exact.
  [[nodiscard]] idle_counts counts() const noexcept;

 private:
  // The state: sleepers in the lower half, searchers in the upper.
  static constexpr std::uint32_t sleeper = 1;
  static constexpr std::uint32_t searcher = 1U << 16;
  static constexpr std::uint32_t sleepers_in(std::uint32_t state) noexcept {
    return state % searcher;
  }
  static constexpr std::uint32_t searchers_in(std::uint32_t state) noexcept {
    return state / searcher;
  }
  static constexpr bool needs_searcher(std::uint32_t state) noexcept {
    return sleepers_in(state) != 0 && searchers_in(state) == 0;
  }

  parker& take_off() noexcept;
  void wake_one() noexcept;
  bool stop_searching(parker& me) noexcept;
  void lie_down(parker& me) noexcept;
  bool sleep(parker& me, steady_time deadline) noexcept;
  void get_up(parker& me, bool to_search) noexcept;

  alignas(false_sharing_range) gyre::detail::atomic<std::uint32_t> state_{0};
  gyre::detail::atomic<std::uint32_t> most_searchers_{1};

  alignas(false_sharing_range) std::mutex mutex_;
  intrusive_list<parker> beds_;  // of the sleepers, the last to lie down in front; by mutex_
  gyre::detail::atomic<std::uint64_t> parks_{0};
  gyre::detail::atomic<std::uint64_t> wakes_{0};
};

}  // namespace gyre::detail
