// SPDX-License-Identifier: Apache-2.0
#include <gyre/testing/io_in_virtual_time.hpp>

#include <gyre/exec/poller.hpp>
#include <gyre/io/blocking_pool.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <stdexcept>
#include <thread>

namespace gyre::testing {

/// Polls a poller of descriptors without waiting, and lets virtual time pass instead.
class detail::io_poller_in_virtual_time final : public poller {
 public:
  void begin_to_report_deadlock() noexcept {
    reports_deadlock_ = true;
    limit_ = now() + std::chrono::hours(365 * 24);
  }
  void end_to_report_deadlock() noexcept { reports_deadlock_ = false; }
  void set_waiting_for_threads(bool waits) noexcept { waits_for_threads_ = waits; }

  steady_time now() const noexcept override {
    return steady_time(std::chrono::nanoseconds(since_epoch_.load()));
  }
  std::size_t wait(steady_time deadline) override {
    // The pool is asked before the poll: a call that has ended since then has woken this poller.
    const bool pool_works = io::detail::is_blocking_pool_busy();
    const std::size_t events = descriptors_->wait(steady_time::min());
    const bool was_woken = was_woken_.exchange(false);
    if (events > 0 || was_woken || deadline <= now()) return events;
    if (pool_works) {
      // The end of the last call may already have woken this poller, so it is no event to wait for.
      return descriptors_->wait(descriptors_->now() + std::chrono::milliseconds(1));
    }
    if (waits_for_threads_) return descriptors_->wait(steady_time::max());
    if (deadline == steady_time::max() || (reports_deadlock_ && deadline > limit_)) {
      return wait_for_nothing(deadline);
    }
    since_epoch_ = deadline.time_since_epoch().count();
    return 0;
  }
  void complete(std::size_t& completions) override {
    descriptors_->set_slice(slice());
    descriptors_->complete(completions);
  }
  void wake() noexcept override {
    was_woken_ = true;
    descriptors_->wake();
  }
  void watch(readiness_operation& op, readiness interest, trigger mode) override {
    descriptors_->watch(op, interest, mode);
  }
  void rewatch(readiness_operation& op, readiness interest, trigger mode) override {
    descriptors_->rewatch(op, interest, mode);
  }
  void unwatch(readiness_operation& op) noexcept override { descriptors_->unwatch(op); }
  std::size_t watched() const noexcept override { return descriptors_->watched(); }
  io::backend* io() noexcept override { return descriptors_->io(); }
  void leave() noexcept override { descriptors_->leave(); }
  void after_fork() override { descriptors_->after_fork(); }
  const char* name() const noexcept override { return "virtual epoll"; }

 private:
  // The start is an odd time, because no test should depend on a start that is aligned to the
  // timing wheel.
  static constexpr std::chrono::nanoseconds start{3'600'000'000'357};

  std::size_t wait_for_nothing(steady_time deadline) {
    if (std::exchange(reports_deadlock_, false)) {
      throw std::logic_error(
          deadline == steady_time::max()
              ? "io_in_virtual_time: the loop waits, but no descriptor is ready, no timer is "
                "started and nothing is posted: nothing on this thread can wake it; see "
                "set_waiting_for_threads()"
              : "io_in_virtual_time: the work has not ended after a year");
    }
    return descriptors_->wait(steady_time::max());
  }

  const std::unique_ptr<poller> descriptors_ = make_poller(io_interface::epoll);
  std::atomic<std::chrono::nanoseconds::rep> since_epoch_{start.count()};
  std::atomic<bool> was_woken_{false};
  bool reports_deadlock_ = false;
  bool waits_for_threads_ = false;
  steady_time limit_{};
};

io_in_virtual_time::deadlock_report::deadlock_report(io_in_virtual_time& world) noexcept
    : world_(world) {
  world_.poller_.begin_to_report_deadlock();
}
io_in_virtual_time::deadlock_report::~deadlock_report() { world_.poller_.end_to_report_deadlock(); }

io_in_virtual_time::io_in_virtual_time(loop_options options)
    : io_in_virtual_time(std::move(options),
                         std::make_unique<detail::io_poller_in_virtual_time>()) {}
io_in_virtual_time::io_in_virtual_time(loop_options options,
                                       std::unique_ptr<detail::io_poller_in_virtual_time> poller)
    : poller_(*poller), loop(std::move(options), std::move(poller)) {}
io_in_virtual_time::~io_in_virtual_time() = default;

void io_in_virtual_time::settle() {
  for (;;) {
    const bool pool_works = io::detail::is_blocking_pool_busy();
    if (loop.poll()) continue;
    if (!pool_works) return;
    std::this_thread::yield();
  }
}

void io_in_virtual_time::advance(duration length) { loop.run_for(length); }

void io_in_virtual_time::set_waiting_for_threads(bool waits) noexcept {
  poller_.set_waiting_for_threads(waits);
}

}  // namespace gyre::testing
