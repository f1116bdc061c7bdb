// SPDX-License-Identifier: Apache-2.0
// capacity: a fair counting semaphore of the slots in which a pool's tasks may wait.
#pragma once

#include <gyre/base/atomic.hpp>
#include <gyre/base/cache_line.hpp>
#include <gyre/base/clock.hpp>
#include <gyre/base/detail/futex.hpp>
#include <gyre/base/intrusive_list.hpp>
#include <gyre/sync/detail/spin_lock.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <utility>

namespace gyre::detail {

/// The answer to a request for a slot.
enum class admission_result : std::uint8_t {
  granted,
  must_wait,  ///< no slot is free, and the caller is to queue for one
  full,       ///< no slot is free, and the caller does not wait
  timed_out,  ///< no slot became free before the deadline
  closed,     ///< the pool accepts no more tasks
  slotless,   ///< the task waits without a slot
  run_here,   ///< the submitter runs the task
};

/// A node of the queue. Stays where it is until its wait is over.
class slot_waiter : public intrusive_list_node {
 public:
  using function = void (*)(slot_waiter&) noexcept;

  /// Takes up to `most` slots where many are free. `wake` is called once, without a lock, at the
  /// end of a wait that was not cancelled; from then on the waiter may be gone.
  explicit slot_waiter(function wake, std::size_t most = 1) noexcept : wake_(wake), most_(most) {}

  /// After the wait: how many slots the waiter has; none if it was closed or cancelled.
  [[nodiscard]] std::size_t granted() const noexcept { return granted_; }
  /// After the wait.
  [[nodiscard]] bool is_cancelled() const noexcept { return stage_ == stage::cancelled; }

 private:
  template <typename>
  friend class basic_capacity;
  enum class stage : std::uint8_t { idle, queued, done, cancelled };

  const function wake_;
  const std::size_t most_;
  // By the lock of the capacity, until the wait is over.
  std::size_t granted_ = 0;
  stage stage_ = stage::idle;
};

/// futex(2) between the threads of one process, and the clock of its deadlines.
struct capacity_futex {
  using word = atomic<std::uint32_t>;
  /// Unless `on` has another value than `expected`, waits for wake(), a signal or `deadline`; may
  /// return for no reason.
  static void wait(const word& on, std::uint32_t expected, steady_time deadline) noexcept {
    futex_wait_until(on, expected, deadline);
  }
  /// Wakes the thread that waits on a word, which may be gone by now.
  static void wake(const word* on) noexcept { futex_wake_one(on); }
  static steady_time now() noexcept { return monotonic_now(); }
};

/// Fair: a request that finds no slot queues, and while there is a queue free slots are for it
/// alone, so that no later request overtakes. The count and whether there is a queue share one
/// word: a release learns from the word it changed whether to serve a waiter, and needs no fence to
/// be seen by a thread that is about to wait.
///
/// From `wide` slots on, a queue of threads is served when half of the slots are free: they then
/// have work for a while, and a system call pays for thousands of tasks. Meanwhile each thread
/// looks again by itself, at growing intervals, and the queue is served then. Where a coroutine
/// waits, which cannot look, the queue is served with every slot.
///
/// Thread-safety: all members may be called from any thread.
template <typename Futex = capacity_futex>
class basic_capacity {
 public:
  static constexpr std::size_t wide = 4096;
  static constexpr std::chrono::milliseconds shortest_sleep{2};
  static constexpr std::chrono::milliseconds longest_sleep{64};

  /// The end of wait_until(), and how many slots the caller has now.
  struct grant {
    admission_result result;
    std::size_t slots = 0;
  };
  enum class enqueue_result : std::uint8_t { granted, waits, closed, cancelled };

  /// All slots are free.
  explicit basic_capacity(std::size_t limit) noexcept
      : state_(std::min(limit, max_slots) * one_slot), limit_(std::min(limit, max_slots)) {}

  [[nodiscard]] std::size_t limit() const noexcept { return limit_; }
  /// How many are free at the moment.
  [[nodiscard]] std::size_t free() const noexcept {
    return free_in(state_.load(std::memory_order_relaxed));  // relaxed: a statistic
  }
  /// How many a thread that pays per visit should take and release at a time: a 256th of the
  /// limit, 64 at most, so that a small limit is exact.
  [[nodiscard]] std::size_t chunk() const noexcept {
    return std::clamp<std::size_t>(limit_ / 256, 1, 64);
  }
  /// Whether a waiter needs each slot to be released at once.
  [[nodiscard]] bool is_urgent() const noexcept {
    return urgent_.load(std::memory_order_relaxed);  // relaxed: a hint
  }

  /// Takes `wanted` slots, or none and returns false if fewer are free or there is a queue.
  [[nodiscard]] bool try_acquire(std::size_t wanted) noexcept {
    return acquire_between(wanted, wanted, has_waiters) == wanted;
  }
  /// Takes as many as are free, at most `most`; returns how many. None if there is a queue.
  [[nodiscard]] std::size_t try_acquire_some(std::size_t most) noexcept {
    return acquire_between(1, most, has_waiters);
  }

  /// One atomic addition, and wake-ups if there is a queue.
  void release(std::size_t slots) noexcept {
    // release: pairs with the acquire in acquire_between().
    const word before = state_.fetch_add(slots * one_slot, std::memory_order_release);
    if ((before & has_waiters) != 0 && is_due(before, slots)) [[unlikely]]
      serve_waiters();
  }

  /// Puts `waiter` at the end of the queue: `waits`, and from now on it may be gone. Or its wait is
  /// over at once.
  enqueue_result enqueue(slot_waiter& waiter, bool urgently = true) noexcept {
    waiter_list done;
    enqueue_result result = enqueue_result::waits;
    {
      const std::lock_guard hold(waiters_lock_);
      if (waiter.is_cancelled()) return enqueue_result::cancelled;
      if (is_closed_) return enqueue_result::closed;
      waiters_.push_back(waiter);
      waiter.stage_ = slot_waiter::stage::queued;
      // relaxed, here and below: a release that sees the flag takes the lock, and comes after us;
      // an earlier one is seen by serve().
      state_.fetch_or(urgently ? has_waiters | serves_singly : has_waiters,
                      std::memory_order_relaxed);
      if (urgently) urgent_.store(true, std::memory_order_relaxed);
      serve(done);
      if (waiter.granted_ > 0) {
        waiter.unlink();
        result = enqueue_result::granted;
      }
    }
    wake(done);
    return result;
  }
  /// Ends a wait, begun or not, without a slot. True: it was queued, and no other thread wakes it.
  bool cancel(slot_waiter& waiter) noexcept {
    const std::lock_guard hold(waiters_lock_);
    if (waiter.stage_ == slot_waiter::stage::done) return false;
    waiter.unlink();
    if (waiters_.empty()) clear_waiter_flags();
    return std::exchange(waiter.stage_, slot_waiter::stage::cancelled) ==
           slot_waiter::stage::queued;
  }

  /// Blocks until there are slots, `most` if many are free, or close() is called (closed), or until
  /// `deadline`. Calls `reclaim` now and then, which may release slots of threads that have ended.
  template <typename Reclaim>
  grant wait_until(steady_time deadline, std::size_t most, Reclaim&& reclaim) noexcept {
    if (const std::size_t taken = try_acquire_some(portion(free(), most)); taken > 0)
      return {admission_result::granted, taken};
    sleeper self(most);
    switch (enqueue(self, limit_ < wide)) {
      case enqueue_result::granted: return {admission_result::granted, self.granted()};
      case enqueue_result::waits: break;
      default: return {admission_result::closed};
    }
    std::chrono::nanoseconds patience = shortest_sleep;
    while (!self.is_awake()) {
      const steady_time now = Futex::now();
      if (now >= deadline && cancel(self)) return {admission_result::timed_out};
      Futex::wait(self.awake, 0, std::max(now, std::min(deadline, later(now, patience))));
      if (self.is_awake()) break;
      reclaim();
      serve_waiters(true);
      patience = std::min<std::chrono::nanoseconds>(2 * patience, longest_sleep);
    }
    if (self.granted() == 0) return {admission_result::closed};
    return {admission_result::granted, self.granted()};
  }

  /// Ends all waits: from now on a request ends with `closed` if no slot is free.
  void close() noexcept {
    waiter_list done;
    {
      const std::lock_guard hold(waiters_lock_);
      is_closed_ = true;
      while (slot_waiter* const each = waiters_.pop_front()) complete(*each, 0, done);
      clear_waiter_flags();
    }
    wake(done);
  }

 private:
  using word = std::uint64_t;
  using waiter_list = intrusive_list<slot_waiter>;
  static constexpr word has_waiters = 1;    // slots are for the queue alone
  static constexpr word serves_singly = 2;  // with every slot
  static constexpr word one_slot = word{1} << 24;
  static constexpr std::size_t max_slots = std::size_t{1} << 39;

  // A thread that waits.
  struct sleeper : slot_waiter {
    explicit sleeper(std::size_t most) noexcept : slot_waiter(&wake, most) {}
    // acquire: pairs with the release in wake().
    bool is_awake() const noexcept { return awake.load(std::memory_order_acquire) != 0; }
    static void wake(slot_waiter& waiter) noexcept {
      typename Futex::word* const on = &static_cast<sleeper&>(waiter).awake;
      on->store(1, std::memory_order_release);
      Futex::wake(on);
    }
    typename Futex::word awake{0};
  };

  static constexpr std::size_t free_in(word state) noexcept { return state / one_slot; }
  // Few when few are free, or threads that submit seldom would hold the slots that others need.
  static constexpr std::size_t portion(std::size_t free, std::size_t most) noexcept {
    return std::clamp<std::size_t>(free / 64, 1, most);
  }

  [[nodiscard]] std::size_t acquire_between(std::size_t least, std::size_t most,
                                            word unless) noexcept {
    word seen = state_.load(std::memory_order_relaxed);  // relaxed: confirmed by the exchange
    for (;;) {
      const std::size_t taken = std::min(free_in(seen), most);
      if (taken < least || (seen & unless) != 0) return 0;
      // acquire: pairs with the release in release(). relaxed on failure: tried again.
      if (state_.compare_exchange_weak(seen, seen - taken * one_slot, std::memory_order_acquire,
                                       std::memory_order_relaxed)) {
        return taken;
      }
    }
  }

  // Only the queue takes slots, so half is reached once.
  bool is_due(word before, std::size_t released) const noexcept {
    const std::size_t half = limit_ / 2;
    const std::size_t free_before = free_in(before);
    return (before & serves_singly) != 0 || (free_before < half && free_before + released >= half);
  }

  [[gnu::noinline]] void serve_waiters(bool urgently = false) noexcept {
    waiter_list done;
    {
      const std::lock_guard hold(waiters_lock_);
      serve(done);
      if (urgently && !waiters_.empty()) urgent_.store(true, std::memory_order_relaxed);
    }
    wake(done);
  }

  // The next three with the lock.
  void serve(waiter_list& done) noexcept {
    while (!waiters_.empty()) {
      slot_waiter& first = waiters_.front();
      const std::size_t taken = acquire_between(1, portion(free(), first.most_), 0);
      if (taken == 0) return;
      first.unlink();
      complete(first, taken, done);
    }
    clear_waiter_flags();
  }
  static void complete(slot_waiter& waiter, std::size_t granted, waiter_list& done) noexcept {
    waiter.granted_ = granted;
    waiter.stage_ = slot_waiter::stage::done;
    done.push_back(waiter);
  }
  void clear_waiter_flags() noexcept {
    state_.fetch_and(~(has_waiters | serves_singly), std::memory_order_relaxed);
    urgent_.store(false, std::memory_order_relaxed);
  }

  static void wake(waiter_list& done) noexcept {
    while (slot_waiter* const each = done.pop_front()) each->wake_(*each);
  }

  alignas(false_sharing_range) atomic<word> state_;
  // Written only while there is a queue.
  alignas(false_sharing_range) const std::size_t limit_;
  atomic<bool> urgent_{false};
  bool is_closed_ = false;  // by the lock, as the queue
  spin_lock waiters_lock_;
  waiter_list waiters_;
};

using capacity = basic_capacity<>;

}  // namespace gyre::detail
