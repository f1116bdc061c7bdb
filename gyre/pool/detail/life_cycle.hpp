// SPDX-License-Identifier: Apache-2.0
// life_cycle: the state of a pool, in one word that its workers read before each task.
#pragma once

#include <gyre/base/fence.hpp>

#include <atomic>
#include <cstdint>

namespace gyre::detail {

///   state    | pause()  | resume() | close()  | drop()     | end()  | tasks from    | workers
///            |          |          |          |            |        | out-/inside   | start
///   ---------|----------|----------|----------|------------|--------|---------------|----------
///   open     | paused   | -        | closed   | dropping   | -      | taken, taken  | tasks
///   paused   | -        | open     | closed   | dropping   | -      | taken, taken  | none
///   closed   | -        | -        | -        | dropping   | ended  | refused, taken| tasks
///   dropping | -        | -        | -        | -          | ended  | refused       | operations
///   ended    | -        | -        | -        | -          | -      | refused       | none
///
/// drain() closes the pool and ends it once it is idle; stop() also calls drop() when its time
/// limit has passed. Beside the state, the flag `surplus` means that there are more workers than
/// the pool should have.
///
/// Thread-safety: all members may be called from any thread.
class life_cycle {
 public:
  bool is_paused() const noexcept { return has(paused); }
  bool is_closed() const noexcept { return has(closed); }
  bool is_dropping() const noexcept { return has(dropping); }
  bool has_ended() const noexcept { return has(ended); }
  /// Whether the pool refuses even tasks that its own workers submit.
  bool refuses_all() const noexcept { return has(dropping | ended); }
  /// Whether a worker must act on the state before its next task.
  bool concerns_workers() const noexcept { return has(paused | surplus | ended); }
  /// Whether a sleeping worker must wake up although there is no work.
  bool concerns_sleepers() const noexcept { return has(paused | ended); }
  /// Whether the pool has ended. The load has a fence before it, so that it follows the calling
  /// thread's stores.
  bool has_ended_after_store() const noexcept {
    asymmetric_light_fence();  // pairs with the heavy fence after end()
    return (word_.load(std::memory_order_relaxed) & ended) != 0;
  }

  /// Pauses the pool. Returns false, without an effect, if the pool is closed.
  bool pause() noexcept {
    if (!is_closed()) set_flags(paused);
    if (!is_closed()) return true;
    resume();  // close() may have cleared `paused` before it was set
    return false;
  }
  void resume() noexcept { clear_flags(paused); }
  void close() noexcept { close_with(closed); }
  void close_and_drop() noexcept { close_with(closed | dropping); }
  void drop() noexcept { set_flags(dropping); }
  void end() noexcept { set_flags(ended); }
  void set_surplus(bool is_surplus) noexcept {
    is_surplus ? set_flags(surplus) : clear_flags(surplus);
  }

  /// The state word, for wait_for_change(), which may also return without a change.
  std::uint32_t snapshot() const noexcept { return load(); }
  void wait_for_change(std::uint32_t snapshot) const noexcept {
    word_.wait(snapshot, std::memory_order_acquire);
  }

 private:
  static constexpr std::uint32_t paused = 1;
  static constexpr std::uint32_t surplus = 2;
  static constexpr std::uint32_t closed = 4;
  static constexpr std::uint32_t dropping = 8;
  static constexpr std::uint32_t ended = 16;

  std::uint32_t load() const noexcept {
    return word_.load(std::memory_order_acquire);  // pairs with set_flags() and clear_flags()
  }
  bool has(std::uint32_t flags) const noexcept { return (load() & flags) != 0; }
  void close_with(std::uint32_t flags) noexcept {
    set_flags(flags);
    clear_flags(paused);
  }
  void set_flags(std::uint32_t flags) noexcept {
    word_.fetch_or(flags, std::memory_order_seq_cst);
    word_.notify_all();
  }
  void clear_flags(std::uint32_t flags) noexcept {
    word_.fetch_and(~flags, std::memory_order_seq_cst);
    word_.notify_all();
  }

  std::atomic<std::uint32_t> word_{0};
};

}  // namespace gyre::detail
