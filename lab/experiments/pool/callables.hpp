// SPDX-License-Identifier: Apache-2.0
// The ten kinds of callable that the published report's users submit in turn, and the counters of
// the tasks that have run. A task without an argument adds 1 to the sum, a task with an argument
// adds the argument.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>

namespace lab::pool {

/// The number of tasks that have run, and their sum.
struct totals {
  std::uint64_t tasks = 0;
  std::uint64_t sum = 0;
};

/// The counters of all threads that run tasks. Each thread has its own, so that counting a task
/// costs a nanosecond.
class run_counters {
 public:
  /// Counts a task that ran on the calling thread.
  static void record(std::uint64_t value) {
    if (own_ == nullptr) [[unlikely]]
      own_ = &open();
    // relaxed, here and in read(): the counters have one writer, and a reader that needs exact
    // totals has synchronised with the writer by other means.
    own_->tasks.store(own_->tasks.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    own_->sum.store(own_->sum.load(std::memory_order_relaxed) + value, std::memory_order_relaxed);
  }

  /// The sum over all threads. Thread-safety: any thread; exact for tasks that happened before.
  static totals read() {
    const std::lock_guard lock(mutex_);
    totals all;
    for (const thread_counters& each : all_) {
      all.tasks += each.tasks.load(std::memory_order_relaxed);
      all.sum += each.sum.load(std::memory_order_relaxed);
    }
    return all;
  }

 private:
  struct alignas(64) thread_counters {
    std::atomic<std::uint64_t> tasks = 0;
    std::atomic<std::uint64_t> sum = 0;
  };

  static thread_counters& open() {
    const std::lock_guard lock(mutex_);
    return all_.emplace_back();
  }

  static inline std::mutex mutex_;
  static inline std::deque<thread_counters> all_;  // guarded by mutex_
  static constinit inline thread_local thread_counters* own_ = nullptr;
};

inline void free_function() { run_counters::record(1); }

inline void overloaded() { run_counters::record(1); }
inline void overloaded(std::uint64_t value) { run_counters::record(value); }

struct functor {
  void operator()() const { run_counters::record(1); }
  void operator()(std::uint64_t value) const { run_counters::record(value); }
};

struct object {
  void member() const { run_counters::record(1); }
  void member_with_argument(std::uint64_t value) const { run_counters::record(value); }
};

inline constexpr std::uint64_t kinds = 10;

/// The number that the task of submit() with this `number` adds to the sum.
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
    case 2: return pool.post([] { run_counters::record(1); });
    case 3:
      return pool.post(
          std::bind_front([](std::uint64_t value) { run_counters::record(value); }, number));
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
