// SPDX-License-Identifier: Apache-2.0
// inbox::fifo: the default inbox, a linearizable multi-producer, single-consumer FIFO queue.
#pragma once

#include <gyre/base/atomic.hpp>
#include <gyre/base/cache_line.hpp>
#include <gyre/exec/inbox/detail/segment.hpp>
#include <gyre/exec/inbox/detail/task_cell.hpp>
#include <gyre/exec/inbox/detail/throttle.hpp>
#include <gyre/exec/inbox/inbox.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

namespace gyre::inbox {

/// An MPSC queue of linked segments of cells; a producer claims a cell by a fetch-and-add.
///
/// Order: total.
/// Complexity: a push is one atomic addition and one store, and one compare-and-swap per segment.
/// 64 KiB per 2046 waiting tasks; up to 16 emptied segments are kept.
///
/// A producer that is suspended between claiming and filling its cell delays the tasks behind it,
/// never the producers. After: Morrison and Afek, "Fast concurrent queues for x86 processors"
/// (2013), but a cell is used only once per segment, so that no segment must be closed early.
///
/// `CellsPerSegment` is a parameter for the tests; use `fifo`.
template <std::size_t CellsPerSegment>
class basic_fifo {
 public:
  static constexpr ordering order = ordering::total;
  /// Back-pressure: while more tasks wait, a producer that needs a new segment yields, at most 100
  /// times; the loop's own thread does not.
  static constexpr std::size_t high_water = std::size_t{1} << 12;

  basic_fifo() : reader_(new segment_type), tail_(position(reader_.segment(), 0)) {}
  basic_fifo& operator=(basic_fifo&&) = delete;
  ~basic_fifo() {
    reader_.drop_all(pool_);
    delete reader_.release();
  }

  template <class F>
  void push(F&& callable) {
    detail::with_cell_sized(std::forward<F>(callable), [this]<class G>(G&& fitting) {
      claim().emplace(std::forward<G>(fitting));
    });
  }

  void run(batch& tasks) {
    const detail::publish_consumed published(consumed_, tasks);
    throttle_.register_consumer();
    reader_.run(tasks, tasks.left(), pool_);
  }

  bool ready() noexcept { return reader_.ready(pool_); }

  std::size_t pending() const noexcept {
    const std::uint64_t consumed = consumed_.load(std::memory_order_relaxed);
    return detail::waiting(pushed(), consumed);
  }

 private:
  // A position is the address of a segment, whose low 16 bits are zero, plus the index of a cell in
  // it. Adding one claims a cell and reads the segment in the same instruction, so a segment cannot
  // be retired between the two. Up to 65,535 - CellsPerSegment threads may overrun a full one.
  static constexpr std::size_t segment_alignment = std::size_t{1} << 16;
  using segment_type = detail::segment<CellsPerSegment, segment_alignment>;
  static_assert(CellsPerSegment < segment_alignment / 2);
  static constexpr std::size_t cells_ahead = 16;

  static std::uintptr_t position(segment_type* segment, std::size_t index) noexcept {
    return reinterpret_cast<std::uintptr_t>(segment) + index;
  }
  static segment_type* segment_of(std::uintptr_t position) noexcept {
    return reinterpret_cast<segment_type*>(position & ~(segment_alignment - 1));
  }
  static std::size_t index_of(std::uintptr_t position) noexcept {
    return position & (segment_alignment - 1);
  }

  detail::task_cell& claim() {
    // acquire: pairs with the release in claim_in_new_segment(); the segment is initialised.
    const std::uintptr_t claimed = tail_.fetch_add(1, std::memory_order_acquire);
    if (index_of(claimed) < CellsPerSegment) [[likely]] {
      detail::task_cell* const cell = segment_of(claimed)->cells.data() + index_of(claimed);
      // The addition waits for the stores before it, so the next cells' lines must be here by then.
      gyre::detail::prefetch_to_write(cell + cells_ahead);
      return *cell;
    }
    return claim_in_new_segment(segment_of(claimed));
  }

  // `full` must not be dereferenced unless it is still the tail: it may have been retired since.
  [[gnu::noinline]] detail::task_cell& claim_in_new_segment(segment_type* full) {
    for (;;) {
      throttle_.slow_down([this] { return pending(); });
      std::uintptr_t tail = tail_.load(std::memory_order_relaxed);
      if (segment_of(tail) == full && index_of(tail) >= CellsPerSegment) {
        std::unique_ptr<segment_type, give_back> fresh(take_segment(full), give_back{&pool_});
        do {
          // release: pairs with the acquire in claim(), for the segment's initialisation. acquire:
          // the full segment that is linked below. relaxed on failure: nothing is read through it.
          if (tail_.compare_exchange_weak(tail, position(fresh.get(), 1), std::memory_order_acq_rel,
                                          std::memory_order_relaxed)) {
            installed_.fetch_add(1, std::memory_order_relaxed);
            // release: pairs with the acquire in segment_reader::ready().
            full->next.store(fresh.get(), std::memory_order_release);
            return fresh.release()->cells[0];
          }
        } while (segment_of(tail) == full && index_of(tail) >= CellsPerSegment);
      }
      const std::uintptr_t claimed = tail_.fetch_add(1, std::memory_order_acquire);
      if (index_of(claimed) < CellsPerSegment) {
        return segment_of(claimed)->cells[index_of(claimed)];
      }
      full = segment_of(claimed);
    }
  }

  segment_type* take_segment(segment_type* full) {
    try {
      return pool_.take();
    } catch (...) {
      // Takes the overrun back, lest repeated failures carry from the index into the address. Any
      // index from CellsPerSegment up says the same, so it does not matter whose overrun it is.
      std::uintptr_t tail = tail_.load(std::memory_order_relaxed);
      while (segment_of(tail) == full && index_of(tail) > CellsPerSegment &&
             !tail_.compare_exchange_weak(tail, tail - 1, std::memory_order_relaxed)) {
      }
      throw;
    }
  }

  std::uint64_t pushed() const noexcept {
    const std::size_t index = index_of(tail_.load(std::memory_order_relaxed));
    return installed_.load(std::memory_order_relaxed) * CellsPerSegment +
           (index < CellsPerSegment ? index : CellsPerSegment);
  }

  struct give_back {
    detail::segment_pool<segment_type, 16>* pool;
    void operator()(segment_type* unused) const noexcept { pool->give(unused); }
  };

  // The consumer's line, the producers' line, and what is touched once per segment.
  detail::segment_reader<segment_type> reader_;
  gyre::detail::atomic<std::uint64_t> consumed_{0};
  alignas(false_sharing_range) gyre::detail::atomic<std::uintptr_t> tail_;
  alignas(false_sharing_range) gyre::detail::atomic<std::uint64_t> installed_{0};
  detail::throttle throttle_{high_water};
  detail::segment_pool<segment_type, 16> pool_;
};

/// See basic_fifo.
using fifo = basic_fifo<2046>;

static_assert(policy<fifo>);

}  // namespace gyre::inbox
