// SPDX-License-Identifier: Apache-2.0
// Linked blocks of cells: what the fifo inbox (one list for all producers) and the sharded inbox
// (one list per producer) are made of. Their consumer's side is the same and lives here.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include <gyre/base/atomic.hpp>
#include <gyre/base/cache_line.hpp>
#include <gyre/exec/inbox/detail/task_cell.hpp>
#include <gyre/exec/inbox/inbox.hpp>

namespace gyre::inbox::detail {

/// A block of cells and the link to the block behind it. `Alignment` above a cell's own lets a
/// producer pack a position in the block into the low bits of its address.
template <std::size_t Cells, std::size_t Alignment = alignof(task_cell)>
struct alignas(Alignment) segment {
  static constexpr std::size_t cell_count = Cells;

  gyre::detail::atomic<segment*> next{nullptr};
  std::array<task_cell, Cells> cells{};
};

/// Emptied segments on their way back from the consumer to the producers: at most `Capacity` of
/// them, the rest are freed, so that an inbox which was once long does not stay large.
template <class Segment, std::size_t Capacity>
class segment_pool {
 public:
  segment_pool() = default;
  segment_pool(const segment_pool&) = delete;
  segment_pool& operator=(const segment_pool&) = delete;
  ~segment_pool() { clear(); }

  /// Frees what is in it. Not while others use it.
  void clear() noexcept {
    for (auto& place : places_) delete place.exchange(nullptr, std::memory_order_relaxed);
  }

  /// A segment with every cell free; from the pool, or a new one (throws std::bad_alloc).
  Segment* take() {
    for (auto& place : places_) {
      if (place.load(std::memory_order_relaxed) == nullptr) continue;
      // acquire: pairs with the release in give(); the consumer's last writes come before ours.
      if (Segment* spare = place.exchange(nullptr, std::memory_order_acquire)) return spare;
    }
    return new Segment;
  }

  /// Takes back a segment whose cells are all free.
  void give(Segment* emptied) noexcept {
    emptied->next.store(nullptr, std::memory_order_relaxed);
    for (auto& place : places_) {
      Segment* none = nullptr;
      if (place.load(std::memory_order_relaxed) == nullptr &&
          // release: pairs with the acquire in take().
          place.compare_exchange_strong(none, emptied, std::memory_order_release,
                                        std::memory_order_relaxed)) {
        return;
      }
    }
    delete emptied;
  }

 private:
  std::array<gyre::detail::atomic<Segment*>, Capacity> places_{};
};

/// The consumer's end of a list of segments.
template <class Segment>
class segment_reader {
 public:
  explicit segment_reader(Segment* first) noexcept : segment_(first) {}

  /// Whether a task has been handed over. Segments left behind on the way go to `pool`.
  template <class Pool>
  bool ready(Pool& pool) noexcept {
    if (index_ == Segment::cell_count) {
      // acquire: pairs with the producer's release store of `next`; the new segment is initialised.
      Segment* next = segment_->next.load(std::memory_order_acquire);
      if (next == nullptr) return false;
      pool.give(std::exchange(segment_, next));
      index_ = 0;
    }
    return segment_->cells[index_].ready();
  }

  /// Runs at most `most` tasks, as long as the batch lasts and tasks have been handed over.
  template <class Pool>
  void run(batch& some, std::size_t most, Pool& pool) {
    while (most > 0 && some.more() && ready(pool)) {
      stretch here(*this, some);
      const std::size_t end = index_ + std::min({Segment::cell_count - index_, some.left(), most});
      most -= end - index_;
      while (here.at < end && !some.ended()) {
        task_cell& cell = segment_->cells[here.at];
        if (!cell.ready()) return;
        ++here.at;
        cell.run();
        leave_behind(here.at);
      }
    }
  }

  /// Destroys every task that has been handed over.
  template <class Pool>
  void drop_all(Pool& pool) noexcept {
    while (ready(pool)) segment_->cells[index_++].drop();
  }

  /// The segment it is at.
  Segment* segment() const noexcept { return segment_; }
  /// Gives that up to be freed; the end of the list.
  Segment* release() noexcept { return std::exchange(segment_, nullptr); }

 private:
  // Hands lines that are done with to the producers, who will write them next: to fetch them from
  // this core's cache would cost a producer more than all the rest of a push.
  void leave_behind(std::size_t at) noexcept {
    constexpr std::size_t cells_per_line = cache_line_size / sizeof(task_cell);
    constexpr std::size_t distance = 8;
    if (at % cells_per_line == 0 && at >= distance) {
      gyre::detail::demote_cache_line(&segment_->cells[at - distance]);
    }
  }

  // The walk through a segment, in a register; recorded when it ends, also by an exception.
  struct stretch {
    stretch(segment_reader& walker, batch& walked) noexcept
        : reader(walker), some(walked), at(walker.index_) {}
    stretch(const stretch&) = delete;
    stretch& operator=(const stretch&) = delete;
    ~stretch() {
      some.count(at - reader.index_);
      reader.index_ = at;
    }
    segment_reader& reader;
    batch& some;
    std::size_t at;
  };

  Segment* segment_;
  std::size_t index_ = 0;
};

}  // namespace gyre::inbox::detail
