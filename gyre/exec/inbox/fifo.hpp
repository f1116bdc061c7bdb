// SPDX-License-Identifier: Apache-2.0
// inbox::fifo: the default inbox, a linearizable multi-producer, single-consumer FIFO queue.
#pragma once

#include <gyre/base/atomic.hpp>
#include <gyre/base/cache_line.hpp>
#include <gyre/base/clock.hpp>
#include <gyre/exec/inbox/detail/erased_task.hpp>
#include <gyre/exec/inbox/detail/segment.hpp>
#include <gyre/exec/inbox/detail/task_cell.hpp>
#include <gyre/exec/inbox/detail/throttle.hpp>
#include <gyre/exec/inbox/inbox.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

namespace gyre::inbox {

/// An MPSC queue of linked segments of cells; a producer claims a callable's cells by one
/// fetch-and-add.
///
/// Order: total.
/// Complexity: a push is one atomic addition and the stores of the callable, and one
/// compare-and-swap per segment. 64 KiB per 2046 cells of waiting tasks: a callable of up to 24
/// bytes takes one cell, each 32 bytes more take another one, up to 120 bytes. Up to 16 emptied
/// segments are kept.
///
/// A producer that is suspended between claiming and filling its cell delays the tasks after it,
/// never the producers. Source: Morrison and Afek, "Fast concurrent queues for x86 processors"
/// (2013), changed so that a cell is used only once per segment, and no segment must be closed
/// early.
///
/// `CellsPerSegment` is a parameter for the tests; use `fifo`.
template <std::size_t CellsPerSegment>
class basic_fifo {
 public:
  static constexpr ordering order = ordering::total;
  /// Back-pressure: while more tasks wait, a producer that needs a new segment sleeps, for at most
  /// 1 ms, until half as many wait. The loop's own thread never sleeps, and no thread does before
  /// the first run().
  static constexpr std::size_t high_water = std::size_t{1} << 14;

  basic_fifo() : reader_(new segment_type), tail_(position(reader_.segment())) {}
  basic_fifo& operator=(basic_fifo&&) = delete;
  ~basic_fifo() {
    reader_.drop_all(pool_);
    delete reader_.release();
  }

  template <class F>
  void push(F&& callable) {
    detail::with_cell_sized<max_cells>(std::forward<F>(callable), [this]<class G>(G&& task) {
      claim(detail::task_cell::cells_of(task)).emplace(std::forward<G>(task));
    });
  }
  void push_erased(const detail::erased_task& task) { push(task); }

  void run(batch& tasks) {
    throttle_.register_consumer();
    {
      const detail::consumed_publisher publisher(consumed_tasks_, tasks);
      reader_.run(tasks, tasks.left(), pool_);
    }
    wake_producers();
  }

  bool ready() noexcept {
    if (reader_.ready(pool_)) return true;
    wake_producers();
    return false;
  }

  /// Returns the address of the code of the next task; zero if no task is ready.
  std::uint64_t next_task_code() noexcept {
    return reader_.ready(pool_) ? reader_.next_task_code() : 0;
  }

  std::size_t pending() const noexcept {
    const std::uint64_t consumed_count = consumed_tasks_.load(std::memory_order_relaxed);
    return detail::waiting(pushed(), consumed_count);
  }

 private:
  // A position is the address of a segment, whose low and high 16 bits are zero, plus the index of
  // a cell in it, plus the number of tasks in it times 2^48. One addition claims a task's cells and
  // reads the segment in the same instruction, so a segment cannot be retired between the two. The
  // one claim that begins within a segment, or at its end, and ends beyond it closes the segment.
  // Later claims overrun the closed segment, which has room for those of more than 15,000 threads.
  using position_type = std::uint64_t;
  static constexpr std::size_t segment_alignment = std::size_t{1} << 16;
  static constexpr int tasks_shift = 48;
  using segment_type = detail::segment<CellsPerSegment, segment_alignment>;
  static_assert(CellsPerSegment < segment_alignment / 32);
  static constexpr std::size_t max_cells = std::min(CellsPerSegment, detail::task_cell::max_cells);
  static constexpr std::size_t cells_ahead = 16;
  static constexpr std::size_t cells_per_line = cache_line_size / sizeof(detail::task_cell);

  static constexpr position_type one_task(std::size_t cells) noexcept {
    return (position_type{1} << tasks_shift) + cells;
  }
  static position_type position(segment_type* segment) noexcept {
    return reinterpret_cast<std::uintptr_t>(segment);
  }
  static segment_type* segment_of(position_type position) noexcept {
    constexpr position_type mask =
        ((position_type{1} << tasks_shift) - 1) & ~position_type{segment_alignment - 1};
    return reinterpret_cast<segment_type*>(static_cast<std::uintptr_t>(position & mask));
  }
  static std::size_t index_of(position_type position) noexcept {
    return position & (segment_alignment - 1);
  }
  static std::size_t tasks_of(position_type position) noexcept { return position >> tasks_shift; }
  static bool is_closed(position_type position) noexcept {
    return index_of(position) > CellsPerSegment;
  }

  // Claims `cells` consecutive cells and returns the first. Throws std::bad_alloc; no cells are
  // then claimed.
  detail::task_cell& claim(std::size_t cells) {
    // acquire: pairs with the release in claim_in_new_segment(), which publishes the segment.
    const position_type old_tail = tail_.fetch_add(one_task(cells), std::memory_order_acquire);
    if (index_of(old_tail) + cells <= CellsPerSegment) [[likely]] {
      detail::task_cell* const first = segment_of(old_tail)->cells.data() + index_of(old_tail);
      // The next addition waits for the stores before it, so the lines of the next cells are
      // prefetched.
      for (std::size_t i = 0; i < cells; i += cells_per_line) {
        gyre::detail::prefetch_to_write(first + cells_ahead + i);
      }
      return *first;
    }
    return claim_in_new_segment(old_tail, cells);
  }

  // Claims cells in a new segment after `claimed_position` did not fit. A segment that this
  // thread has not closed must not be dereferenced unless it is still the tail, because it may have
  // been retired meanwhile.
  [[gnu::noinline]] detail::task_cell& claim_in_new_segment(position_type claimed_position,
                                                            std::size_t cells) {
    for (;;) {
      if (!is_closed(claimed_position)) close_segment(claimed_position);
      segment_type* const old_segment = segment_of(claimed_position);
      throttle_.slow_down([this] { return pending(); });
      position_type tail = tail_.load(std::memory_order_relaxed);
      if (segment_of(tail) == old_segment && is_closed(tail)) {
        std::unique_ptr<segment_type, give_back> new_segment(take_segment(old_segment, cells),
                                                             give_back{&pool_});
        new_segment->first_post = gyre::detail::monotonic_now();
        do {
          // release: pairs with the acquire in claim(), and makes the initialisation of the segment
          // visible. acquire: for the full segment that is linked below. relaxed on failure:
          // nothing is read through the value.
          if (tail_.compare_exchange_weak(tail, position(new_segment.get()) + one_task(cells),
                                          std::memory_order_acq_rel, std::memory_order_relaxed)) {
            // release: pairs with the acquire in segment_reader::ready().
            old_segment->next.store(new_segment.get(), std::memory_order_release);
            return new_segment.release()->cells[0];
          }
        } while (segment_of(tail) == old_segment && is_closed(tail));
      }
      claimed_position = tail_.fetch_add(one_task(cells), std::memory_order_acquire);
      if (index_of(claimed_position) + cells <= CellsPerSegment) {
        return segment_of(claimed_position)->cells[index_of(claimed_position)];
      }
    }
  }

  // Closes the segment of `claim`, which is the end of its tasks. The reader leaves the segment
  // only after the end mark or, if no cell is left for a mark, after a thread that has seen the
  // segment closed has linked the next one.
  void close_segment(position_type claim) noexcept {
    if (index_of(claim) < CellsPerSegment) {
      segment_of(claim)->cells[index_of(claim)].mark_end();
    }
    closed_task_count_.fetch_add(tasks_of(claim), std::memory_order_relaxed);
  }

  segment_type* take_segment(segment_type* old_segment, std::size_t cells) {
    try {
      return pool_.take();
    } catch (...) {
      // Subtracts the overrun, because the index must not carry into the address after repeated
      // failures. It does not matter which claim is subtracted: every index beyond the end means
      // closed.
      position_type tail = tail_.load(std::memory_order_relaxed);
      while (
          segment_of(tail) == old_segment && index_of(tail) > CellsPerSegment + cells &&
          !tail_.compare_exchange_weak(tail, tail - one_task(cells), std::memory_order_relaxed)) {
      }
      throw;
    }
  }

  std::uint64_t pushed() const noexcept {
    const position_type tail = tail_.load(std::memory_order_relaxed);
    return closed_task_count_.load(std::memory_order_relaxed) +
           (is_closed(tail) ? 0 : tasks_of(tail));
  }

  void wake_producers() noexcept {
    throttle_.wake_producers([this] { return pending(); });
  }

  struct give_back {
    detail::segment_pool<segment_type, 16>* pool;
    void operator()(segment_type* empty_segment) const noexcept { pool->give(empty_segment); }
  };

  // The members are on three cache lines: the consumer's, the producers', and members used once per
  // segment.
  detail::segment_reader<segment_type> reader_;
  gyre::detail::atomic<std::uint64_t> consumed_tasks_{0};
  alignas(false_sharing_range) gyre::detail::atomic<position_type> tail_;
  // The number of tasks that were pushed to closed segments.
  alignas(false_sharing_range) gyre::detail::atomic<std::uint64_t> closed_task_count_{0};
  detail::throttle throttle_{high_water};
  detail::segment_pool<segment_type, 16> pool_;
};

/// See basic_fifo.
using fifo = basic_fifo<2046>;

static_assert(policy<fifo>);

}  // namespace gyre::inbox
