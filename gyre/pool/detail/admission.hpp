// SPDX-License-Identifier: Apache-2.0
// admission: limits the tasks in a pool to its capacity, first come, first served, and applies
// thread_pool_options::when_full.
//
// A submission, from the request for a slot to the end of its task:
//
//                     a slot is free, and no one waits
//     submission ---------------------------------------------> waits with a slot
//         |                                                        |        |
//         | no slot: the chosen step                               |        | dropped by purge(),
//         |                                                        |        | stop(), drop_another
//         +- wait, suspend: joins the line ---> served in its -----+        |
//         |                                     turn, by a release |        |
//         |   ends without a slot: timed_out, closed, stopped      | a worker starts it
//         +- drop_another: drops a waiting task, tries again       |        |
//         +- go_slotless: waits without a slot; at most 1024       v        v
//         +- run_here: the submitter runs it                    the slot is released
//         +- refuse: full
//
// The slots are the permits of a semaphore, which serves its line in order: while a caller waits, a
// released slot goes to the first waiter, and no later submission overtakes the line.
#pragma once

#include <gyre/base/atomic.hpp>
#include <gyre/base/cache_line.hpp>
#include <gyre/base/clock.hpp>
#include <gyre/base/duration.hpp>
#include <gyre/pool/pool_options.hpp>
#include <gyre/sync/semaphore.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace gyre::detail {

/// The result of a submission, or of a wait for a slot.
enum class admission_result : std::uint8_t {
  granted,
  must_wait,  ///< the coroutine must join the line; the callable was not moved
  full,       ///< no slot is free, and the caller does not wait
  timed_out,  ///< no slot became free before the deadline
  closed,     ///< the pool accepts no more tasks
};

/// Throws the exception of a submission that was not granted.
[[noreturn, gnu::cold]] void throw_refused(admission_result reason);

/// The slots for the tasks of a pool, and the policy for submissions that find no free slot.
///
/// Submitting threads, and workers, take and release slots in chunks, so that most slots cost no
/// atomic operation. A worker that sees is_urgent() releases each slot at once.
///
/// In a pool of at least `wide_capacity` slots, threads in line are served once half of all slots
/// are free; each thread gets one slot. All of them then have work for a while, and one wake-up
/// serves thousands of tasks. A thread that has waited for some milliseconds serves the line with
/// the slots that are free. A coroutine cannot serve the line after a time, so while a
/// coroutine waits, each release serves the line.
///
/// Thread-safety: all members may be called from any thread.
class admission {
 public:
  static constexpr std::size_t wide_capacity = 4096;

  /// How a caller outside the pool can wait for a slot.
  enum class waiting : std::uint8_t { blocks, suspends, fails };
  /// The next step of a submission that finds no free slot; the drawing at the top shows them.
  enum class step : std::uint8_t { refuse, wait, suspend, run_here, go_slotless, drop_another };

  /// Constructs an admission with `capacity` slots, all free.
  explicit admission(std::size_t capacity, when_full policy = when_full::block,
                     duration block_timeout = duration::max()) noexcept;

  /// The number of slots.
  [[nodiscard]] std::size_t limit() const noexcept { return limit_; }
  /// The number of slots that are free now.
  [[nodiscard]] std::size_t free_slots() const noexcept { return slots_.available(); }
  /// The number of slots that a thread takes or releases at a time: limit() / 256, from 1 to 64, so
  /// that a small limit is exact.
  [[nodiscard]] std::size_t chunk_size() const noexcept { return chunk_size_; }
  /// Whether a waiter needs each slot to be released at once.
  [[nodiscard]] bool is_urgent() const noexcept {
    // relaxed: a late view only delays releases.
    return urgent_waits_.load(std::memory_order_relaxed) != 0;
  }

  /// Takes a slot. The permit is empty if no slot is free, or if another caller waits for a slot.
  [[nodiscard]] semaphore_permit try_acquire() noexcept {
    return {slots_, slots_.try_acquire_some(1)};
  }
  /// Takes up to `max_slots` slots: a 64th of the free slots, at least one, so that threads that
  /// seldom submit do not hold slots that others need. Returns their number; 0 if another caller
  /// waits.
  [[nodiscard]] std::size_t try_acquire_portion(std::size_t max_slots) noexcept {
    return slots_.try_acquire_some(portion(free_slots(), max_slots));
  }
  /// Frees slots, and passes them to the callers that wait. Complexity: a compare-exchange, and
  /// wake-ups if callers wait.
  void release(std::size_t slots) noexcept {
    slots_.release(slots);
    // relaxed: the semaphore publishes the count. A wait that begins after has_waiters() serves the
    // line itself.
    if (slots_.has_waiters() &&
        (free_slots() >= limit_ / 2 || coroutine_waits_.load(std::memory_order_relaxed) != 0))
        [[unlikely]]
      slots_.serve_waits(1);
  }
  /// Caps the slots of started tasks that workers keep back, at limit() / 16 in total: a worker
  /// keeps its slots as long as its current task runs, which may be long.
  void set_workers(std::size_t count) noexcept {
    const auto share = std::clamp<std::size_t>(limit_ / (16 * count), 1, chunk_size_);
    // relaxed: the value publishes no other data.
    worker_chunk_size_.store(share, std::memory_order_relaxed);
  }
  /// Releases the slot, if any, of a task that no worker starts.
  void release_slot(bool had_slot) noexcept { had_slot ? release(1) : remove_slotless(); }
  /// Called by a worker that has started a task. Adds the task's slot, if it has one, to the
  /// worker's `kept_slots`, and releases these in chunks.
  void release_later(bool had_slot, std::size_t& kept_slots) noexcept {
    if (!had_slot) return remove_slotless();
    // relaxed: the value guards no other data.
    const std::size_t max_kept = worker_chunk_size_.load(std::memory_order_relaxed);
    if (++kept_slots >= max_kept || is_urgent()) release(std::exchange(kept_slots, 0));
  }
  /// Counts a task that will wait without a slot.
  void add_slotless() noexcept { slotless_.fetch_add(1, std::memory_order_relaxed); }

  /// Returns the next step of a submission that finds no free slot: choose_step_outside() for a
  /// thread or coroutine outside the pool, choose_step_within() for a worker.
  [[nodiscard]] step choose_step_outside(waiting caller) const noexcept;
  [[nodiscard]] step choose_step_within() const noexcept;

  /// The result of wait_until(), and the number of slots that the caller then holds.
  struct grant {
    admission_result result;
    std::size_t slots = 0;
  };
  /// Blocks the thread until it has up to `max_slots` slots (see try_acquire_portion()), or until
  /// `deadline` or close().
  grant wait_until(steady_time deadline, std::size_t max_slots) noexcept;
  /// The current time plus block_timeout.
  [[nodiscard]] steady_time blocking_deadline() const noexcept {
    return later(monotonic_now(), block_timeout_);
  }
  /// The semaphore of the slots, for a coroutine that waits between join_line() and leave_line().
  semaphore& slots() noexcept { return slots_; }
  void join_line() noexcept;
  void leave_line() noexcept;
  /// Ends all waits. Later requests end with `closed` if no slot is free.
  void close() noexcept { slots_.close(); }

  /// Counts a refusal and returns its reason.
  admission_result count_refusal(admission_result reason) noexcept {
    refusals_.fetch_add(1, std::memory_order_relaxed);
    return reason;
  }
  /// Counts a task that its submitter has run.
  void count_submitter_run() noexcept { submitter_runs_.fetch_add(1, std::memory_order_relaxed); }
  /// The scope in which a submitter runs a task. The chosen steps bound the nesting of scopes.
  class submitter_run {
   public:
    submitter_run() noexcept;
    submitter_run& operator=(submitter_run&&) = delete;
    ~submitter_run();
  };

  // relaxed: the counter is a statistic.
  std::uint64_t refusals() const noexcept { return refusals_.load(std::memory_order_relaxed); }
  std::uint64_t submitter_runs() const noexcept {
    return submitter_runs_.load(std::memory_order_relaxed);
  }

 private:
  static constexpr std::size_t portion(std::size_t free, std::size_t max_slots) noexcept {
    return std::clamp<std::size_t>(free / 64, 1, max_slots);
  }
  void remove_slotless() noexcept { slotless_.fetch_sub(1, std::memory_order_relaxed); }
  bool may_add_slotless() const noexcept;

  alignas(false_sharing_range) semaphore slots_;
  // The members below are read for each task, but written only while a caller waits.
  alignas(false_sharing_range) const std::size_t limit_;
  const std::size_t chunk_size_;
  atomic<std::size_t> worker_chunk_size_;
  const when_full policy_;
  const duration block_timeout_;
  atomic<std::uint32_t> urgent_waits_{0};     // the waits that need each slot released at once
  atomic<std::uint32_t> coroutine_waits_{0};  // the urgent waits of coroutines
  // The members below are written only while the pool is full.
  alignas(false_sharing_range) atomic<std::size_t> slotless_{0};
  atomic<std::uint64_t> refusals_{0};
  atomic<std::uint64_t> submitter_runs_{0};
};

}  // namespace gyre::detail
