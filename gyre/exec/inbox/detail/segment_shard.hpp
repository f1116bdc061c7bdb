// SPDX-License-Identifier: Apache-2.0
// segment_shard: a single-producer list of segments in a sharded queue.
#pragma once

#include <gyre/base/atomic.hpp>
#include <gyre/base/cache_line.hpp>
#include <gyre/base/clock.hpp>
#include <gyre/base/intrusive_list.hpp>
#include <gyre/exec/inbox/detail/segment.hpp>
#include <gyre/exec/inbox/detail/shard.hpp>
#include <gyre/exec/inbox/detail/task_cell.hpp>
#include <gyre/exec/inbox/inbox.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace gyre::inbox::detail {

/// A single-producer, single-consumer list of segments, with the links of a shard_set; a base class
/// of shards. Complexity: a push is two plain stores and a release store.
template <std::size_t CellsPerSegment>
class segment_shard : public shard_base, public intrusive_list_node {
 public:
  ~segment_shard() override { delete reader_.release(); }

  /// The most cells that a callable may take.
  static constexpr std::size_t max_cells = std::min(CellsPerSegment, task_cell::max_cells);

  /// Producer: adds a callable that fits max_cells cells. Calls `before_growing` before another
  /// segment is taken. Throws std::bad_alloc.
  template <class F, class BeforeGrowing>
  void push(F&& callable, BeforeGrowing&& before_growing) {
    const std::size_t cells = task_cell::cells_of(callable);
    if (CellsPerSegment - index_ < cells) [[unlikely]] {
      before_growing();
      append_segment();
    }
    // relaxed, here and in pushed(): a thread that has acquired the task's cell also sees the task
    // counted; for other threads the count is a statistic.
    pushed_tasks_.store(pushed_tasks_.load(std::memory_order_relaxed) + 1,
                        std::memory_order_relaxed);
    last_->cells[std::exchange(index_, index_ + cells)].emplace(std::forward<F>(callable));
  }
  /// Consumer: returns whether a task is ready.
  bool ready() noexcept { return reader_.ready(pool_); }
  /// Consumer: runs at most `limit` tasks.
  void run(batch& tasks, std::size_t limit) {
    const consumed_publisher publisher(consumed_tasks_, tasks);
    reader_.run(tasks, limit, pool_);
  }
  /// Consumer, when the queue is destroyed: destroys all tasks.
  void drop_all() noexcept { reader_.drop_all(pool_); }
  /// Consumer, when the shard is empty and no push will follow: frees the segments, because the
  /// shard itself may live until its thread ends.
  void free_segments() noexcept {
    pool_.clear();
    delete reader_.release();
  }
  /// Returns how many tasks were ever pushed. Any thread.
  std::uint64_t pushed() const noexcept { return pushed_tasks_.load(std::memory_order_relaxed); }
  std::size_t pending() const noexcept {
    const std::uint64_t consumed_count = consumed_tasks_.load(std::memory_order_relaxed);
    return waiting(pushed(), consumed_count);
  }

 protected:
  segment_shard() : reader_(new segment_type), last_(reader_.segment()) {}

 private:
  using segment_type = segment<CellsPerSegment>;

  [[gnu::noinline]] void append_segment() {
    segment_type* new_segment = pool_.take();
    new_segment->first_post = gyre::detail::monotonic_now();
    if (index_ < CellsPerSegment) last_->cells[index_].mark_end();
    // release: pairs with the acquire in segment_reader::ready(), which sees the initialised
    // segment.
    last_->next.store(new_segment, std::memory_order_release);
    last_ = new_segment;
    index_ = 0;
  }

  segment_reader<segment_type> reader_;
  gyre::detail::atomic<std::uint64_t> consumed_tasks_{0};
  alignas(false_sharing_range) segment_type* last_;
  std::size_t index_ = 0;
  gyre::detail::atomic<std::uint64_t> pushed_tasks_{0};
  alignas(false_sharing_range) segment_pool<segment_type, 8> pool_;
};

}  // namespace gyre::inbox::detail
