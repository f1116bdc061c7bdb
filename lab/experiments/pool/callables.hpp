// SPDX-License-Identifier: Apache-2.0
// The ten kinds of callable that the published report's users submit in turn, and the ledger in
// which tasks note that they have run. A task without an argument adds 1, one with an argument adds
// that.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>

namespace lab::pool {

/// How many tasks have run and what they have added up.
struct totals {
  std::uint64_t tasks = 0;
  std::uint64_t sum = 0;
};

/// An account for each thread that runs tasks, so that noting one costs a nanosecond.
class ledger {
 public:
  /// Notes a task that ran on the calling thread.
  static void note(std::uint64_t value) {
    if (mine_ == nullptr) [[unlikely]]
      mine_ = &open();
    // relaxed, here and in read(): an account has one writer, and who needs exact totals has
    // synchronised with it by other means.
    mine_->tasks.store(mine_->tasks.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    mine_->sum.store(mine_->sum.load(std::memory_order_relaxed) + value, std::memory_order_relaxed);
  }

  /// All accounts together. Any thread; exact for the tasks that happened before.
  static totals read() {
    const std::lock_guard lock(mutex_);
    totals all;
    for (const account& each : accounts_) {
      all.tasks += each.tasks.load(std::memory_order_relaxed);
      all.sum += each.sum.load(std::memory_order_relaxed);
    }
    return all;
  }

 private:
  struct alignas(64) account {
    std::atomic<std::uint64_t> tasks = 0;
    std::atomic<std::uint64_t> sum = 0;
  };

  static account& open() {
    const std::lock_guard lock(mutex_);
    return accounts_.emplace_back();
  }

  static inline std::mutex mutex_;
  static inline std::deque<account> accounts_;  // guarded by mutex_
  static constinit inline thread_local account* mine_ = nullptr;
};

inline void free_function() { ledger::note(1); }

inline void overloaded() { ledger::note(1); }
inline void overloaded(std::uint64_t value) { ledger::note(value); }

struct functor {
  void operator()() const { ledger::note(1); }
  void operator()(std::uint64_t value) const { ledger::note(value); }
};

struct object {
  void member() const { ledger::note(1); }
  void member_with_argument(std::uint64_t value) const { ledger::note(value); }
};

inline constexpr std::uint64_t kinds = 10;

/// What the task adds that submit() makes for this number.
inline std::uint64_t worth(std::uint64_t number) { return number % 2 == 0 ? 1 : number; }

/// Submits the callable of kind `number` % 10; those of odd kinds take `number` as their argument.
/// Returns whether the pool took it.
template <class Pool>
bool submit(Pool& pool, std::uint64_t number) {
  static constexpr object receiver;
  switch (number % kinds) {
    case 0: return pool.post(&free_function);
    case 1:
      return pool.post(std::bind_front(static_cast<void (*)(std::uint64_t)>(&overloaded), number));
    case 2: return pool.post([] { ledger::note(1); });
    case 3:
      return pool.post(std::bind_front([](std::uint64_t value) { ledger::note(value); }, number));
    case 4: return pool.post(functor());
    case 5: return pool.post(std::bind_front(functor(), number));
    case 6: return pool.post(std::bind_front(&object::member, &receiver));
    case 7: return pool.post(std::bind_front(&object::member_with_argument, &receiver, number));
    case 8: return pool.post(std::function<void()>(&free_function));
    default:
      return pool.post(std::bind_front(
          std::function<void(std::uint64_t)>(static_cast<void (*)(std::uint64_t)>(&overloaded)),
          number));
  }
}

}  // namespace lab::pool
