// SPDX-License-Identifier: Apache-2.0
// segment: a block of cells in a list. The fifo inbox has one list, the sharded inbox has one per
// producer.
#pragma once

#include <gyre/base/atomic.hpp>
#include <gyre/base/cache_line.hpp>
#include <gyre/base/clock.hpp>
#include <gyre/exec/inbox/detail/task_cell.hpp>
#include <gyre/exec/inbox/inbox.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace gyre::inbox::detail {

/// Returns the number of tasks pushed and not yet run; zero if `consumed_tasks` was read later and
/// is larger.
constexpr std::size_t waiting(std::uint64_t pushed_tasks, std::uint64_t consumed_tasks) noexcept {
  return pushed_tasks > consumed_tasks ? static_cast<std::size_t>(pushed_tasks - consumed_tasks)
                                       : 0;
}

/// Adds the tasks that the consumer has run to `total` when a scope ends, even by an exception.
class consumed_publisher {
 public:
  consumed_publisher(gyre::detail::atomic<std::uint64_t>& total, const batch& tasks) noexcept
      : total_(total), batch_(tasks), before_(tasks.ran()) {}
  consumed_publisher& operator=(consumed_publisher&&) = delete;
  ~consumed_publisher() {
    // relaxed: the statistic orders nothing.
    total_.store(total_.load(std::memory_order_relaxed) + (batch_.ran() - before_),
                 std::memory_order_relaxed);
  }

 private:
  gyre::detail::atomic<std::uint64_t>& total_;
  const batch& batch_;
  std::size_t before_;
};

/// A block of cells with an end mark after them, and the link to the next block. An `Alignment`
/// above a cell's own lets a producer pack an index into the low bits of the block's address.
template <std::size_t Cells, std::size_t Alignment = alignof(task_cell)>
struct alignas(Alignment) segment {
  static constexpr std::size_t cell_count = Cells;

  segment() noexcept { cells[Cells].mark_end(); }

  gyre::detail::atomic<segment*> next{nullptr};
  /// The time of the post that took the first cell. The first segment of a list has none, as its
  /// first task may be posted long after the segment was made.
  steady_time first_post{};
  std::array<task_cell, Cells + 1> cells{};
};

/// Keeps emptied segments for reuse by producers, at most `Capacity`, so that an inbox that was
/// once long does not keep its memory.
template <class Segment, std::size_t Capacity>
class segment_pool {
 public:
  segment_pool() = default;
  segment_pool& operator=(segment_pool&&) = delete;
  ~segment_pool() { clear(); }
  /// Frees the segments. Must not be called while other threads use the pool.
  void clear() noexcept {
    for (auto& slot : slots_) delete slot.exchange(nullptr, std::memory_order_relaxed);
  }
  /// Returns a segment with every cell free, from the pool or new. Throws std::bad_alloc.
  Segment* take() {
    for (auto& slot : slots_) {
      if (slot.load(std::memory_order_relaxed) == nullptr) continue;
      // acquire: pairs with the release in give(); makes the consumer's writes to the segment
      // visible.
      if (Segment* spare = slot.exchange(nullptr, std::memory_order_acquire)) return spare;
    }
    return new Segment;
  }
  /// Gives `empty_segment`, whose cells are all free, to the pool, or frees it if the pool is full.
  void give(Segment* empty_segment) noexcept {
    empty_segment->next.store(nullptr, std::memory_order_relaxed);
    for (auto& slot : slots_) {
      Segment* null_segment = nullptr;
      if (slot.load(std::memory_order_relaxed) == nullptr &&
          // release: pairs with the acquire in take(); publishes the freed cells.
          slot.compare_exchange_strong(null_segment, empty_segment, std::memory_order_release,
                                       std::memory_order_relaxed)) {
        return;
      }
    }
    delete empty_segment;
  }

 private:
  std::array<gyre::detail::atomic<Segment*>, Capacity> slots_{};
};

/// The consumer's end of a list of segments.
template <class Segment>
class segment_reader {
 public:
  explicit segment_reader(Segment* first) noexcept : segment_(first) {}
  /// Returns whether a task is ready. Gives emptied segments to `pool`.
  template <class Pool>
  bool ready(Pool& pool) noexcept {
    const task_cell::thunk task = segment_->cells[index_].look();
    if (!task_cell::is_end(task)) return task != nullptr;
    // acquire: pairs with the producer's release store of `next`; makes the initialised segment
    // visible.
    Segment* next_segment = segment_->next.load(std::memory_order_acquire);
    if (next_segment == nullptr) return false;
    if (index_ < Segment::cell_count) segment_->cells[index_].clear_end();
    pool.give(std::exchange(segment_, next_segment));
    index_ = 0;
    return segment_->cells[index_].ready();
  }
  /// Returns the address of the code of the next task. Called after ready() has returned true.
  std::uint64_t next_task_code() const noexcept { return segment_->cells[index_].code(); }
  /// Runs at most `limit` tasks, as long as the batch lasts and tasks are ready.
  template <class Pool>
  void run(batch& tasks, std::size_t limit, Pool& pool) {
    while (limit > 0 && tasks.more() && ready(pool)) {
      if (index_ == 0 && segment_->first_post != steady_time{}) {
        tasks.record_timed_post(segment_->first_post);
      }
      read_position position(*this, tasks);
      Segment& segment = *segment_;
      const std::size_t max_tasks = std::min(tasks.left(), limit);
      while (position.task_count < max_tasks && !tasks.ended()) {
        task_cell& first = segment.cells[position.index];
        const task_cell::thunk task = first.look();
        if (task == nullptr) return;
        if (task_cell::is_end(task)) break;
        ++position.task_count;
        const std::size_t cells = position.run(first, task);
        demote_read_line(segment, ++position.index);
        if (cells == 1) [[likely]]
          continue;
        for (std::size_t i = 1; i < cells; ++i) demote_read_line(segment, ++position.index);
      }
      limit -= position.task_count;
    }
  }
  /// Destroys every task that is ready.
  template <class Pool>
  void drop_all(Pool& pool) noexcept {
    while (ready(pool)) {
      task_cell& first = segment_->cells[index_];
      index_ += first.drop(first.look());
    }
  }
  /// Returns the segment being read.
  Segment* segment() const noexcept { return segment_; }
  /// Returns the last segment, which the caller must free.
  Segment* release() noexcept { return std::exchange(segment_, nullptr); }

 private:
  // Demotes a cache line that has been read, because a producer will write it next: fetching the
  // line from this core's cache would cost the producer more than the rest of a push.
  static void demote_read_line(Segment& segment, std::size_t index) noexcept {
    constexpr std::size_t cells_per_line = cache_line_size / sizeof(task_cell);
    constexpr std::size_t distance = 8;
    if (index % cells_per_line == 0 && index >= distance) {
      gyre::detail::demote_cache_line(&segment.cells[index - distance]);
    }
  }

  // Keeps the index and the task count in registers while tasks run. The destructor stores them,
  // even if a task throws.
  struct read_position {
    read_position(segment_reader& segments, batch& batch) noexcept
        : reader(segments), tasks(batch), index(segments.index_) {}
    read_position& operator=(read_position&&) = delete;
    ~read_position() {
      tasks.count(task_count);
      reader.index_ = index;
    }
    std::size_t run(task_cell& first, task_cell::thunk task) {
      try {
        return first.run(task);
      } catch (...) {
        index += task_cell::measure(task);
        throw;
      }
    }
    segment_reader& reader;
    batch& tasks;
    std::size_t index;
    std::size_t task_count = 0;
  };

  Segment* segment_;
  std::size_t index_ = 0;
};

}  // namespace gyre::inbox::detail
