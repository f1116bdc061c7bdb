// SPDX-License-Identifier: Apache-2.0
// The cheapest inbox: each producing thread has a queue of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

#include <gyre/base/atomic.hpp>
#include <gyre/base/cache_line.hpp>
#include <gyre/base/intrusive_list.hpp>
#include <gyre/base/intrusive_queue.hpp>
#include <gyre/base/intrusive_stack.hpp>
#include <gyre/exec/inbox/detail/progress.hpp>
#include <gyre/exec/inbox/detail/segment.hpp>
#include <gyre/exec/inbox/detail/shard.hpp>
#include <gyre/exec/inbox/detail/task_cell.hpp>
#include <gyre/exec/inbox/detail/throttle.hpp>
#include <gyre/exec/inbox/inbox.hpp>

namespace gyre::inbox {

/// One single-producer list of segments per thread that posts; the loop takes from them in turn.
///
/// Order: per producer; what a thread posts from the destructors of its thread-locals may run in any
/// order. Cost of a push: a look-up of the thread's shard, two plain stores; no atomic
/// read-modify-write. The first push of a thread registers its shard. Memory: 64 KiB and up per
/// producing thread; a thread's shard is freed once the thread has ended and its tasks have run.
/// The loop looks at every shard once per turn, so this is for tens of producers, not thousands at
/// one time.
///
/// `CellsPerSegment` is a parameter for the tests; use `sharded`.
template <std::size_t CellsPerSegment>
class basic_sharded {
 public:
  static constexpr ordering order = ordering::per_producer;
  /// Waiting tasks of one thread beyond which it first gives way to the loop when it needs a new
  /// segment.
  static constexpr std::size_t high_water = std::size_t{1} << 13;

  basic_sharded() : id_(detail::next_inbox_id()) {}
  basic_sharded(const basic_sharded&) = delete;
  basic_sharded& operator=(const basic_sharded&) = delete;
  ~basic_sharded() {
    // What is destroyed may post once more, also to a shard that was empty already.
    while (ready()) shards_.front()->drop_all();
    while (shard* each = shards_.pop_front()) discharge(*each);
  }

  template <class F>
  void push(F&& callable) {
    detail::with_cell_sized(std::forward<F>(callable), [this]<class G>(G&& fitting) {
      const auto& cached = detail::this_thread_shards.entries[id_ % detail::shard_cache::size];
      if (cached.inbox == id_) [[likely]] {
        static_cast<shard*>(cached.shard)->push(std::forward<G>(fitting));
      } else {
        // A copy, so that on the way above the compiler need not keep the callable in memory.
        push_uncached<std::decay_t<G>>(std::forward<G>(fitting));
      }
    });
  }

  void run(batch& some) {
    admit_arrivals();
    // A whole round without a task means that nothing is left.
    for (std::size_t left = shard_count_; left > 0 && some.more(); --left) {
      const std::size_t before = some.ran();
      turn(*this)->run(some);
      if (some.ran() == before) continue;
      admit_arrivals();
      left = shard_count_ + 1;
    }
  }

  bool ready() noexcept {
    admit_arrivals();
    // Leaves a shard that has something in front.
    for (std::size_t left = shard_count_; left > 0; --left) {
      if (shards_.front()->ready()) return true;
      shards_.push_back(*shards_.pop_front());
    }
    return false;
  }

  std::size_t pending() const noexcept {
    const std::lock_guard lock(census_mutex_);
    std::size_t sum = 0;
    for (const shard& each : census_) sum += each.pending();
    return sum;
  }

 private:
  // How many tasks of one producer run before the next one's turn.
  static constexpr std::size_t quantum = 256;

  class shard;

  // Puts the shard whose turn it was back in line, or frees it, also when a task throws.
  class turn {
   public:
    explicit turn(basic_sharded& inbox) noexcept
        : inbox_(inbox), shard_(inbox.shards_.pop_front()), last_(shard_->abandoned()) {}
    turn(const turn&) = delete;
    turn& operator=(const turn&) = delete;
    ~turn() {
      // `last_` was read before the tasks ran: nothing can follow what an abandoned shard held.
      if (last_ && !shard_->ready()) {
        inbox_.discharge(*shard_);
      } else {
        inbox_.shards_.push_back(*shard_);
      }
    }
    shard* operator->() const noexcept { return shard_; }

   private:
    basic_sharded& inbox_;
    shard* shard_;
    bool last_;
  };

  template <class F>
  [[gnu::noinline]] void push_uncached(F fitting) {
    if (detail::shard_base* known = detail::find_shard(id_)) {
      static_cast<shard*>(known)->push(std::move(fitting));
      return;
    }
    auto fresh = std::make_unique<shard>();
    const bool kept = detail::keep_shard(id_, fresh.get());
    shard* const entered = fresh.release();
    enter(*entered);
    // A thread that is past its thread-locals gets a shard for this one task.
    const abandon_unless abandoned_after(kept, *entered);
    entered->push(std::move(fitting));
  }

  struct abandon_unless {
    abandon_unless(bool kept, shard& entered) noexcept : kept_(kept), entered_(entered) {}
    abandon_unless(const abandon_unless&) = delete;
    abandon_unless& operator=(const abandon_unless&) = delete;
    ~abandon_unless() {
      if (!kept_) entered_.abandon();
    }
    bool kept_;
    shard& entered_;
  };

  // Producer: makes a new shard known to the consumer and to pending().
  void enter(shard& fresh) {
    {
      const std::lock_guard lock(census_mutex_);
      census_.push_back(fresh);
    }
    arrivals_.push(fresh);
  }

  // Consumer: takes the new shards into its line.
  void admit_arrivals() noexcept {
    if (arrivals_.empty()) [[likely]]
      return;
    auto arrived = arrivals_.pop_all();
    while (shard* each = arrived.pop_front()) {
      shards_.push_back(*each);
      ++shard_count_;
    }
  }

  // Consumer: forgets a shard that will not be filled again.
  void discharge(shard& emptied) noexcept {
    {
      const std::lock_guard lock(census_mutex_);
      static_cast<intrusive_list_node&>(emptied).unlink();
    }
    --shard_count_;
    emptied.free_segments();
    emptied.close();
  }

  const std::uint64_t id_;
  intrusive_queue<shard> shards_;
  std::size_t shard_count_ = 0;
  alignas(false_sharing_range) atomic_intrusive_stack<shard> arrivals_;
  mutable std::mutex census_mutex_;
  mutable intrusive_list<shard> census_;
};

/// A single-producer list of segments: what one thread has posted to one inbox.
template <std::size_t CellsPerSegment>
class basic_sharded<CellsPerSegment>::shard : public detail::shard_base,
                                              public intrusive_list_node {
 public:
  shard() : shard_base(&destroy), reader_(new segment_type), last_(reader_.segment()) {}
  ~shard() { delete reader_.release(); }

  /// Producer.
  template <class F>
  void push(F&& fitting) {
    if (index_ == CellsPerSegment) append_segment();
    last_->cells[index_++].emplace(std::forward<F>(fitting));
    // relaxed, here and in pending(): a statistic.
    pushed_.store(pushed_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }

  /// Consumer.
  bool ready() noexcept { return reader_.ready(pool_); }
  void run(batch& some) {
    const detail::publish_consumed published(consumed_, some);
    throttle_.consuming();
    reader_.run(some, quantum, pool_);
  }
  /// Consumer, when the inbox ends.
  void drop_all() noexcept { reader_.drop_all(pool_); }
  /// Consumer, when the shard is empty and no push will follow: what remains of it may stay until
  /// its thread ends.
  void free_segments() noexcept {
    pool_.clear();
    delete reader_.release();
  }

  /// Any thread.
  std::size_t pending() const noexcept {
    const std::uint64_t consumed = consumed_.load(std::memory_order_relaxed);
    return detail::waiting(pushed_.load(std::memory_order_relaxed), consumed);
  }

 private:
  using segment_type = detail::segment<CellsPerSegment>;

  static void destroy(detail::shard_base* self) noexcept { delete static_cast<shard*>(self); }

  [[gnu::noinline]] void append_segment() {
    throttle_.slow_down([this] { return pending(); });
    segment_type* fresh = pool_.take();
    // release: pairs with the acquire in segment_reader::ready().
    last_->next.store(fresh, std::memory_order_release);
    last_ = fresh;
    index_ = 0;
  }

  detail::segment_reader<segment_type> reader_;
  gyre::detail::atomic<std::uint64_t> consumed_{0};
  alignas(false_sharing_range) segment_type* last_;
  std::size_t index_ = 0;
  gyre::detail::atomic<std::uint64_t> pushed_{0};
  alignas(false_sharing_range) detail::segment_pool<segment_type, 8> pool_;
  detail::throttle throttle_{high_water};
};

/// See basic_sharded.
using sharded = basic_sharded<2047>;

static_assert(policy<sharded>);

}  // namespace gyre::inbox
