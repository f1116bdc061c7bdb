// SPDX-License-Identifier: Apache-2.0
// loop_pool: several loops, each on its own thread.
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
/// its thread, `on_stop` on several threads at the same time. Their exceptions are handled as in
/// loop_thread.
template <class Loop>
struct loop_pool_options {
  /// The prefix of the threads' names: thread i is called NAME-i.
  std::string name = {};
  /// The CPUs: thread i runs only on cpus[i % cpus.size()]. Empty: the CPUs of the calling thread.
  std::vector<int> cpus = {};
  /// Called on the thread of each loop before it runs.
  move_only_function<void(Loop&, std::size_t index)> on_start = {};
  /// Called on the thread of each loop after it has run.
  move_only_function<void(Loop&, std::size_t index)> on_stop = {};
  /// Returns the options of each loop; called by the constructor. Empty: default options.
  move_only_function<loop_options(std::size_t index)> loop = {};
};

/// A fixed number of loops with their threads, all running when the constructor returns.
///
/// Thread-safety: any thread, except that join() and join_for() are called by the owner only.
/// Lifetime: the destructor stops and joins all threads before it destroys the first loop. A task
/// of one of the loops may destroy the pool: the destructor then joins the other threads, and the
/// task's thread ends after its turn.
/// Errors: those of loop_thread.
template <class Loop>
class basic_loop_pool {
 public:
  using loop_type = Loop;
  using options = loop_pool_options<Loop>;

  /// Throws std::invalid_argument for zero threads, and the exceptions of loop_thread's
  /// constructor.
  explicit basic_loop_pool(std::size_t threads, options settings = {})
      : options_(std::make_shared<options>(std::move(settings))) {
    if (threads == 0) throw std::invalid_argument("gyre::loop_pool: at least one thread is needed");
    threads_.reserve(threads);
    for (std::size_t index = 0; index < threads; ++index) {
      threads_.push_back(std::make_unique<basic_loop_thread<Loop>>(options_for(index)));
    }
  }
  basic_loop_pool& operator=(basic_loop_pool&&) = delete;
  // Joins all threads before the first loop is destroyed, because tasks of one loop may still post
  // to another. The thread that destroys the pool cannot be joined.
  ~basic_loop_pool() {
    stop();
    for (auto& thread : threads_) {
      if (!thread->is_current()) thread->join();
    }
  }

  std::size_t size() const noexcept { return threads_.size(); }
  Loop& operator[](std::size_t index) noexcept { return threads_[index]->loop(); }
  /// All loops; see loop_group. Allocates.
  std::vector<event_loop*> loops() {
    std::vector<event_loop*> loops;
    loops.reserve(size());
    for (auto& thread : threads_) loops.push_back(&thread->loop());
    return loops;
  }

  /// Returns the loops in turn. Complexity: one atomic addition.
  Loop& next() noexcept {
    // relaxed: the choice of the next loop orders nothing.
    return (*this)[next_.fetch_add(1, std::memory_order_relaxed) % size()];
  }
  /// Returns the same loop for all calls with the same hash and size(). The bits of the hash are
  /// mixed, so a weak hash suffices.
  Loop& for_hash(std::uint64_t hash) noexcept { return (*this)[index_for_hash(hash)]; }
  /// Returns the index of the loop that for_hash() returns.
  std::size_t index_for_hash(std::uint64_t hash) const noexcept {
    // The product is that of Fibonacci hashing (Knuth, 1973), whose high half is scaled to the
    // range (Lemire, 2019).
    const std::uint64_t high_bits = (hash * 0x9E37'79B9'7F4A'7C15u) >> 32;
    return static_cast<std::size_t>((high_bits * size()) >> 32);
  }

  /// Stops each loop after its current turn (see event_loop::stop()); returns at once.
  void stop() noexcept {
    for (auto& thread : threads_) thread->stop();
  }
  /// Waits until all threads have ended, after stop(). Rethrows the exception that ended a thread;
  /// if there are several, the one of the lowest index.
  void join() {
    static_cast<void>(join_each([](basic_loop_thread<Loop>& thread) {
      thread.join();
      return true;
    }));
  }
  /// Like join(), but returns false after `timeout`. May throw while other threads still run.
  [[nodiscard]] bool join_for(duration timeout) {
    const steady_time deadline = detail::later(detail::monotonic_now(), timeout);
    return join_each([deadline](basic_loop_thread<Loop>& thread) {
      return thread.join_for(deadline - detail::monotonic_now());
    });
  }

 private:
  // Joins each thread, even after an exception; returns whether all have ended.
  template <class Join>
  bool join_each(Join join) {
    bool all_ended = true;
    std::exception_ptr first_error;
    for (auto& thread : threads_) {
      try {
        all_ended = join(*thread) && all_ended;
      } catch (...) {
        if (!first_error) first_error = std::current_exception();
      }
    }
    if (first_error) std::rethrow_exception(first_error);
    return all_ended;
  }

  loop_thread_options<Loop> options_for(std::size_t index) {
    loop_thread_options<Loop> result;
    const auto& settings = options_;
    if (!settings->name.empty()) result.name = settings->name + "-" + std::to_string(index);
    if (!settings->cpus.empty()) result.cpus = {settings->cpus[index % settings->cpus.size()]};
    if (settings->on_start) {
      result.on_start = [settings, index](Loop& target) { settings->on_start(target, index); };
    }
    if (settings->on_stop) {
      result.on_stop = [settings, index](Loop& target) { settings->on_stop(target, index); };
    }
    if (settings->loop) result.loop = settings->loop(index);
    return result;
  }

  // The threads share the options, because a thread that destroys the pool outlives it.
  std::shared_ptr<options> options_;
  std::vector<std::unique_ptr<basic_loop_thread<Loop>>> threads_;
  alignas(false_sharing_range) std::atomic<std::size_t> next_{0};
};

/// A pool of loops of the default type.
using loop_pool = basic_loop_pool<loop>;

}  // namespace gyre
