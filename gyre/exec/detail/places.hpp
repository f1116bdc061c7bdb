// SPDX-License-Identifier: Apache-2.0
// The bound of a pool: how many tasks may wait, as places that are taken and given back.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include <gyre/base/atomic.hpp>
#include <gyre/base/cache_line.hpp>
#include <gyre/base/clock.hpp>

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
  /// Unless `round` has another value than `expected`, waits for wake(), a signal or `deadline`, or
  /// returns for no reason.
  static void wait(const word& round, std::uint32_t expected, steady_time deadline) noexcept;
  /// Wakes at most `most` threads that wait.
  static void wake(const word& round, std::size_t most) noexcept;
  static steady_time now() noexcept { return monotonic_now(); }
};

/// A counted capacity. All members may be called from any thread.
///
/// The count and how many are blocked share one word: who gives back learns from the word it
/// changed whether there is anyone to wake, and needs no fence to be seen by who is about to sleep.
/// From `wide` places on, blocked threads are woken once half of the places are free: they then
/// have work for a while, and a system call pays for thousands of tasks. Between times each looks
/// again by itself, at growing intervals, since places may come free that nobody gives back here.
template <typename Futex = places_futex>
class basic_places {
 public:
  static constexpr std::size_t wide = 4096;
  static constexpr std::chrono::milliseconds shortest_sleep{2};
  static constexpr std::chrono::milliseconds longest_sleep{64};

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

  /// Takes `wanted` places, or none and returns false if fewer are free.
  [[nodiscard]] bool take(std::size_t wanted) noexcept {
    return take_between(wanted, wanted) == wanted;
  }
  /// Takes as many as are free, at most `most`; returns how many.
  [[nodiscard]] std::size_t take_some(std::size_t most) noexcept { return take_between(1, most); }

  /// One atomic addition, and a system call if there are threads to wake.
  void give_back(std::size_t returned) noexcept {
    // release: pairs with the acquire in take_between(); who takes a place comes after who left it.
    // acquire: pairs with the release in announce().
    const word before = state_.fetch_add(returned * one_place, std::memory_order_acq_rel);
    if ((before & all_blocked) != 0) [[unlikely]]
      wake_blocked(free_in(before), returned);
  }

  /// Calls `attempt`, which takes a place if one is free and returns whether it did, at once and
  /// whenever there may be one, until it returns true (granted), close() is called, or `deadline`.
  template <typename Attempt>
  admission wait_until(steady_time deadline, Attempt&& attempt) {
    std::chrono::nanoseconds patience = shortest_sleep;
    while (!attempt()) {
      // relaxed: the release in announce() keeps it in front.
      const std::uint32_t round = round_.load(std::memory_order_relaxed);
      if (is_closed()) return admission::closed;
      const steady_time now = Futex::now();
      if (now >= deadline) return admission::timed_out;
      if (!announce()) continue;
      Futex::wait(round_, round, std::min(deadline, later(now, patience)));
      // relaxed: a number; and a read-modify-write does not end the release sequences in the word.
      state_.fetch_sub(one_blocked, std::memory_order_relaxed);
      patience = std::min<std::chrono::nanoseconds>(2 * patience, longest_sleep);
    }
    return admission::granted;
  }

  /// From now on nobody waits: wait_until() that finds no place returns closed, also where it waits
  /// already. Free places can still be taken.
  void close() noexcept {
    // acquire: pairs with the release in announce().
    state_.fetch_or(closed, std::memory_order_acquire);
    begin_round(everybody);
  }

 private:
  using word = std::uint64_t;
  static constexpr word closed = 1;
  static constexpr word one_blocked = 2;  // may sleep, or is about to
  static constexpr word one_place = word{1} << 24;
  static constexpr word all_blocked = one_place - one_blocked;
  static constexpr std::size_t most_places = std::size_t{1} << 39;
  static constexpr std::size_t everybody = one_place;

  static constexpr std::size_t free_in(word state) noexcept { return state / one_place; }

  bool is_closed() const noexcept {
    // relaxed: whoever misses it does not pass announce().
    return (state_.load(std::memory_order_relaxed) & closed) != 0;
  }

  [[nodiscard]] std::size_t take_between(std::size_t least, std::size_t most) noexcept {
    word seen = state_.load(std::memory_order_relaxed);  // relaxed: confirmed by the exchange
    for (;;) {
      const std::size_t taken = std::min(free_in(seen), most);
      if (taken < least) return 0;
      // acquire: pairs with the release in give_back(). relaxed on failure: tried again.
      if (state_.compare_exchange_weak(seen, seen - taken * one_place, std::memory_order_acquire,
                                       std::memory_order_relaxed)) {
        return taken;
      }
    }
  }

  // Counts the caller among those who sleep, unless there is reason not to.
  [[nodiscard]] bool announce() noexcept {
    word seen = state_.load(std::memory_order_relaxed);  // relaxed: confirmed by the exchange
    while (free_in(seen) == 0 && (seen & closed) == 0) {
      // release: pairs with the acquire in give_back() and close(): the round that we have read is
      // older than the one begun there. relaxed on failure: tried again.
      if (state_.compare_exchange_weak(seen, seen + one_blocked, std::memory_order_release,
                                       std::memory_order_relaxed)) {
        return true;
      }
    }
    return false;
  }

  void wake_blocked(std::size_t free_before, std::size_t returned) noexcept {
    if (capacity_ < wide) {
      // One for each place; who is on its way already does not count.
      begin_round(returned);
    } else if (const std::size_t half = capacity_ / 2;
               free_before < half && free_before + returned >= half) {
      // All of them fell asleep when nothing was free, so none of them has missed this moment.
      begin_round(everybody);
    }
  }

  // Keeps those from sleeping who have not fallen asleep yet, and wakes at most `most` who have.
  void begin_round(std::size_t most) noexcept {
    // relaxed: who reads it only compares, and takes places by the other word.
    round_.fetch_add(1, std::memory_order_relaxed);
    Futex::wake(round_, most);
  }

  alignas(false_sharing_range) atomic<word> state_;
  alignas(false_sharing_range) atomic<std::uint32_t> round_{0};
  const std::size_t capacity_;
};

using places = basic_places<>;

}  // namespace gyre::detail
