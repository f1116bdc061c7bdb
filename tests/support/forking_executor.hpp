// SPDX-License-Identifier: Apache-2.0
// An executor with work stealing, for tests of operations offered to other threads: threads steal
// at once, or when the test says so.
//
//     gyre::test::forking_executor executor(2, gyre::test::stealing::on_demand);
//     gyre::sync_wait(gyre::on(executor, gyre::when_all(steals(executor), other())));
//     …  executor.steal_now();  // in a child: the rest continues on the other thread
#pragma once

#include <gyre/base/intrusive_queue.hpp>
#include <gyre/base/operation.hpp>
#include <gyre/task/executor.hpp>

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

namespace gyre::test {

enum class stealing { at_once, on_demand };

/// Simple on purpose: one mutex and one condition variable for everything. The destructor waits
/// until no operations are left, including those that the last ones post.
class forking_executor : public executor, public fork_queue {
 public:
  /// The body of a thread, which calls its second argument.
  using thread_body = std::function<void(forking_executor&, const std::function<void()>&)>;

  explicit forking_executor(
      std::size_t threads, stealing mode = stealing::at_once,
      thread_body body = [](forking_executor&, const std::function<void()>& run) { run(); })
      : mode_(mode), body_(std::move(body)), offered_(threads) {
    for (std::size_t i = 0; i < threads; ++i) {
      threads_.emplace_back(
          [this, i](const std::stop_token& drained) { body_(*this, [&] { run(i, drained); }); });
    }
  }
  forking_executor(const forking_executor&) = delete;
  forking_executor& operator=(const forking_executor&) = delete;

  void post(operation& op) noexcept override {
    // Notifies with the lock held: the operation may end the executor.
    const std::lock_guard lock(mutex_);
    posted_.push_back(op);
    changed_.notify_all();
  }
  bool running_here() const noexcept override { return here().of == this; }

  fork_queue* fork_queue_here() noexcept override { return running_here() ? this : nullptr; }
  bool push(operation& op) noexcept override {
    const std::lock_guard lock(mutex_);
    offered_[here().index].push_back(&op);
    ++offers_;
    if (mode_ == stealing::at_once) changed_.notify_all();
    return true;
  }
  bool take_back(operation& op) noexcept override {
    const std::lock_guard lock(mutex_);
    std::deque<operation*>& own = offered_[here().index];
    if (own.empty() || own.back() != &op) return false;
    own.pop_back();
    return true;
  }

  /// Lets another thread run the calling thread's oldest offer, and waits until it has run; false
  /// if there is no offer. To be called on a thread of the executor while another thread is idle.
  bool steal_now() {
    std::unique_lock lock(mutex_);
    std::deque<operation*>& own = offered_[here().index];
    if (own.empty()) return false;
    handed_ = own.front();
    own.pop_front();
    changed_.notify_all();
    const std::size_t before = taken_;
    changed_.wait(lock, [&] { return taken_ > before; });
    return true;
  }
  /// Makes the calling thread's queue say that a thief has come in vain.
  void come_in_vain() noexcept { request_work(); }
  /// Runs one operation, if there is one for the calling thread, which must be the executor's.
  bool run_one() {
    std::unique_lock lock(mutex_);
    return run_one(lock, here().index);
  }

  /// The number of offers, and the number of offers that other threads have run.
  std::size_t offers() const {
    const std::lock_guard lock(mutex_);
    return offers_;
  }
  std::size_t steals() const {
    const std::lock_guard lock(mutex_);
    return taken_;
  }

 private:
  struct place {
    const forking_executor* of = nullptr;
    std::size_t index = 0;
  };
  [[gnu::noinline]] static place& here() noexcept {
    static constinit thread_local place current;
    __asm__ volatile("" ::: "memory");
    return current;
  }

  void run(std::size_t index, const std::stop_token& drained) {
    here() = {this, index};
    std::unique_lock lock(mutex_);
    for (;;) {
      if (run_one(lock, index)) continue;
      if (drained.stop_requested()) return;
      changed_.wait(lock, drained, [&] { return has_work(index); });
    }
  }
  bool has_work(std::size_t index) const {
    if (!posted_.empty() || handed_ != nullptr || !offered_[index].empty()) return true;
    return mode_ == stealing::at_once &&
           std::ranges::any_of(offered_, [](const auto& each) { return !each.empty(); });
  }
  // The order: own offers, newest first; then posted operations; then another thread's oldest
  // offer.
  bool run_one(std::unique_lock<std::mutex>& lock, std::size_t index) {
    std::deque<operation*>& own = offered_[index];
    if (!own.empty()) {
      operation* const newest = own.back();
      own.pop_back();
      unlocked(lock, *newest);
    } else if (operation* const posted = posted_.pop_front()) {
      unlocked(lock, *posted);
    } else if (operation* const stolen = steal()) {
      unlocked(lock, *stolen);
      ++taken_;
      changed_.notify_all();
    } else {
      return false;
    }
    return true;
  }
  operation* steal() {
    if (handed_ != nullptr || mode_ == stealing::on_demand) return std::exchange(handed_, nullptr);
    for (std::deque<operation*>& each : offered_) {
      if (each.empty()) continue;
      operation* const oldest = each.front();
      each.pop_front();
      return oldest;
    }
    return nullptr;
  }
  static void unlocked(std::unique_lock<std::mutex>& lock, operation& op) {
    lock.unlock();
    op.execute();
    lock.lock();
  }

  const stealing mode_;
  const thread_body body_;
  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  intrusive_queue<operation> posted_;
  std::vector<std::deque<operation*>> offered_;  // by each thread
  operation* handed_ = nullptr;                  // to another thread by steal_now()
  std::size_t offers_ = 0;
  std::size_t taken_ = 0;
  std::vector<std::jthread> threads_;
};

}  // namespace gyre::test
