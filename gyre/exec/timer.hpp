// SPDX-License-Identifier: Apache-2.0
// timer: one-shot and periodic timers of a loop.
//
//     gyre::timer heartbeat(loop, [&] { connection.ping(); });
//     heartbeat.start_every(30s);
#pragma once

#include <gyre/base/clock.hpp>
#include <gyre/base/detail/callback.hpp>
#include <gyre/base/detail/misuse.hpp>
#include <gyre/base/duration.hpp>
#include <gyre/base/move_only_function.hpp>
#include <gyre/exec/event_loop.hpp>

#include <chrono>
#include <utility>

namespace gyre {
namespace detail {

GYRE_MISUSED_CALLBACK(misused_timer_callback,
                      "the callback of a timer takes no parameters: capture what it needs", void());

}  // namespace detail

/// A one-shot or periodic timer, which calls a function on the loop's thread.
///
/// A timer never fires early; it fires late if the loop is busy. Timers fire in the order of their
/// deadlines, and after I/O that arrived before: a read does not time out because the loop was
/// busy.
///
/// Thread-safety: all members belong to the loop's thread; while no thread runs the loop, to one
/// thread at a time.
/// Lifetime: the loop must outlive the timer. The destructor cancels. The function may start,
/// cancel and destroy any timer, its own included.
/// Complexity: starting and cancelling are O(1) and allocate nothing.
class timer {
 public:
  /// Makes a timer that is not started. Exceptions of `callback` are passed to the loop's
  /// on_exception.
  timer(event_loop& target, move_only_function<void()> callback) noexcept
      : loop_(target), callback_(std::move(callback)) {}
  // This overload explains wrong arguments: see base/detail/misuse.hpp.
  timer(event_loop& target, detail::misused_timer_callback explained);
  timer& operator=(timer&&) = delete;
  ~timer() { cancel(); }

  /// Fires once, after `delay`; in the loop's next turn if `delay` is zero or less. Every start
  /// replaces an earlier one. A deadline past steady_time::max() is never reached.
  void start_after(duration delay) { start_at(loop_.deadline_after(delay)); }
  // This overload explains wrong arguments: see base/detail/misuse.hpp.
  void start_after(detail::misused_duration explained);
  /// Fires once, at `deadline`.
  void start_at(time_point deadline);
  /// Fires every `period`, first after one period. The n-th deadline is n periods after the start,
  /// however late the timer fires; several deadlines that pass while the loop is busy fire once.
  /// Errors: std::invalid_argument unless `period` > 0.
  void start_every(duration period) { start_every(period, loop_.deadline_after(period)); }
  // This overload explains wrong arguments: see base/detail/misuse.hpp.
  void start_every(detail::misused_duration explained);
  /// Fires at `first`, and every `period` after it.
  void start_every(duration period, time_point first);

  /// Stops the timer. Returns true if the timer was active. The timer does not fire until it is
  /// started again.
  bool cancel() noexcept;
  /// Returns whether the timer will fire. False inside the callback of a one-shot timer.
  bool active() const noexcept { return node_.linked(); }
  /// Returns the next deadline; unspecified unless active().
  steady_time deadline() const noexcept { return node_.deadline(); }

 private:
  struct node : timer_operation {
    explicit node(timer& owner) noexcept : timer_operation(&timer::expire), self(&owner) {}
    timer* self;
  };

  static void expire(timer_operation& operation);
  steady_time next_deadline() const noexcept;

  event_loop& loop_;
  node node_{*this};
  std::chrono::nanoseconds period_{0};
  detail::callback<> callback_;
};

}  // namespace gyre
