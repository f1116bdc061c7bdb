// SPDX-License-Identifier: Apache-2.0
// An executor that forks, for tests of what is offered to other threads: either threads take what
// they can get, or the test says when.
//
//     gyre::test::forking_executor executor(2, gyre::test::stealing::when_told);
//     gyre::sync_wait(gyre::on(executor, gyre::when_all(steals(executor), other())));
//     …  executor.steal_now();  // in a child: the rest goes on, on the other thread
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

enum class stealing { at_once, when_told };

/// Plain on purpose: one mutex and one condition variable for everything. Its destructor waits
/// until no operations are left, also of those that the last ones post.
class forking_executor : public executor {
 public:
  /// What a thread does with its life: calls its second argument.
  using life = std::function<void(forking_executor&, const std::function<void()>&)>;

  explicit forking_executor(
      std::size_t threads, stealing how = stealing::at_once,
      life whole = [](forking_executor&, const std::function<void()>& run) { run(); })
      : how_(how), life_(std::move(whole)), offered_(threads) {
    for (std::size_t i = 0; i < threads; ++i) {
      threads_.emplace_back(
          [this, i](const std::stop_token& drained) { life_(*this, [&] { run(i, drained); }); });
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

  bool offer(operation& op) noexcept override {
    if (!running_here()) return false;
    const std::lock_guard lock(mutex_);
    offered_[here().index].push_back(&op);
    ++offers_;
    if (how_ == stealing::at_once) changed_.notify_all();
    return true;
  }
  bool retract(operation& op) noexcept override {
    const std::lock_guard lock(mutex_);
    std::deque<operation*>& own = offered_[here().index];
    if (own.empty() || own.back() != &op) return false;
    own.pop_back();
    return true;
  }

  /// Lets another thread run what the calling one offered first, and waits until it has: false if
  /// there is nothing. From a thread of the executor; another one must be idle.
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
  /// Runs one operation, if there is one for the calling thread, which is one of the executor.
  bool run_one() {
    std::unique_lock lock(mutex_);
    return run_one(lock, here().index);
  }

  /// How often something was offered, and how often another thread has run that.
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
    return how_ == stealing::at_once &&
           std::ranges::any_of(offered_, [](const auto& each) { return !each.empty(); });
  }
  // Own ones newest first, then posted ones, then the oldest of another thread.
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
    if (handed_ != nullptr || how_ == stealing::when_told) return std::exchange(handed_, nullptr);
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

  const stealing how_;
  const life life_;
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
