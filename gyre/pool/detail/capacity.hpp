// SPDX-License-Identifier: Apache-2.0
// The bound of a pool: how many tasks may wait, as places that are taken and given back, and the
// line of those who wait for one.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include <gyre/base/atomic.hpp>
#include <gyre/base/cache_line.hpp>
#include <gyre/base/clock.hpp>
#include <gyre/base/intrusive_list.hpp>
#include <gyre/sync/detail/spin_lock.hpp>

namespace gyre::detail {

/// What became of a request for a place.
enum class admission : std::uint8_t {
  granted,
  full,       ///< there is none, and the caller did not want to wait
  timed_out,  ///< there was none until the deadline
  closed,     ///< nobody waits any more
};

/// futex(2), between the threads of one process, and the clock its deadlines are of.
struct places_futex {
  using word = atomic<std::uint32_t>;
  /// Unless `on` has another value than `expected`, waits for wake(), a signal or `deadline`, or
  /// returns for no reason.
  static void wait(const word& on, std::uint32_t expected, steady_time deadline) noexcept;
  /// Wakes the thread that waits on a word, which may be gone by now.
  static void wake(const word* on) noexcept;
  static steady_time now() noexcept { return monotonic_now(); }
};

/// A thread or a coroutine that waits for places. Stays where it is until its wait is over.
class place_waiter : public intrusive_list_node {
 public:
  using function = void (*)(place_waiter&) noexcept;

  /// Waits for a place, and takes up to `most` where there are plenty. `wake` is called once, when
  /// the wait is over and without a lock; from then on the waiter may be gone. Not when it left.
  explicit place_waiter(function wake, std::size_t most = 1) noexcept : wake_(wake), most_(most) {}

  /// After the wait: how many places it has got; none if nobody waits any more, or it has left.
  [[nodiscard]] std::size_t granted() const noexcept { return granted_; }
  /// After the wait: whether it has left.
  [[nodiscard]] bool has_left() const noexcept { return stage_ == stage::left; }

 private:
  template <typename>
  friend class basic_places;
  enum class stage : std::uint8_t { begun, in_line, over, left };

  const function wake_;
  const std::size_t most_;
  // By the lock of the places, until the wait is over.
  std::size_t granted_ = 0;
  stage stage_ = stage::begun;
};

/// A counted capacity. All members may be called from any thread.
///
/// Fair: who finds no place waits in line, and as long as there is a line nobody else is given a
/// place; so whoever waits is passed by nobody who comes later, however often they try. The count
/// and whether there is a line share one word: who gives back learns from the word it changed
/// whether to serve somebody, and needs no fence to be seen by who is about to wait.
///
/// From `wide` places on, a line of threads is served once half of the places are free: they then
/// have work for a while, and a system call pays for thousands of tasks. Between times each looks
/// again by itself, at growing intervals, and the line is served then; so places are that long for
/// the line alone. Where a coroutine waits, which cannot look, the line is served with every place.
template <typename Futex = places_futex>
class basic_places {
 public:
  static constexpr std::size_t wide = 4096;
  static constexpr std::chrono::milliseconds shortest_sleep{2};
  static constexpr std::chrono::milliseconds longest_sleep{64};

  /// What wait_until() gives: how it ended, and how many places the caller has now.
  struct grant {
    admission how;
    std::size_t places = 0;
  };
  /// What becomes of a waiter that enters the line.
  enum class entry : std::uint8_t { granted, waits, closed, left };

  /// All places are free.
  explicit basic_places(std::size_t capacity) noexcept
      : state_(std::min(capacity, most_places) * one_place),
        capacity_(std::min(capacity, most_places)) {}
  basic_places(const basic_places&) = delete;
  basic_places& operator=(const basic_places&) = delete;

  [[nodiscard]] std::size_t capacity() const noexcept { return capacity_; }
  /// How many are free at the moment.
  [[nodiscard]] std::size_t free() const noexcept {
    return free_in(state_.load(std::memory_order_relaxed));  // relaxed: a statistic
  }
  /// How many a thread that pays per visit should take and give back at a time: a 256th of the
  /// capacity, 64 at most, so that a small capacity is exact.
  [[nodiscard]] std::size_t chunk() const noexcept {
    return std::clamp<std::size_t>(capacity_ / 256, 1, 64);
  }
  /// Whether somebody waits for whom each place should be given back at once.
  [[nodiscard]] bool urgent() const noexcept {
    return urgent_.load(std::memory_order_relaxed);  // relaxed: a hint
  }

  /// Takes `wanted` places, or none and returns false if fewer are free or there is a line.
  [[nodiscard]] bool take(std::size_t wanted) noexcept {
    return take_between(wanted, wanted, has_line) == wanted;
  }
  /// Takes as many as are free, at most `most`; returns how many. None if there is a line.
  [[nodiscard]] std::size_t take_some(std::size_t most) noexcept {
    return take_between(1, most, has_line);
  }

  /// One atomic addition, and wake-ups if somebody waits.
  void give_back(std::size_t returned) noexcept {
    // release: pairs with the acquire in take_between(); who takes a place comes after who left it.
    const word before = state_.fetch_add(returned * one_place, std::memory_order_release);
    if ((before & has_line) != 0 && is_due(before, returned)) [[unlikely]]
      serve_line();
  }

  /// Puts `waiter` at the end of the line: `waits`, and from now on it may be gone. Or its wait is
  /// over at once.
  entry enter(place_waiter& waiter) noexcept { return enter(waiter, true); }
  /// Any thread, while the wait is not over or before it begins: ends it without a place. True: the
  /// waiter was in the line, and is not woken by others.
  bool leave(place_waiter& waiter) noexcept {
    const std::lock_guard hold(line_lock_);
    if (waiter.stage_ == place_waiter::stage::over) return false;
    waiter.unlink();
    if (line_.empty()) end_line();
    return std::exchange(waiter.stage_, place_waiter::stage::left) == place_waiter::stage::in_line;
  }

  /// Blocks until there are places, `most` if there are plenty, or close() is called (closed), or
  /// `deadline`. Calls `look` now and then, which may give back what nobody else does.
  template <typename Look>
  grant wait_until(steady_time deadline, std::size_t most, Look&& look) noexcept {
    if (const std::size_t taken = take_some(portion(free(), most)); taken > 0)
      return {admission::granted, taken};
    sleeper self(most);
    switch (enter(self, capacity_ < wide)) {
      case entry::granted: return {admission::granted, self.granted()};
      case entry::waits: break;
      default: return {admission::closed};
    }
    std::chrono::nanoseconds patience = shortest_sleep;
    while (!self.is_awake()) {
      const steady_time now = Futex::now();
      if (now >= deadline && leave(self)) return {admission::timed_out};
      Futex::wait(self.awake, 0, std::max(now, std::min(deadline, later(now, patience))));
      if (self.is_awake()) break;
      look();
      serve_line(true);
      patience = std::min<std::chrono::nanoseconds>(2 * patience, longest_sleep);
    }
    if (self.granted() == 0) return {admission::closed};
    return {admission::granted, self.granted()};
  }

  /// Ends all waits: from now on whoever finds no place is told closed. Free places can still be
  /// taken.
  void close() noexcept {
    line over;
    {
      const std::lock_guard hold(line_lock_);
      is_closed_ = true;
      while (place_waiter* const each = line_.pop_front()) end_wait(*each, 0, over);
      end_line();
    }
    wake(over);
  }

 private:
  using word = std::uint64_t;
  using line = intrusive_list<place_waiter>;
  static constexpr word has_line = 1;  // only the line is given places
  static constexpr word at_once = 2;   // as soon as there are any
  static constexpr word one_place = word{1} << 24;
  static constexpr std::size_t most_places = std::size_t{1} << 39;

  // A thread that waits.
  struct sleeper : place_waiter {
    explicit sleeper(std::size_t most) noexcept : place_waiter(&wake, most) {}
    // acquire: pairs with the release in wake().
    bool is_awake() const noexcept { return awake.load(std::memory_order_acquire) != 0; }
    static void wake(place_waiter& waiter) noexcept {
      typename Futex::word* const on = &static_cast<sleeper&>(waiter).awake;
      on->store(1, std::memory_order_release);
      Futex::wake(on);
    }
    typename Futex::word awake{0};
  };

  static constexpr std::size_t free_in(word state) noexcept { return state / one_place; }
  // Few of few, or threads that submit seldom would hold what others need.
  static constexpr std::size_t portion(std::size_t free, std::size_t most) noexcept {
    return std::clamp<std::size_t>(free / 64, 1, most);
  }

  [[nodiscard]] std::size_t take_between(std::size_t least, std::size_t most,
                                         word unless) noexcept {
    word seen = state_.load(std::memory_order_relaxed);  // relaxed: confirmed by the exchange
    for (;;) {
      const std::size_t taken = std::min(free_in(seen), most);
      if (taken < least || (seen & unless) != 0) return 0;
      // acquire: pairs with the release in give_back(). relaxed on failure: tried again.
      if (state_.compare_exchange_weak(seen, seen - taken * one_place, std::memory_order_acquire,
                                       std::memory_order_relaxed)) {
        return taken;
      }
    }
  }

  // Nobody but the line takes anything, so half is reached once.
  bool is_due(word before, std::size_t returned) const noexcept {
    const std::size_t half = capacity_ / 2;
    const std::size_t free_before = free_in(before);
    return (before & at_once) != 0 || (free_before < half && free_before + returned >= half);
  }

  entry enter(place_waiter& waiter, bool urgently) noexcept {
    line served;
    entry what = entry::waits;
    {
      const std::lock_guard hold(line_lock_);
      if (waiter.has_left()) return entry::left;
      if (is_closed_) return entry::closed;
      line_.push_back(waiter);
      waiter.stage_ = place_waiter::stage::in_line;
      // relaxed, here and below: who sees it takes the lock, and comes after us; who gave back
      // before is seen by serve().
      state_.fetch_or(urgently ? has_line | at_once : has_line, std::memory_order_relaxed);
      if (urgently) urgent_.store(true, std::memory_order_relaxed);
      serve(served);
      if (waiter.granted_ > 0) {
        waiter.unlink();
        what = entry::granted;
      }
    }
    wake(served);
    return what;
  }

  [[gnu::noinline]] void serve_line(bool urgently = false) noexcept {
    line served;
    {
      const std::lock_guard hold(line_lock_);
      serve(served);
      if (urgently && !line_.empty()) urgent_.store(true, std::memory_order_relaxed);
    }
    wake(served);
  }

  // The next three with the lock.
  void serve(line& served) noexcept {
    while (!line_.empty()) {
      place_waiter& first = line_.front();
      const std::size_t taken = take_between(1, portion(free(), first.most_), 0);
      if (taken == 0) return;
      first.unlink();
      end_wait(first, taken, served);
    }
    end_line();
  }
  static void end_wait(place_waiter& waiter, std::size_t granted, line& over) noexcept {
    waiter.granted_ = granted;
    waiter.stage_ = place_waiter::stage::over;
    over.push_back(waiter);
  }
  void end_line() noexcept {
    state_.fetch_and(~(has_line | at_once), std::memory_order_relaxed);
    urgent_.store(false, std::memory_order_relaxed);
  }

  static void wake(line& over) noexcept {
    while (place_waiter* const each = over.pop_front()) each->wake_(*each);
  }

  alignas(false_sharing_range) atomic<word> state_;
  // Written only where somebody waits.
  alignas(false_sharing_range) const std::size_t capacity_;
  atomic<bool> urgent_{false};
  bool is_closed_ = false;  // by the lock, as the line
  spin_lock line_lock_;
  line line_;
};

using places = basic_places<>;

}  // namespace gyre::detail
