// SPDX-License-Identifier: Apache-2.0
// One-shot and periodic timers of a loop.
//
//     gyre::timer heartbeat(loop, [&] { connection.ping(); });
//     heartbeat.start_every(30s);
#pragma once

#include <chrono>

#include <gyre/base/clock.hpp>
#include <gyre/base/detail/callback.hpp>
#include <gyre/base/move_only_function.hpp>
#include <gyre/exec/event_loop.hpp>

namespace gyre {

/// Calls a function on the loop's thread when its time has come.
///
/// A timer fires never early, and late by what the loop is busy with; timers fire in the order of
/// their deadlines, and after the I/O that came before: a loop that was busy looks for that first, so
/// that nothing is timed out which has already come. All members belong to the loop's thread (or the loop's owner while no thread
/// runs it). It must not outlive its loop, does not move, and is cancelled by its destructor. The
/// function may start, cancel and destroy any timer, its own included. Starting and cancelling are
/// O(1) and allocate nothing.
class timer {
 public:
  /// `expired` is called each time. What it throws goes to the loop's on_exception.
  timer(event_loop& loop, move_only_function<void()> expired) noexcept;
  timer(const timer&) = delete;
  timer& operator=(const timer&) = delete;
  ~timer();

  /// Fires once, when `delay` has passed; zero or less: in the loop's next turn. Replaces an
  /// earlier start. A delay beyond the end of time never fires.
  void start_after(std::chrono::nanoseconds delay);
  /// Fires once, at `deadline`.
  void start_at(steady_time deadline);
  /// Fires every `period` from now on, the first time when one has passed. The n-th deadline is n
  /// periods after the start, however late the one before was served; deadlines that passed
  /// while the loop was busy fire once, not each. Throws std::invalid_argument unless `period` > 0.
  void start_every(std::chrono::nanoseconds period);
  /// The same with the first deadline at `first`.
  void start_every(std::chrono::nanoseconds period, steady_time first);

  /// Ends it; true if it was active. Never called after this, until it is started again.
  bool cancel() noexcept;
  /// Whether it will fire. False inside the function of a one-shot timer.
  bool active() const noexcept { return node_.linked(); }
  /// When it fires next, if active().
  steady_time deadline() const noexcept { return node_.deadline(); }

 private:
  struct node : timer_operation {
    explicit node(timer& owner) noexcept : timer_operation(&timer::expire), self(&owner) {}
    timer* self;
  };

  static void expire(timer_operation& expired);
  steady_time next_deadline() const noexcept;

  event_loop& loop_;
  node node_{*this};
  std::chrono::nanoseconds period_{0};
  detail::callback<> expired_;
};

}  // namespace gyre
