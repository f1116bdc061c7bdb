// SPDX-License-Identifier: Apache-2.0
// submissions: the inbound queue of a work-stealing pool, sharded by submitting thread.
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
#include <gyre/sync/semaphore.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

namespace gyre::detail {

/// A bounded queue with many producers and many consumers, first in first out per producer.
///
/// Each producing thread has a shard: a list of segments and a number of reserved slots. So most
/// pushes write nothing that another producer writes. A thread that ends releases its reserved
/// slots, which serves the threads and coroutines that wait for one.
///
/// The shards form a queue. A consumer takes the first shard that has tasks and has exclusive
/// access while it runs them. "Running" a callable here means that it passes itself to the worker's
/// current batch.
///
/// The pushing functions are not inlined: a coroutine may continue on another thread, and compilers
/// cache the addresses of thread-locals across suspensions.
///
/// `CellsPerSegment` is a parameter for the tests; use `submissions`.
///
/// Thread-safety: all members may be called from any thread.
/// Complexity: some 8 KiB per producing thread and 32 bytes per waiting task.
template <std::size_t CellsPerSegment>
class basic_submissions {
 public:
  /// Tasks take slots of `slots`.
  explicit basic_submissions(std::shared_ptr<admission> slots) noexcept
      : slots_(std::move(slots)) {}
  /// Destroys the tasks that were not run. No other thread may use the object.
  ~basic_submissions() {
    // The destructor of a task may push once more, even to a shard that was empty already.
    while (ready()) shards_.front()->drop_all();
    while (shard* old_shard = shards_.take()) shards_.retire(*old_shard);
  }

  /// Pushes a callable that takes a slot. Returns false, and leaves `callable` unmoved, if no slot
  /// is free. Takes about 10 ns. Throws std::bad_alloc, and the exceptions of copying or moving
  /// `callable`; then no slot is taken.
  template <class F>
  [[nodiscard, gnu::noinline]] bool try_push(F&& callable) {
    return try_push_built([&]() noexcept -> F&& { return std::forward<F>(callable); });
  }

  /// Pushes the callable that `build` returns; `build` is called once there is a slot. Returns
  /// false if no slot is free. Throws what try_push() throws. The caller must not be inlined into a
  /// coroutine.
  template <class Build>
  [[nodiscard, gnu::always_inline]] bool try_push_built(Build&& build) {
    if (shard* const own_shard = shards_.cached()) [[likely]]
      return push_to(*own_shard, build);
    const auto access = find_or_register_with_slots();
    return access != nullptr && push_to(*access, build);
  }
  /// Pushes the callable that `build` returns; it takes a slot that the caller has acquired. Throws
  /// what try_push() throws; then the slot is released.
  template <class Build>
  [[gnu::noinline]] void push_built(Build&& build) {
    try {
      const auto access = find_or_register();
      push_admitted_task(*access, build());
    } catch (...) {
      slots_->release(1);
      throw;
    }
  }

  /// Waits for a slot for push_built() and stores it in `slot`. Reserves further slots for the
  /// calling thread's next pushes. Returns granted, timed_out or closed.
  [[nodiscard]] admission_result acquire_until(steady_time deadline, semaphore_permit& slot) {
    const auto [result, count] = slots_->wait_until(deadline, slots_->chunk_size());
    if (count == 0) return result;
    slot = semaphore_permit(slots_->slots(), 1);
    if (count > 1) reserve(count - 1);
    return result;
  }

  /// Releases the slots that the calling thread has reserved. Returns false if it has none.
  bool return_reserved_slots() noexcept {
    shard* const own_shard = shards_.cached();
    if (own_shard == nullptr || own_shard->reserved_slots == 0) return false;
    slots_->release(std::exchange(own_shard->reserved_slots, 0));
    return true;
  }

  /// Pushes a callable that takes no slot. Throws what try_push() throws.
  template <class F>
  [[gnu::noinline]] void push(F&& callable) {
    if (shard* const own_shard = shards_.cached()) [[likely]] {
      push_admitted_task(*own_shard, std::forward<F>(callable));
    } else {
      const auto access = find_or_register();
      push_admitted_task(*access, std::forward<F>(callable));
    }
  }

  /// Runs tasks of one producer, at most `max_run` and until the batch is used up; none if only
  /// shards that other workers run have tasks. Returns true if more tasks wait, for which the
  /// caller may wake another worker. Called by workers. Exceptions of tasks are passed on; the
  /// queue stays valid.
  bool run_some(inbox::batch& batch) {
    shard_lease lease(*this);
    if (!lease) return false;
    lease->run(batch, max_run);
    return lease.end();
  }

  /// Whether run_some() would find a task. Sees every push that happened before, except pushes to
  /// shards that workers are running: their run_some() has not returned yet and will find these.
  bool ready() noexcept {
    retired_shards old_shards(*this);
    const std::lock_guard lock(queue_lock_);
    return bring_work_to_front(old_shards);
  }

  /// The number of waiting tasks, with or without a slot. Complexity: O(producers), and a lock.
  std::size_t pending() const noexcept { return shards_.pending(); }
  /// The number of tasks ever pushed; includes each task that the caller has seen run. Complexity:
  /// O(producers), and a lock.
  std::uint64_t pushed() const noexcept { return shards_.pushed(); }

 private:
  // The maximum number of tasks of one producer that a worker runs at a time.
  static constexpr std::size_t max_run = 256;

  class shard;
  using shard_access = inbox::detail::shard_set<shard>::shard_access;

  // The shards of ended threads, which the destructor retires after the lock was released.
  class retired_shards {
   public:
    explicit retired_shards(basic_submissions& owner) noexcept : owner_(owner) {}
    retired_shards& operator=(retired_shards&&) = delete;
    ~retired_shards() {
      while (shard* old_shard = shards_.pop_front()) owner_.shards_.retire(*old_shard);
    }
    void add(shard& empty) noexcept { shards_.push_back(empty); }

   private:
    basic_submissions& owner_;
    intrusive_queue<shard> shards_;
  };

  // A shard to which a worker has exclusive access. The end of the lease, even by an exception,
  // puts the shard back into the queue.
  class shard_lease {
   public:
    explicit shard_lease(basic_submissions& owner) noexcept : owner_(owner) {
      retired_shards old_shards(owner_);
      const std::lock_guard lock(owner_.queue_lock_);
      if (owner_.bring_work_to_front(old_shards)) shard_ = owner_.shards_.take();
    }
    shard_lease& operator=(shard_lease&&) = delete;
    ~shard_lease() {
      if (shard_ != nullptr) end();
    }
    explicit operator bool() const noexcept { return shard_ != nullptr; }
    shard* operator->() const noexcept { return shard_; }

    // Puts the shard back and returns whether there are tasks. Both happen under one lock: a thread
    // that calls ready() during the lease misses this shard and relies on the check here.
    bool end() noexcept {
      retired_shards old_shards(owner_);
      const std::lock_guard lock(owner_.queue_lock_);
      owner_.shards_.put_back(*std::exchange(shard_, nullptr));
      return owner_.bring_work_to_front(old_shards);
    }

   private:
    basic_submissions& owner_;
    shard* shard_ = nullptr;
  };

  // Moves a shard with tasks to the front of the queue; returns whether there is one. Requires
  // queue_lock_.
  bool bring_work_to_front(retired_shards& retired_list) noexcept {
    shards_.admit_new_shards();
    for (std::size_t count = shards_.size(); count > 0; --count) {
      // Reads abandoned() before ready(): a shard that was abandoned and then is empty stays empty.
      const bool is_abandoned = shards_.front()->abandoned();
      if (shards_.front()->ready()) return true;
      shard* const empty = shards_.take();
      if (is_abandoned) {
        retired_list.add(*empty);
      } else {
        shards_.put_back(*empty);
      }
    }
    return false;
  }

  template <class Build>
  bool push_to(shard& own_shard, Build& build) {
    if (own_shard.reserved_slots == 0 && !restock(own_shard)) [[unlikely]]
      return false;
    --own_shard.reserved_slots;
    try {
      push_admitted_task(own_shard, build());
    } catch (...) {
      // The slot does not return into the thread's reserve: other threads may wait for a slot.
      slots_->release(1);
      throw;
    }
    return true;
  }

  template <class F>
  void push_admitted_task(shard& own_shard, F&& callable) {
    inbox::detail::with_cell_sized<1>(std::forward<F>(callable), [&own_shard]<class G>(G&& task) {
      own_shard.push(std::forward<G>(task), [] {});
    });
  }

  auto find_or_register() { return shards_.find_or_register(slots_); }
  // Adds acquired slots to the calling thread's reserve. Releases them if the thread has no shard:
  // a thread that is ending keeps none.
  [[gnu::noinline]] void reserve(std::size_t slots) noexcept {
    if (shard* const own_shard = shards_.find()) {
      own_shard->reserved_slots += slots;
    } else {
      slots_->release(slots);
    }
  }
  // Returns null if the thread has no shard and no slot is free: each refused push of a thread that
  // is ending would otherwise leave a shard for the workers to free.
  [[gnu::noinline]] shard_access find_or_register_with_slots() {
    if (shards_.find() != nullptr) return find_or_register();
    const std::size_t slots = slots_->try_acquire_portion(slots_->chunk_size());
    if (slots == 0) return {};
    try {
      shard_access access = find_or_register();
      access->reserved_slots = slots;
      return access;
    } catch (...) {
      slots_->release(slots);
      throw;
    }
  }

  [[gnu::noinline]] bool restock(shard& own_shard) noexcept {
    own_shard.reserved_slots += slots_->try_acquire_portion(slots_->chunk_size());
    return own_shard.reserved_slots > 0;
  }

  const std::shared_ptr<admission> slots_;
  spin_lock queue_lock_;
  inbox::detail::shard_set<shard> shards_;
};

/// The tasks of one thread, and the slots that it has reserved. The thread releases these slots
/// when it ends, perhaps after the pool; so the shard shares ownership of the admission.
template <std::size_t CellsPerSegment>
class basic_submissions<CellsPerSegment>::shard final
    : public inbox::detail::segment_shard<CellsPerSegment> {
 public:
  explicit shard(std::shared_ptr<admission> slots) noexcept : slots_(std::move(slots)) {}

  std::size_t reserved_slots = 0;  // only the owning thread uses them

 private:
  void return_reserve() noexcept override {
    if (reserved_slots > 0) slots_->release(std::exchange(reserved_slots, 0));
  }

  const std::shared_ptr<admission> slots_;
};

/// The submissions queue that pools use.
using submissions = basic_submissions<254>;

}  // namespace gyre::detail
