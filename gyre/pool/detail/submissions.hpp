// SPDX-License-Identifier: Apache-2.0
// submissions: the queue from outside into a work-stealing pool, sharded by submitting thread.
#pragma once

#include <gyre/base/clock.hpp>
#include <gyre/base/intrusive_queue.hpp>
#include <gyre/exec/inbox/detail/segment_shard.hpp>
#include <gyre/exec/inbox/detail/shard.hpp>
#include <gyre/exec/inbox/detail/shard_set.hpp>
#include <gyre/exec/inbox/detail/task_cell.hpp>
#include <gyre/exec/inbox/inbox.hpp>
#include <gyre/pool/detail/admission.hpp>
#include <gyre/sync/detail/spin_lock.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

namespace gyre::detail {

/// A bounded queue with many producers and many consumers, first in first out per producer.
///
/// Each producing thread has a shard: a list of segments, and a stock of reserved slots, so that
/// most pushes touch nothing that another producer writes. A thread that ends releases its stock,
/// which serves the waits for slots, those of threads and those of coroutines.
///
/// The shards form a queue; a consumer takes the first one that has tasks, and has it for itself
/// while it runs them. A callable that is "run" here is expected to hand itself over to the worker
/// that runs it.
///
/// The pushing members are not inlined: a coroutine may continue on another thread, and compilers
/// keep the addresses of thread-locals across suspensions.
///
/// `CellsPerSegment` is a parameter for the tests; use `submissions`.
///
/// Thread-safety: all members may be called from any thread.
/// Complexity: some 8 KiB per producing thread and 32 bytes per waiting task.
template <std::size_t CellsPerSegment>
class basic_submissions {
 public:
  /// Tasks take slots of `gate`.
  explicit basic_submissions(std::shared_ptr<admission> gate) noexcept : gate_(std::move(gate)) {}
  /// Destroys the tasks that were not run. No other thread may be inside.
  ~basic_submissions() {
    // A task's destructor may push once more, also to a shard that was empty already.
    while (ready()) shards_.front()->drop_all();
    while (shard* each = shards_.take()) shards_.retire(*each);
  }

  /// Adds a callable that takes a slot; false, with `callable` untouched, if none is free. About 10
  /// ns. Throws std::bad_alloc, and what copying or moving `callable` throws: no slot is taken.
  template <class F>
  [[nodiscard, gnu::noinline]] bool try_push(F&& callable) {
    return try_push_built([&]() noexcept -> F&& { return std::forward<F>(callable); });
  }

  /// As try_push(), with the callable that `build` returns, which is called once there is a slot.
  /// The caller must not be inlined into a coroutine.
  template <class Build>
  [[nodiscard, gnu::always_inline]] bool try_push_built(Build&& build) {
    if (shard* const own = shards_.cached()) [[likely]]
      return push_to(*own, build);
    const auto entered = find_or_register();
    return push_to(*entered, build);
  }

  /// Waits until the calling thread has a slot for its next push: granted, timed_out or closed.
  [[nodiscard]] admission_result reserve_until(steady_time deadline) {
    if (const auto own = find_or_register(); own->stock > 0 || restock(*own)) {
      return admission_result::granted;
    }
    const auto [result, taken] = gate_->wait_until(deadline, gate_->chunk());
    if (taken > 0) add_slots(taken);
    return result;
  }
  /// Adds acquired slots to the thread's stock; releases them if it throws std::bad_alloc.
  [[gnu::noinline]] void add_slots(std::size_t slots) {
    try {
      find_or_register()->stock += slots;
    } catch (...) {
      gate_->release(slots);
      throw;
    }
  }

  /// Releases the slots that the calling thread holds for its next pushes; false if it holds none.
  bool return_stock() noexcept {
    shard* const own = shards_.cached();
    if (own == nullptr || own->stock == 0) return false;
    gate_->release(std::exchange(own->stock, 0));
    return true;
  }

  /// Adds a callable that takes no slot. Throws as try_push().
  template <class F>
  [[gnu::noinline]] void push(F&& callable) {
    if (shard* const own = shards_.cached()) [[likely]] {
      push_admitted(*own, std::forward<F>(callable));
    } else {
      const auto entered = find_or_register();
      push_admitted(*entered, std::forward<F>(callable));
    }
  }

  /// Worker: runs tasks of one producer, at most `quantum` of them and as long as the batch lasts;
  /// none if tasks wait only in shards that other workers run. True if more tasks wait: then
  /// another worker may be woken for them. A task's exception passes, with all in good order.
  bool run_some(inbox::batch& batch) {
    shard_lease lease(*this);
    if (!lease) return false;
    lease->run(batch, quantum);
    return lease.end();
  }

  /// Whether run_some() would find a task. Sees every push that happened before, but for those to
  /// shards that workers run: their run_some() has not returned, and will see them.
  bool ready() noexcept {
    retired_shards retired(*this);
    const std::lock_guard lock(queue_lock_);
    return bring_work_to_front(retired);
  }

  /// Tasks that wait, with or without a slot. O(producers), and a lock.
  std::size_t pending() const noexcept { return shards_.pending(); }
  /// How many were ever pushed, with each that the caller has seen run. O(producers), and a lock.
  std::uint64_t pushed() const noexcept { return shards_.pushed(); }

 private:
  // How many tasks of one producer a worker takes at a time.
  static constexpr std::size_t quantum = 256;

  class shard;

  // The shards of ended threads, which are retired once the lock is no longer held.
  class retired_shards {
   public:
    explicit retired_shards(basic_submissions& owner) noexcept : owner_(owner) {}
    retired_shards& operator=(retired_shards&&) = delete;
    ~retired_shards() {
      while (shard* each = shards_.pop_front()) owner_.shards_.retire(*each);
    }
    void add(shard& empty) noexcept { shards_.push_back(empty); }

   private:
    basic_submissions& owner_;
    intrusive_queue<shard> shards_;
  };

  // A shard that a worker has for itself, queued again at the end, also by an exception.
  class shard_lease {
   public:
    explicit shard_lease(basic_submissions& owner) noexcept : owner_(owner) {
      retired_shards retired(owner_);
      const std::lock_guard lock(owner_.queue_lock_);
      if (owner_.bring_work_to_front(retired)) shard_ = owner_.shards_.take();
    }
    shard_lease& operator=(shard_lease&&) = delete;
    ~shard_lease() {
      if (shard_ != nullptr) end();
    }
    explicit operator bool() const noexcept { return shard_ != nullptr; }
    shard* operator->() const noexcept { return shard_; }

    // The look is under the same lock: a thread that looked in vain during the lease was earlier,
    // and so were the pushes that it had to see.
    bool end() noexcept {
      retired_shards retired(owner_);
      const std::lock_guard lock(owner_.queue_lock_);
      owner_.shards_.put_back(*std::exchange(shard_, nullptr));
      return owner_.bring_work_to_front(retired);
    }

   private:
    basic_submissions& owner_;
    shard* shard_ = nullptr;
  };

  // Returns whether there is a shard with tasks, which then is the first; under the lock.
  bool bring_work_to_front(retired_shards& retired) noexcept {
    shards_.admit_new_shards();
    for (std::size_t count = shards_.size(); count > 0; --count) {
      // Read before ready(), as nothing can follow what an abandoned shard held.
      const bool last = shards_.front()->abandoned();
      if (shards_.front()->ready()) return true;
      shard* const empty = shards_.take();
      if (last) {
        retired.add(*empty);
      } else {
        shards_.put_back(*empty);
      }
    }
    return false;
  }

  template <class Build>
  bool push_to(shard& own, Build& build) {
    if (own.stock == 0 && !restock(own)) [[unlikely]]
      return false;
    --own.stock;
    try {
      push_admitted(own, build());
    } catch (...) {
      gate_->release(1);  // not to the stock: another thread may be waiting
      throw;
    }
    return true;
  }

  template <class F>
  void push_admitted(shard& own, F&& callable) {
    inbox::detail::with_cell_sized<1>(std::forward<F>(callable), [&own]<class G>(G&& fitting) {
      own.push(std::forward<G>(fitting), [] {});
    });
  }

  auto find_or_register() { return shards_.find_or_register(gate_); }

  [[gnu::noinline]] bool restock(shard& own) noexcept {
    own.stock += gate_->try_acquire_portion(gate_->chunk());
    return own.stock > 0;
  }

  const std::shared_ptr<admission> gate_;
  spin_lock queue_lock_;
  inbox::detail::shard_set<shard> shards_;
};

/// The tasks of one thread, and the slots that it holds for later ones. The thread releases these
/// slots at its end, when the pool may be gone: so the shard shares the admission.
template <std::size_t CellsPerSegment>
class basic_submissions<CellsPerSegment>::shard final
    : public inbox::detail::segment_shard<CellsPerSegment> {
 public:
  explicit shard(std::shared_ptr<admission> gate) noexcept : gate_(std::move(gate)) {}

  std::size_t stock = 0;  // belongs to the thread

 private:
  void return_reserve() noexcept override {
    if (stock > 0) gate_->release(std::exchange(stock, 0));
  }

  const std::shared_ptr<admission> gate_;
};

/// The submissions of pools.
using submissions = basic_submissions<254>;

}  // namespace gyre::detail
