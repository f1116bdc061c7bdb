// SPDX-License-Identifier: Apache-2.0
// loop_pool: several loops, each with a thread of its own.
//
//     gyre::loop_pool loops(4, {.name = "io"});
//     loops.next().post(…);              // in turn
//     loops.for_hash(user_id).post(…);   // always the same one for the same user
#pragma once

#include <gyre/base/cache_line.hpp>
#include <gyre/base/clock.hpp>
#include <gyre/base/duration.hpp>
#include <gyre/base/move_only_function.hpp>
#include <gyre/exec/loop_thread.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace gyre {

/// Settings of the loops and their threads. `on_start` and `on_stop` are called for each loop on
/// its thread, `on_stop` on several threads at once; their exceptions are as in loop_thread.
template <class Loop>
struct loop_pool_options {
  /// The name of thread i is NAME-i.
  std::string name = {};
  /// Thread i runs only on cpus[i % cpus.size()]. Empty: on those of the calling thread.
  std::vector<int> cpus = {};
  move_only_function<void(Loop&, std::size_t index)> on_start = {};
  move_only_function<void(Loop&, std::size_t index)> on_stop = {};
  /// Returns the options of each loop; called by the constructor. Empty: the defaults.
  move_only_function<loop_options(std::size_t index)> loop = {};
};

/// A fixed number of loops with their threads, all running when the constructor returns.
///
/// Thread-safety: any thread, but join() and join_for() are the owner's.
/// Lifetime: the destructor stops and joins all. A task of one of the loops may destroy the pool:
/// the destructor then joins the other threads, and the task's thread ends after its turn.
/// Errors: as loop_thread.
template <class Loop>
class basic_loop_pool {
 public:
  using loop_type = Loop;
  using options = loop_pool_options<Loop>;

  /// Throws std::invalid_argument for zero threads, and exceptions of loop_thread's constructor.
  explicit basic_loop_pool(std::size_t threads, options settings = {})
      : options_(std::make_shared<options>(std::move(settings))) {
    if (threads == 0) throw std::invalid_argument("gyre::loop_pool: at least one thread is needed");
    threads_.reserve(threads);
    for (std::size_t index = 0; index < threads; ++index) {
      threads_.push_back(std::make_unique<basic_loop_thread<Loop>>(options_for(index)));
    }
  }
  basic_loop_pool& operator=(basic_loop_pool&&) = delete;
  // All loops are asked to stop before the first thread is joined.
  ~basic_loop_pool() { stop(); }

  std::size_t size() const noexcept { return threads_.size(); }
  Loop& operator[](std::size_t index) noexcept { return threads_[index]->loop(); }
  /// All loops; see loop_group. Allocates.
  std::vector<event_loop*> loops() {
    std::vector<event_loop*> loops;
    loops.reserve(size());
    for (auto& each : threads_) loops.push_back(&each->loop());
    return loops;
  }

  /// The loops in turn. One atomic addition.
  Loop& next() noexcept {
    // relaxed: which loop is next orders nothing.
    return (*this)[next_.fetch_add(1, std::memory_order_relaxed) % size()];
  }
  /// Gives one loop for all calls with one hash and size(). The hash need not be good: its bits are
  /// mixed.
  Loop& for_hash(std::uint64_t hash) noexcept { return (*this)[index_for_hash(hash)]; }
  /// The index of for_hash().
  std::size_t index_for_hash(std::uint64_t hash) const noexcept {
    // Fibonacci hashing (Knuth, 1973), and the high half scaled to the range (Lemire, 2019).
    const std::uint64_t mixed = (hash * 0x9E37'79B9'7F4A'7C15u) >> 32;
    return static_cast<std::size_t>((mixed * size()) >> 32);
  }

  /// Stops each loop after its current turn (see event_loop::stop()); returns at once.
  void stop() noexcept {
    for (auto& each : threads_) each->stop();
  }
  /// Waits until all threads have ended, after stop(). Rethrows the exception that ended a thread,
  /// of several that of the lowest index.
  void join() {
    static_cast<void>(join_each([](basic_loop_thread<Loop>& each) {
      each.join();
      return true;
    }));
  }
  /// As join(), but returns false after `timeout`; may throw while other threads still run.
  [[nodiscard]] bool join_for(duration timeout) {
    const steady_time deadline = detail::later(detail::monotonic_now(), timeout);
    return join_each([deadline](basic_loop_thread<Loop>& each) {
      return each.join_for(deadline - detail::monotonic_now());
    });
  }

 private:
  // Joins each thread, even after an exception, and returns whether all have ended.
  template <class Join>
  bool join_each(Join join) {
    bool all_ended = true;
    std::exception_ptr first_error;
    for (auto& each : threads_) {
      try {
        all_ended = join(*each) && all_ended;
      } catch (...) {
        if (!first_error) first_error = std::current_exception();
      }
    }
    if (first_error) std::rethrow_exception(first_error);
    return all_ended;
  }

  loop_thread_options<Loop> options_for(std::size_t index) {
    loop_thread_options<Loop> result;
    const auto& shared = options_;
    if (!shared->name.empty()) result.name = shared->name + "-" + std::to_string(index);
    if (!shared->cpus.empty()) result.cpus = {shared->cpus[index % shared->cpus.size()]};
    if (shared->on_start) {
      result.on_start = [shared, index](Loop& target) { shared->on_start(target, index); };
    }
    if (shared->on_stop) {
      result.on_stop = [shared, index](Loop& target) { shared->on_stop(target, index); };
    }
    if (shared->loop) result.loop = shared->loop(index);
    return result;
  }

  // Shared with the threads, as a thread that destroys the pool outlives it.
  std::shared_ptr<options> options_;
  std::vector<std::unique_ptr<basic_loop_thread<Loop>>> threads_;
  alignas(false_sharing_range) std::atomic<std::size_t> next_{0};
};

/// A pool of the default loop.
using loop_pool = basic_loop_pool<loop>;

}  // namespace gyre
