// SPDX-License-Identifier: Apache-2.0
// lockstep_loop: for tests of code that still uses a loop after it has posted to the loop.
//
//     gyre::test::lockstep_loop lockstep;
//     lockstep.await_sleep();
//     lockstep.loop.post(function);  // returns after `function` has run
#pragma once

#include <gyre/base/clock.hpp>
#include <gyre/exec/loop.hpp>
#include <tests/support/real_io_poller.hpp>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>

namespace gyre::test {

/// The poller that GYRE_IO names, but wake() returns only when the loop sleeps again, or stopped.
class lockstep_poller final : public real_io_poller {
 public:
  steady_time now() const noexcept override { return clock_->now(); }
  std::size_t wait(steady_time deadline) override {
    if (deadline != steady_time::min()) begin_sleep();
    const std::size_t ready = real().wait(deadline);
    end_sleep();
    return ready;
  }
  void leave() noexcept override {
    real().leave();
    end_sleep();
    begin_sleep();
  }
  void wake() noexcept override {
    std::unique_lock lock(mutex_);
    const std::uint64_t before = ended_sleeps_;
    ++wakers_;
    real().wake();
    sleeps_.wait(lock, [&] { return ended_sleeps_ != before && is_asleep_; });
    --wakers_;
  }
  bool has_waker() {
    const std::lock_guard lock(mutex_);
    return wakers_ > 0;
  }
  void await_sleep() {
    std::unique_lock lock(mutex_);
    sleeps_.wait(lock, [&] { return is_asleep_; });
  }

 private:
  void begin_sleep() noexcept {
    const std::lock_guard lock(mutex_);
    is_asleep_ = true;
    sleeps_.notify_all();
  }
  void end_sleep() noexcept {
    const std::lock_guard lock(mutex_);
    is_asleep_ = false;
    ++ended_sleeps_;
  }

  const poller* clock_ = &real();
  std::mutex mutex_;
  std::condition_variable sleeps_;
  std::uint64_t ended_sleeps_ = 0;
  std::size_t wakers_ = 0;
  bool is_asleep_ = false;
};

/// A loop that a thread of its own runs. Another thread that wakes the sleeping loop continues only
/// when the loop sleeps again.
class lockstep_loop {
  lockstep_poller* const poller_ = new lockstep_poller;

 public:
  lockstep_loop() = default;
  lockstep_loop(const lockstep_loop&) = delete;
  lockstep_loop& operator=(const lockstep_loop&) = delete;
  ~lockstep_loop() { loop.stop(); }

  /// Waits until the loop sleeps.
  void await_sleep() { poller_->await_sleep(); }
  /// Whether a thread that has woken the loop waits for its next sleep. Called by tasks of the
  /// loop: the thread waits until the task has ended.
  bool has_waker() { return poller_->has_waker(); }

  gyre::loop loop{{}, std::unique_ptr<poller>(poller_)};

 private:
  std::jthread runner_{[this] { loop.run(); }};
};

}  // namespace gyre::test
