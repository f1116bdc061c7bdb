// SPDX-License-Identifier: Apache-2.0
// circuit_breaker: stops calls to a service while the service fails.
//
//     gyre::circuit_breaker breaker({.failure_rate = 0.5, .min_calls = 20});
//     if (auto call = breaker.begin(loop.now())) {
//       const bool is_sent = send(mail);
//       is_sent ? call->succeed(loop.now()) : call->fail(loop.now());
//     }
#pragma once

#include <gyre/base/clock.hpp>
#include <gyre/base/duration.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

namespace gyre {

/// Options of a circuit_breaker.
struct circuit_breaker_options {
  /// The share of failed calls in the window from which the circuit opens; more than 0, at most 1.
  double failure_rate = 0.5;
  /// The number of ended calls in the window below which the circuit stays closed; at least 1.
  std::uint64_t min_calls = 20;
  /// The time in which calls are counted, in ten steps. Must be at least 10 ns.
  duration window = std::chrono::seconds{10};
  /// The time for which the circuit stays open before a probe is allowed. Must be positive.
  duration open_time = std::chrono::seconds{5};
};

/// The states of a circuit_breaker.
enum class circuit_state : std::uint8_t {
  closed,     ///< calls are allowed and counted
  open,       ///< calls are refused
  half_open,  ///< one call, the probe, is allowed, and decides on the next state
};

/// Counts calls that succeed and fail, and refuses calls for some time when too many fail, so that
/// callers need not wait in vain and the service can recover.
///
/// | event                                    | closed   | open          | half_open |
/// |------------------------------------------|----------|---------------|-----------|
/// | begin()                                  | allowed  | refused       | refused   |
/// | begin() after `open_time`                | -        | a probe (1)   | -         |
/// | begin() after the probe was abandoned    | -        | -             | a probe   |
/// | a call fails, and the limits are reached | open     | -             | -         |
/// | the probe succeeds                       | -        | -             | closed    |
/// | the probe fails                          | -        | -             | open      |
///
/// (1) The state is then half_open. Calls that began before a change of the state do not count
/// after it, and an abandoned call counts neither as a success nor as a failure.
///
/// Source: Nygard, "Release It!", 2007.
///
/// Thread-safety: none; one thread at a time.
/// Lifetime: must outlive its calls.
/// Errors: the constructor throws std::invalid_argument for an option out of its range.
/// Complexity: a constant number of steps; never allocates.
class circuit_breaker {
 public:
  class call;

  explicit circuit_breaker(circuit_breaker_options options = {});
  circuit_breaker& operator=(circuit_breaker&&) = delete;

  /// Begins a call; returns nothing if the call is refused.
  [[nodiscard]] std::optional<call> begin(time_point now) noexcept;

  /// Returns the state. After `open_time`, the state stays open until the next begin().
  [[nodiscard]] circuit_state state() const noexcept { return state_; }
  /// Returns the number of refused calls since the construction.
  [[nodiscard]] std::uint64_t refused() const noexcept { return refused_calls_; }
  /// Returns how often the circuit has opened, failed probes included.
  [[nodiscard]] std::uint64_t opened() const noexcept { return openings_; }
  /// Whether the circuit is closed, and no call runs or was counted within the window: a new object
  /// would behave in the same way.
  [[nodiscard]] bool is_unused(time_point now) const noexcept;

 private:
  static constexpr std::size_t steps = 10;

  struct step_counts {
    std::int64_t number = -1;  // the time divided by the length of a step; -1: never used
    std::uint64_t calls = 0;
    std::uint64_t failures = 0;
  };

  std::int64_t step_of(steady_time now) const noexcept;
  bool is_in_window(const step_counts& step, std::int64_t current_step) const noexcept;
  void record(bool has_failed, steady_time now) noexcept;
  bool must_open(steady_time now) const noexcept;
  void change_to(circuit_state new_state) noexcept;
  void open(steady_time now) noexcept;

  const circuit_breaker_options options_;
  std::array<step_counts, steps> counts_{};
  circuit_state state_ = circuit_state::closed;
  bool has_probe_ = false;    // whether the probe of the state half_open runs
  steady_time probe_time_{};  // the time of the next probe in the state open
  std::uint64_t epoch_ = 0;   // counts the changes of the state
  std::size_t running_calls_ = 0;
  std::uint64_t refused_calls_ = 0;
  std::uint64_t openings_ = 0;
};

/// A call that has begun. The destructor abandons a call that has neither succeeded nor failed,
/// such as one that its caller has stopped.
class [[nodiscard]] circuit_breaker::call {
 public:
  call(call&& other) noexcept
      : breaker_(std::exchange(other.breaker_, nullptr)), epoch_(other.epoch_) {}
  call& operator=(call&& other) noexcept {
    call source(std::move(other));
    std::swap(breaker_, source.breaker_);
    std::swap(epoch_, source.epoch_);
    return *this;
  }
  ~call() { abandon(); }

  /// Ends the call. Only the first end counts.
  void succeed(time_point now) noexcept { end(false, now); }
  /// Ends the call as a failure, which counts towards opening the breaker.
  void fail(time_point now) noexcept { end(true, now); }
  /// Ends the call without an outcome, as the destructor does.
  void abandon() noexcept;

 private:
  friend circuit_breaker;
  call(circuit_breaker& breaker, std::uint64_t epoch) noexcept
      : breaker_(&breaker), epoch_(epoch) {}

  void end(bool has_failed, steady_time now) noexcept;

  circuit_breaker* breaker_;
  std::uint64_t epoch_;
};

}  // namespace gyre
