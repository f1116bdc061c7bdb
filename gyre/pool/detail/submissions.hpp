// SPDX-License-Identifier: Apache-2.0
// How tasks come into a work-stealing pool from outside: a queue per submitting thread, which the
// workers empty in turn.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <type_traits>
#include <utility>

#include <gyre/base/atomic.hpp>
#include <gyre/base/clock.hpp>
#include <gyre/base/intrusive_queue.hpp>
#include <gyre/exec/inbox/detail/segment_shard.hpp>
#include <gyre/exec/inbox/detail/shard.hpp>
#include <gyre/exec/inbox/detail/shard_set.hpp>
#include <gyre/exec/inbox/detail/task_cell.hpp>
#include <gyre/exec/inbox/inbox.hpp>
#include <gyre/pool/detail/places.hpp>
#include <gyre/sync/detail/spin_lock.hpp>

namespace gyre::detail {

/// A bounded queue with many producers and many consumers, first in first out per producer.
///
/// Each producing thread has a shard: a list of segments, and a stock of reserved places, so that
/// most pushes touch nothing that another producer writes. The shards stand in line; a consumer
/// takes the first one that has tasks, and has it for itself while it runs them. A callable that is
/// "run" here is expected to hand itself over to the worker that runs it. Memory: some 8 KiB per
/// producing thread and 32 bytes per waiting task.
///
/// The pushing members are never inlined: a coroutine may go on on another thread, and compilers
/// keep the addresses of thread-locals across suspensions.
///
/// `CellsPerSegment` is a parameter for the tests; use `submissions`.
template <std::size_t CellsPerSegment>
class basic_submissions {
 public:
  /// Tasks are bounded by `room`, which must outlive this object.
  explicit basic_submissions(places& room) noexcept : places_(room) {}
  basic_submissions(const basic_submissions&) = delete;
  basic_submissions& operator=(const basic_submissions&) = delete;
  /// Destroys what was not run. No other thread may be inside.
  ~basic_submissions() {
    // What is destroyed may push once more, also to a shard that was empty already.
    while (ready()) shards_.front()->drop_all();
    while (shard* each = shards_.take()) shards_.discharge(*each);
  }

  /// Adds a callable that takes a place; false, with `callable` untouched, if none is free. Throws
  /// std::bad_alloc, and what copying or moving `callable` throws; the place is then free again.
  /// About 10 ns.
  template <class F>
  [[nodiscard]] bool try_push(F&& callable) {
    return try_push_made([&]() noexcept -> F&& { return std::forward<F>(callable); });
  }

  /// The same with the callable that `make` returns, which is called once there is a place for it.
  template <class Make>
  [[nodiscard, gnu::noinline]] bool try_push_made(Make&& make) {
    if (shard* const mine = shards_.cached()) [[likely]]
      return push_to(*mine, make);
    const auto entered = shards_.find_or_enter();
    return push_to(*entered, make);
  }

  /// try_push() that waits for a place until `deadline`: granted, timed_out or closed.
  template <class F>
  [[nodiscard]] admission push_until(F&& callable, steady_time deadline) {
    while (!try_push(std::forward<F>(callable))) {
      const admission reserved = reserve_until(deadline);
      if (reserved != admission::granted) return reserved;
    }
    return admission::granted;
  }

  /// Waits until the calling thread has a place for its next push: granted, timed_out or closed.
  [[nodiscard]] admission reserve_until(steady_time deadline) {
    if (reserve()) return admission::granted;
    const auto [how, taken] = places_.wait_until(deadline, places_.chunk(), [this] { reclaim(); });
    if (taken > 0) add_places(taken);
    return how;
  }
  /// Adds to the calling thread's stock places that it took elsewhere. Throws std::bad_alloc, and
  /// has given them back then.
  [[gnu::noinline]] void add_places(std::size_t taken) {
    try {
      shards_.find_or_enter()->add_to_stock(taken);
    } catch (...) {
      places_.give_back(taken);
      throw;
    }
  }

  /// Adds a callable that takes no place. Throws std::bad_alloc, and what copying or moving
  /// `callable` throws.
  template <class F>
  [[gnu::noinline]] void push(F&& callable) {
    if (shard* const mine = shards_.cached()) [[likely]] {
      push_placed(*mine, std::forward<F>(callable));
    } else {
      const auto entered = shards_.find_or_enter();
      push_placed(*entered, std::forward<F>(callable));
    }
  }

  /// Worker: runs tasks of one producer, at most `quantum` of them and as long as the batch lasts;
  /// none if nothing waits but in shards that other workers are at. Whether anything else waits:
  /// then another worker may be woken for it. A task's exception passes, with all in good order.
  bool run_some(inbox::batch& some) {
    turn mine(*this);
    if (!mine) return false;
    mine->run(some, quantum);
    return mine.end();
  }

  /// Any thread: whether run_some() would find a task. Sees every push that happened before, but
  /// for those to shards that workers are at: their run_some() has not returned, and will see them.
  bool ready() noexcept {
    leaving gone(*this);
    const std::lock_guard lock(line_lock_);
    return bring_work_to_front(gone);
  }

  /// Any thread: tasks that wait, with or without a place. O(producers), and a lock.
  std::size_t pending() const noexcept { return shards_.pending(); }
  /// Any thread: how many were ever pushed. Counts every task of which the caller has seen that it
  /// ran. O(producers), and a lock.
  std::uint64_t pushed() const noexcept { return shards_.pushed(); }

  /// Gives back the places of threads that have ended; whether there were any. try_push() does so
  /// before it says that there is no place. Any thread. A load if no thread has ended since.
  bool reclaim() noexcept {
    // acquire: pairs with the release in shard_base::abandon(); the shard is seen as abandoned.
    const std::uint64_t now = inbox::detail::shard_base::abandonments();
    // relaxed: whoever overtakes us has seen at least what we have.
    if (reclaimed_up_to_.load(std::memory_order_relaxed) == now) return false;
    leaving gone(*this);
    const std::lock_guard lock(line_lock_);
    shards_.admit_arrivals();
    for (std::size_t left = shards_.size(); left > 0; --left) {
      shard* const each = shards_.take();
      const bool last = each->abandoned();
      if (last) gone.take_stock(*each);
      if (last && !each->ready()) {
        gone.take(*each);
      } else {
        shards_.put_back(*each);
      }
    }
    reclaimed_up_to_.store(now, std::memory_order_relaxed);
    return gone.places() > 0;
  }

 private:
  // How many tasks of one producer a worker takes at a time.
  static constexpr std::size_t quantum = 256;

  class shard;

  // What ended threads leave: freed and given back when the lock is no longer held.
  class leaving {
   public:
    explicit leaving(basic_submissions& from) noexcept : from_(from) {}
    leaving(const leaving&) = delete;
    leaving& operator=(const leaving&) = delete;
    ~leaving() {
      while (shard* each = shards_.pop_front()) from_.shards_.discharge(*each);
      if (places_ > 0) from_.places_.give_back(places_);
    }
    // A shard that its thread has abandoned: its stock; all of it, when it is empty.
    void take_stock(shard& abandoned) noexcept { places_ += abandoned.give_up_stock(); }
    void take(shard& empty) noexcept {
      take_stock(empty);
      shards_.push_back(empty);
    }
    std::size_t places() const noexcept { return places_; }

   private:
    basic_submissions& from_;
    intrusive_queue<shard> shards_;
    std::size_t places_ = 0;
  };

  // A shard that a worker has for itself, back in line when this ends, also by an exception.
  class turn {
   public:
    explicit turn(basic_submissions& all) noexcept : all_(all) {
      leaving gone(all_);
      const std::lock_guard lock(all_.line_lock_);
      if (all_.bring_work_to_front(gone)) shard_ = all_.shards_.take();
    }
    turn(const turn&) = delete;
    turn& operator=(const turn&) = delete;
    ~turn() {
      if (shard_ != nullptr) end();
    }
    explicit operator bool() const noexcept { return shard_ != nullptr; }
    shard* operator->() const noexcept { return shard_; }

    // Looks under the same lock: who looked in vain while we had the shard was earlier, and so were
    // the pushes that it had to see.
    bool end() noexcept {
      leaving gone(all_);
      const std::lock_guard lock(all_.line_lock_);
      // reclaim() passes over a shard that is not in line; it may have done so just now.
      if (shard_->abandoned()) gone.take_stock(*shard_);
      all_.shards_.put_back(*std::exchange(shard_, nullptr));
      return all_.bring_work_to_front(gone);
    }

   private:
    basic_submissions& all_;
    shard* shard_ = nullptr;
  };

  // Under the lock: whether there is a shard with tasks, which then is the first.
  bool bring_work_to_front(leaving& gone) noexcept {
    shards_.admit_arrivals();
    for (std::size_t left = shards_.size(); left > 0; --left) {
      // Asked before ready(): nothing can follow what an abandoned shard held.
      const bool last = shards_.front()->abandoned();
      if (shards_.front()->ready()) return true;
      shard* const empty = shards_.take();
      if (last) {
        gone.take(*empty);
      } else {
        shards_.put_back(*empty);
      }
    }
    return false;
  }

  template <class Make>
  bool push_to(shard& mine, Make& make) {
    if (!mine.has_stock() && !restock(mine)) [[unlikely]]
      return false;
    mine.take_from_stock();
    try {
      push_placed(mine, make());
    } catch (...) {
      mine.add_to_stock(1);
      throw;
    }
    return true;
  }

  template <class F>
  void push_placed(shard& mine, F&& callable) {
    inbox::detail::with_cell_sized(std::forward<F>(callable), [&mine]<class G>(G&& fitting) {
      mine.push(std::forward<G>(fitting), [] {});
    });
  }

  [[gnu::noinline]] bool reserve() {
    const auto mine = shards_.find_or_enter();
    return mine->has_stock() || restock(*mine);
  }

  [[gnu::noinline]] bool restock(shard& mine) noexcept {
    std::size_t taken = 0;
    do {
      // Few of few, or threads that submit seldom would hold what others need.
      taken = places_.take_some(std::clamp<std::size_t>(places_.free() / 64, 1, places_.chunk()));
    } while (taken == 0 && reclaim());
    mine.add_to_stock(taken);
    return taken > 0;
  }

  places& places_;
  spin_lock line_lock_;
  inbox::detail::shard_set<shard> shards_;
  atomic<std::uint64_t> reclaimed_up_to_{0};
};

/// What one thread has pushed, and the places it holds for what it will push.
template <std::size_t CellsPerSegment>
class basic_submissions<CellsPerSegment>::shard
    : public inbox::detail::segment_shard<CellsPerSegment> {
  using base = inbox::detail::segment_shard<CellsPerSegment>;

 public:
  shard()
      : base([](inbox::detail::shard_base* self) noexcept { delete static_cast<shard*>(self); }) {}

  /// Producer.
  bool has_stock() const noexcept { return stock_ > 0; }
  void take_from_stock() noexcept { --stock_; }
  void add_to_stock(std::size_t added) noexcept { stock_ += added; }

  /// Under the lock, when abandoned.
  std::size_t give_up_stock() noexcept { return std::exchange(stock_, 0); }

 private:
  std::size_t stock_ = 0;
};

/// See basic_submissions.
using submissions = basic_submissions<255>;

}  // namespace gyre::detail
