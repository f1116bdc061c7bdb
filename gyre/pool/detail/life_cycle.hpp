// SPDX-License-Identifier: Apache-2.0
// life_cycle: the state of a pool, in one word that its workers read between two tasks.
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
/// Drained pools go from closed to ended once they are idle; drop() follows where the grace of a
/// stop has passed. Beside the state a flag says that there are more workers than wanted.
///
/// Thread-safety: all members may be called from any thread.
class life_cycle {
 public:
  bool is_paused() const noexcept { return has(paused); }
  bool is_closed() const noexcept { return has(closed); }
  bool is_dropping() const noexcept { return has(dropping); }
  bool has_ended() const noexcept { return has(ended); }
  /// Whether a worker's own tasks are refused.
  bool refuses_all() const noexcept { return has(dropping | ended); }
  /// Whether a worker calls pool_worker::handle_state() before its next task.
  bool concerns_workers() const noexcept { return has(paused | surplus | ended); }
  /// Whether a worker wakes up without work.
  bool concerns_sleepers() const noexcept { return has(paused | ended); }
  /// Whether the pool had ended before the calling thread's last store, which is fenced here.
  bool ended_meanwhile() const noexcept {
    asymmetric_light_fence();  // pairs with the heavy one after end()
    return (word_.load(std::memory_order_relaxed) & ended) != 0;
  }

  /// Returns false, without an effect, if the pool is closed.
  bool pause() noexcept {
    if (!is_closed()) raise(paused);
    if (!is_closed()) return true;
    resume();  // close() has looked for the flag already, or finds none
    return false;
  }
  void resume() noexcept { lower(paused); }
  void close() noexcept { close_with(closed); }
  void close_and_drop() noexcept { close_with(closed | dropping); }
  void drop() noexcept { raise(dropping); }
  void end() noexcept { raise(ended); }
  void set_surplus(bool is_surplus) noexcept { is_surplus ? raise(surplus) : lower(surplus); }

  /// The whole state, with which to wait for its next change; the wait may return for no reason.
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
    return word_.load(std::memory_order_acquire);  // pairs with raise() and lower()
  }
  bool has(std::uint32_t flags) const noexcept { return (load() & flags) != 0; }
  void close_with(std::uint32_t flags) noexcept {
    raise(flags);
    lower(paused);
  }
  void raise(std::uint32_t flags) noexcept {
    word_.fetch_or(flags, std::memory_order_seq_cst);
    word_.notify_all();
  }
  void lower(std::uint32_t flags) noexcept {
    word_.fetch_and(~flags, std::memory_order_seq_cst);
    word_.notify_all();
  }

  std::atomic<std::uint32_t> word_{0};
};

}  // namespace gyre::detail
