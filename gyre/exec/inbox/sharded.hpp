// SPDX-License-Identifier: Apache-2.0
// inbox::sharded: the inbox with the cheapest push, a single-producer queue per producing thread.
#pragma once

#include <gyre/exec/inbox/detail/erased_task.hpp>
#include <gyre/exec/inbox/detail/segment_shard.hpp>
#include <gyre/exec/inbox/detail/shard.hpp>
#include <gyre/exec/inbox/detail/shard_set.hpp>
#include <gyre/exec/inbox/detail/task_cell.hpp>
#include <gyre/exec/inbox/detail/throttle.hpp>
#include <gyre/exec/inbox/inbox.hpp>

#include <cstddef>
#include <type_traits>
#include <utility>

namespace gyre::inbox {

/// One single-producer list of segments per thread that posts; the loop serves them in turn.
///
/// Order: per producer. Tasks that a thread posts from the destructors of its thread-locals may run
/// in any order.
/// Complexity: a push is a look-up of the thread's shard and plain stores, without an atomic
/// read-modify-write; a thread's first push registers its shard. 64 KiB and more per producing
/// thread, for 2046 cells as in basic_fifo; a shard is freed once its thread has ended and its
/// tasks have run. The loop looks at every shard once per turn, so this inbox is for tens of
/// concurrent producers, not thousands.
///
/// `CellsPerSegment` is a parameter for the tests; use `sharded`.
template <std::size_t CellsPerSegment>
class basic_sharded {
 public:
  static constexpr ordering order = ordering::per_producer;
  /// Back-pressure as in basic_fifo, applied to a producer of which more tasks wait.
  static constexpr std::size_t high_water = std::size_t{1} << 13;

  basic_sharded() = default;
  basic_sharded& operator=(basic_sharded&&) = delete;
  ~basic_sharded() {
    // The check repeats because destructors of tasks may post, even to a shard that was empty
    // already.
    while (ready()) shards_.front()->drop_all();
    while (shard* old_shard = shards_.take()) shards_.retire(*old_shard);
  }

  template <class F>
  void push(F&& callable) {
    detail::with_cell_sized<max_cells>(std::forward<F>(callable), [this]<class G>(G&& task) {
      if (shard* const own_shard = shards_.cached()) [[likely]] {
        own_shard->push(std::forward<G>(task));
      } else {
        // The callable is passed by value, so that the compiler need not keep it in memory on the
        // fast path above.
        push_uncached<std::decay_t<G>>(std::forward<G>(task));
      }
    });
  }
  void push_erased(const detail::erased_task& task) { push(task); }

  void run(batch& tasks) {
    shards_.admit_new_shards();
    // The loop ends after a round over all shards in which no task has run.
    for (std::size_t shards_left = shards_.size(); shards_left > 0 && tasks.more(); --shards_left) {
      const std::size_t old_ran = tasks.ran();
      turn(shards_)->run(tasks);
      if (tasks.ran() == old_ran) continue;
      shards_.admit_new_shards();
      shards_left = shards_.size() + 1;
    }
  }

  bool ready() noexcept {
    shards_.admit_new_shards();
    // Rotates the queue until a shard that has tasks is at the front.
    for (std::size_t remaining_count = shards_.size(); remaining_count > 0; --remaining_count) {
      if (shards_.front()->ready()) return true;
      shards_.put_back(*shards_.take());
    }
    return false;
  }

  std::size_t pending() const noexcept { return shards_.pending(); }

 private:
  // The maximum number of one producer's tasks that run before the tasks of the next producer.
  static constexpr std::size_t quantum = 256;
  static constexpr std::size_t max_cells = detail::segment_shard<CellsPerSegment>::max_cells;

  class shard;
  using shards = detail::shard_set<shard>;

  // Takes the first shard out of the queue. The destructor puts it back or retires it, even if a
  // task has thrown.
  class turn {
   public:
    explicit turn(shards& all_shards) noexcept
        : all_(all_shards), shard_(all_shards.take()), is_abandoned_(shard_->abandoned()) {}
    turn& operator=(turn&&) = delete;
    ~turn() {
      // `is_abandoned_` was read before the tasks ran: an abandoned shard gets no more tasks.
      if (is_abandoned_ && !shard_->ready()) {
        all_.retire(*shard_);
      } else {
        all_.put_back(*shard_);
      }
    }
    shard* operator->() const noexcept { return shard_; }

   private:
    shards& all_;
    shard* shard_;
    bool is_abandoned_;
  };

  template <class F>
  [[gnu::noinline]] void push_uncached(F callable) {
    const auto own_shard = shards_.find_or_register();
    own_shard->push(std::move(callable));
  }

  shards shards_;
};

/// The tasks that one thread has posted to one inbox.
template <std::size_t CellsPerSegment>
class basic_sharded<CellsPerSegment>::shard final : public detail::segment_shard<CellsPerSegment> {
  using base = detail::segment_shard<CellsPerSegment>;

 public:
  /// Adds a task; may sleep for back-pressure. Called by the producer.
  template <class F>
  void push(F&& callable) {
    base::push(std::forward<F>(callable),
               [this] { throttle_.slow_down([this] { return this->pending(); }); });
  }
  /// Runs at most `quantum` tasks, then wakes the producer if it sleeps and enough tasks have run.
  /// Called by the consumer.
  void run(batch& tasks) {
    throttle_.register_consumer();
    base::run(tasks, quantum);
    wake_producer();
  }
  bool ready() noexcept {
    if (base::ready()) return true;
    wake_producer();
    return false;
  }

 private:
  void wake_producer() noexcept {
    throttle_.wake_producers([this] { return this->pending(); });
  }

  detail::throttle throttle_{high_water};
};

/// See basic_sharded.
using sharded = basic_sharded<2046>;

static_assert(policy<sharded>);

}  // namespace gyre::inbox
