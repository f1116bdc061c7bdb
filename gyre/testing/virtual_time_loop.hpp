// SPDX-License-Identifier: Apache-2.0
// virtual_time_loop: a loop in virtual time, which passes only when the loop waits: it then jumps
// exactly to the next deadline.
//
//     gyre::testing::virtual_time_loop virtual_time;
//     gyre::timer timer(virtual_time.loop, [&] { … });
//     timer.start_after(1h);
//     virtual_time.loop.run_once();  // an hour later, at once
#pragma once

#include <gyre/base/clock.hpp>
#include <gyre/base/duration.hpp>
#include <gyre/base/move_only_function.hpp>
#include <gyre/exec/loop.hpp>
#include <gyre/exec/poller.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/task/stop_token.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <stdexcept>
#include <system_error>
#include <utility>

namespace gyre::testing {

/// A poller with virtual time, counted wake-ups and no descriptors; scripted_peer.hpp has streams
/// for it. A wait with a deadline returns at once, at the deadline; a wait without a deadline
/// blocks until another thread calls wake().
///
/// Thread-safety: as poller; any thread for advance(), waits() and wakes().
/// Errors: watching a descriptor throws std::errc::operation_not_supported.
class virtual_poller final : public poller {
 public:
  /// Advances the time by `length`, as if the calling task took that long.
  void advance(duration length) noexcept {
    auto current_time = since_epoch_.load();
    steady_time end;
    do {
      end = gyre::detail::later(steady_time{std::chrono::nanoseconds{current_time}}, length);
    } while (!since_epoch_.compare_exchange_weak(current_time, end.time_since_epoch().count()));
  }
  /// Sets a function that is called on the loop's thread each time the loop sleeps, but not when it
  /// only polls.
  void on_sleep(move_only_function<void()> function) { on_sleep_ = std::move(function); }
  /// Sets whether the next wait without a deadline throws std::logic_error instead of blocking,
  /// unless wake() was called before: for programs that have no other thread.
  void set_report_deadlock(bool reports) noexcept { reports_deadlock_ = reports; }
  /// Sets the backend that performs the requests of streams.
  void set_io(std::shared_ptr<io::backend> requests) noexcept { io_ = std::move(requests); }
  /// The numbers of calls of wait() and wake() so far.
  std::size_t waits() const noexcept { return waits_; }
  std::size_t wakes() const noexcept { return wakes_; }

  steady_time now() const noexcept override {
    return steady_time{std::chrono::nanoseconds{since_epoch_.load()}};
  }
  std::size_t wait(steady_time deadline) override {
    ++waits_;
    const bool must_sleep = deadline > now();
    if (must_sleep && on_sleep_) on_sleep_();
    if (deadline == steady_time::max()) {
      if (wake_flag_ == 0 && std::exchange(reports_deadlock_, false)) {
        throw std::logic_error(
            "virtual_poller: the loop waits, but no timer is started and nothing is posted: "
            "nothing "
            "on this thread can wake it");
      }
      wake_flag_.wait(0);
    }
    if (wake_flag_.exchange(0) == 0 && deadline > now()) {
      since_epoch_ = deadline.time_since_epoch().count();
    }
    return 0;
  }
  void complete(std::size_t&) override {}
  void wake() noexcept override {
    ++wakes_;
    wake_flag_ = 1;
    wake_flag_.notify_one();
  }
  void watch(readiness_operation&, readiness, trigger) override {
    throw std::system_error(std::make_error_code(std::errc::operation_not_supported),
                            "virtual_poller: watches no descriptors; use io_in_virtual_time");
  }
  void rewatch(readiness_operation& op, readiness interest, trigger mode) override {
    watch(op, interest, mode);
  }
  void unwatch(readiness_operation&) noexcept override {}
  std::size_t watched() const noexcept override { return 0; }
  io::backend* io() noexcept override { return io_.get(); }
  void after_fork() override {}
  const char* name() const noexcept override { return "virtual"; }

 private:
  // The start is an odd time, because no test should depend on a start that is aligned to the
  // timing wheel.
  static constexpr std::chrono::nanoseconds start{3'600'000'000'357};

  std::atomic<std::chrono::nanoseconds::rep> since_epoch_{start.count()};
  std::atomic<std::size_t> waits_{0};
  std::atomic<std::size_t> wakes_{0};
  std::atomic<int> wake_flag_{0};
  move_only_function<void()> on_sleep_;
  bool reports_deadlock_ = false;
  std::shared_ptr<io::backend> io_;
};

/// A loop in virtual time, and its poller. Timers and sleeping coroutines run in the order of their
/// deadlines; `time.advance()` makes timers due, which the next turn of the loop runs.
///
/// Thread-safety, Lifetime: as the loop.
template <class Loop = gyre::loop>
class virtual_time_loop {
 public:
  explicit virtual_time_loop(loop_options options = {})
      : virtual_time_loop(std::move(options), std::make_unique<virtual_poller>()) {}

  /// Runs `work` like sync_wait(loop, work, stop), for a program without other threads: if the loop
  /// would wait for ever, throws std::logic_error after it has requested `work` to stop. Work that
  /// ignores the stop blocks the thread.
  template <class Awaitable>
  decltype(auto) run(Awaitable&& work, inplace_stop_token stop = {}) {
    struct end_of_report {
      virtual_poller& poller;
      ~end_of_report() { poller.set_report_deadlock(false); }
    };
    const end_of_report end{time};
    time.set_report_deadlock(true);
    return sync_wait(loop, std::forward<Awaitable>(work), stop);
  }

  virtual_poller& time;
  Loop loop;

 private:
  virtual_time_loop(loop_options options, std::unique_ptr<virtual_poller> poller)
      : time(*poller), loop(std::move(options), std::move(poller)) {}
};

}  // namespace gyre::testing
