// SPDX-License-Identifier: Apache-2.0
// Cost of a timer in a loop with a million timers, all objects made beforehand:
//   start_cancel  all timers are started with the same delay of a minute and cancelled in random
//                 order, as the time limits of requests mostly are; timed until the loop has
//                 nothing left to do.
//   fire          all timers are started for random moments of the next 100 ms and run.
// Starting and cancelling happen in one of the loop's callbacks, as in a real program, so a loop
// may use its cached time. Only work is timed, not waiting: in `fire` the clock stops once all
// timers are started, until the last deadline has passed, and goes on while the loop, which held
// all timers at that moment, runs them. Their order is checked there. A timer that fires too early
// is noticed only when the loop waits for its timers; an untimed round does that and is checked
// too.
#pragma once

#include <lab/harness/contender.hpp>
#include <lab/harness/memory.hpp>
#include <lab/harness/timing.hpp>

#include <algorithm>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <random>
#include <thread>
#include <utility>
#include <vector>

namespace lab::timers {

enum class operation { start_cancel, fire };

struct parameters {
  timers::operation operation = timers::operation::start_cancel;
  std::uint32_t timers = 1'000'000;
};

/// The workload's data of a timer; a contender stores it next to the timer itself.
struct entry {
  std::chrono::duration<std::uint32_t, std::micro> delay{0};
  std::uint32_t fired = 0;
};

/// Counts the timers that fired, and their errors.
class timer_results {
 public:
  /// `resolution`: the resolution of the loop's clock, by which timers may be early or out of
  /// order.
  explicit timer_results(std::chrono::microseconds resolution) : resolution_(resolution) {}

  /// Starts a round.
  void begin() { *this = timer_results(resolution_); }

  /// Starts a round that also checks whether timers fire early, which reads the clock for each of
  /// them. `now`: a moment before the timers are started.
  void begin_watched(clock::time_point now) {
    begin();
    watched_since_ = now;
  }

  /// To be called by a contender when a timer fires.
  void fire(entry& timer) {
    ++fired_;
    repeated_ += timer.fired++ != 0;
    out_of_order_ += timer.delay + resolution_ < latest_;
    latest_ = std::max<std::chrono::microseconds>(latest_, timer.delay);
    if (watched_since_) early_ += clock::now() + resolution_ < *watched_since_ + timer.delay;
  }

  std::uint64_t fired() const { return fired_; }
  std::uint64_t repeated() const { return repeated_; }
  std::uint64_t out_of_order() const { return out_of_order_; }
  std::uint64_t early() const { return early_; }

 private:
  std::chrono::microseconds resolution_;
  std::chrono::microseconds latest_{0};
  std::uint64_t fired_ = 0;
  std::uint64_t repeated_ = 0;
  std::uint64_t out_of_order_ = 0;
  std::uint64_t early_ = 0;
  std::optional<clock::time_point> watched_since_;
};

/// The interface of a contender: a loop and its timers 0 … count-1. start() and cancel() are called
/// within run().
template <class Loop>
concept contender_loop =
    std::constructible_from<Loop, std::uint32_t, timer_results&> &&
    requires(Loop& loop, void (&begin)(), std::uint32_t index) {
      { Loop::resolution } -> std::convertible_to<std::chrono::microseconds>;
      loop.run(begin);  // calls `begin` in the loop; returns when no timer is pending
      { loop.at(index) } -> std::same_as<entry&>;
      loop.start(index);                             // to expire at(index).delay from now
      { loop.cancel(index) } -> std::same_as<bool>;  // whether there was something to cancel
    };

/// One contender's loop and the rounds of a run.
template <contender_loop Loop>
class rounds {
 public:
  rounds(std::uint32_t timers, double handicap)
      : timers_(timers), handicap_(handicap), order_(timers), loop_(timers + 1, done_) {
    std::iota(order_.begin(), order_.end(), std::uint32_t{0});
    std::ranges::shuffle(order_, random_);
  }

  const timer_results& done() const { return done_; }
  std::uint64_t cancelled() const { return cancelled_; }

  /// Starts `count` timers and waits for each of them.
  void watch(std::uint32_t count) {
    choose_delays(count, std::chrono::microseconds{0}, window);
    done_.begin_watched(clock::now());
    loop_.run([&] { start(count, fault::none); });
  }

  /// Starts all timers and cancels them; returns the duration in seconds.
  double start_cancel(fault sabotage) {
    choose_delays(timers_, std::chrono::minutes{1}, std::chrono::minutes{1});
    done_.begin();
    cancelled_ = 0;
    stopwatch watch(handicap_);
    loop_.run([&] {
      watch.start();
      start(timers_, sabotage);
      for (const std::uint32_t index : order_) cancelled_ += loop_.cancel(index);
    });
    watch.stop();
    return watch.seconds();
  }

  /// Starts all timers and runs them once all have expired; returns the duration of both in
  /// seconds.
  double fire(fault sabotage) {
    choose_delays(timers_, std::chrono::microseconds{0}, window);
    done_.begin();
    stopwatch starting(handicap_);
    stopwatch running(handicap_);
    loop_.run([&] {
      starting.start();
      start(timers_, sabotage);
      starting.stop();
      std::this_thread::sleep_for(window + 2 * Loop::resolution);
      running.start();
    });
    running.stop();
    return starting.seconds() + running.seconds();
  }

 private:
  static constexpr std::chrono::milliseconds window{100};

  void choose_delays(std::uint32_t count, std::chrono::microseconds least,
                     std::chrono::microseconds most) {
    std::uniform_int_distribution<std::uint32_t> delay(static_cast<std::uint32_t>(least.count()),
                                                       static_cast<std::uint32_t>(most.count()));
    for (std::uint32_t i = 0; i < count; ++i) {
      loop_.at(i) = {.delay = std::chrono::duration<std::uint32_t, std::micro>{delay(random_)}};
    }
  }

  void start(std::uint32_t count, fault sabotage) {
    const std::uint32_t lost = sabotage == fault::lose ? count / 2 : count;
    for (std::uint32_t i = 0; i < lost; ++i) loop_.start(i);
    for (std::uint32_t i = lost + 1; i < count; ++i) loop_.start(i);
    if (sabotage == fault::duplicate) start_another();
  }

  // One timer more than there should be.
  void start_another() {
    loop_.at(timers_) = {};
    loop_.start(timers_);
  }

  const std::uint32_t timers_;
  const double handicap_;
  std::mt19937_64 random_;  // the same numbers in every run and for every contender
  std::vector<std::uint32_t> order_;
  std::uint64_t cancelled_ = 0;
  timer_results done_{Loop::resolution};
  Loop loop_;
};

/// Warms up code, caches and the loop's own storage in two rounds, then times the third.
template <contender_loop Loop>
void run(const parameters& cell, const harness_options& harness, report& result) {
  rounds<Loop> round(cell.timers, harness.handicap);
  const std::uint32_t watched = std::min(cell.timers, 5'000u);
  round.watch(watched);
  result.check("watched_fired", round.done().fired(), watched);
  result.check("watched_early", round.done().early(), 0);
  result.check("watched_out_of_order", round.done().out_of_order(), 0);
  round.start_cancel(fault::none);

  const auto allocations_before = allocations();
  const bool fires = cell.operation == operation::fire;
  const double seconds =
      fires ? round.fire(harness.sabotage) : round.start_cancel(harness.sabotage);
  const auto allocations_after = allocations();

  const auto timers = static_cast<double>(cell.timers);
  result.metric("ns_per_timer", seconds * 1e9 / timers);
  result.metric("seconds", seconds);
  result.metric("peak_memory_bytes", peak_memory_bytes());
  if (allocations_after) {
    const auto count = static_cast<double>(*allocations_after - *allocations_before);
    result.metric("allocations_per_timer", count / timers);
  }
  if (!fires) result.check("timers_cancelled", round.cancelled(), cell.timers);
  result.units("timer", watched + 2 * std::uint64_t{cell.timers});
  result.check("timers_fired", round.done().fired(), fires ? cell.timers : 0);
  result.check("fired_twice", round.done().repeated(), 0);
  result.check("out_of_order", round.done().out_of_order(), 0);
}

/// The main() of a contender of this experiment.
template <contender_loop Loop>
int contender_main(int argc, const char* const* argv, libraries versions = {}) {
  parameters cell;
  arguments options;
  options
      .choice("operation", cell.operation, "what is done with each timer",
              {{"start_cancel", operation::start_cancel}, {"fire", operation::fire}})
      .number("timers", cell.timers, "timers started at a time", 2, 100'000'000);
  return lab::contender_main(argc, argv, this_contender(std::move(versions)), options,
                             [&cell](const harness_options& harness, report& result) {
                               run<Loop>(cell, harness, result);
                             });
}

}  // namespace lab::timers
