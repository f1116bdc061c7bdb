// SPDX-License-Identifier: Apache-2.0
// What a timer costs when a loop has a million of them, all objects made beforehand:
//   start_cancel  all are started for a time far away and cancelled in random order, as the time
//                 limits of requests mostly are; timed until the loop has nothing left to do.
//   fire          all are started for random moments of the next 100 ms and run.
// Starting and cancelling happen in one of the loop's callbacks, as in a real program, so a loop
// may use the time it has cached. Only work is timed, not waiting: in `fire` the clock stops once
// all are started, until the last deadline has passed, and goes on while the loop, which held all
// of them at that moment, runs them. Their order is checked there. Whether timers run too early can
// only be seen when the loop waits for them; a round before the timed one does, and is checked too.
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

/// What the workload knows of a timer; a contender keeps it next to the timer itself.
struct entry {
  std::chrono::duration<std::uint32_t, std::micro> delay{0};
  std::uint32_t fired = 0;
};

/// Keeps count of the timers that fired and of what was wrong with them.
class tally {
 public:
  /// `resolution`: that of the loop's time, by which its timers may be early and out of order.
  explicit tally(std::chrono::microseconds resolution) : resolution_(resolution) {}

  /// Starts a round.
  void begin() { *this = tally(resolution_); }

  /// Starts a round in which each timer is looked at for being early, which takes reading the
  /// clock. `now`: a moment before the timers are started.
  void begin_watched(clock::time_point now) {
    begin();
    watched_since_ = now;
  }

  /// What a contender calls when a timer fires.
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

/// What a contender must offer: a loop and its timers 0 … count-1. start() and cancel() are called
/// within run().
template <class Loop>
concept contender_loop =
    std::constructible_from<Loop, std::uint32_t, tally&> &&
    requires(Loop& loop, void (&begin)(), std::uint32_t index) {
      { Loop::resolution } -> std::convertible_to<std::chrono::microseconds>;
      loop.run(begin);  // calls `begin` in the loop; returns when no timer is left to expire
      { loop.at(index) } -> std::same_as<entry&>;
      loop.start(index);                             // to expire at(index).delay from now
      { loop.cancel(index) } -> std::same_as<bool>;  // whether there was something to cancel
    };

/// One contender's loop and what a run has it do.
template <contender_loop Loop>
class rounds {
 public:
  rounds(std::uint32_t timers, double handicap)
      : timers_(timers), handicap_(handicap), order_(timers), loop_(timers + 1, done_) {
    std::iota(order_.begin(), order_.end(), std::uint32_t{0});
    std::ranges::shuffle(order_, random_);
  }

  const tally& done() const { return done_; }
  std::uint64_t cancelled() const { return cancelled_; }

  /// Starts `some` timers and waits for each of them.
  void watch(std::uint32_t some) {
    choose_delays(some, std::chrono::microseconds{0}, window);
    done_.begin_watched(clock::now());
    loop_.run([&] { start(some, mishap::none); });
  }

  /// Starts all timers and cancels them; returns how long that took, in seconds.
  double start_cancel(mishap sabotage) {
    choose_delays(timers_, std::chrono::minutes{1}, std::chrono::hours{1});
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

  /// Starts all timers and runs them once all have expired; returns how long the two took.
  double fire(mishap sabotage) {
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

  void choose_delays(std::uint32_t some, std::chrono::microseconds least,
                     std::chrono::microseconds most) {
    std::uniform_int_distribution<std::uint32_t> delay(static_cast<std::uint32_t>(least.count()),
                                                       static_cast<std::uint32_t>(most.count()));
    for (std::uint32_t i = 0; i < some; ++i) {
      loop_.at(i) = {.delay = std::chrono::duration<std::uint32_t, std::micro>{delay(random_)}};
    }
  }

  void start(std::uint32_t some, mishap sabotage) {
    const std::uint32_t lost = sabotage == mishap::lose ? some / 2 : some;
    for (std::uint32_t i = 0; i < lost; ++i) loop_.start(i);
    for (std::uint32_t i = lost + 1; i < some; ++i) loop_.start(i);
    if (sabotage == mishap::duplicate) start_another();
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
  tally done_{Loop::resolution};
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
  round.start_cancel(mishap::none);

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
    const auto made = static_cast<double>(*allocations_after - *allocations_before);
    result.metric("allocations_per_timer", made / timers);
  }
  if (!fires) result.check("timers_cancelled", round.cancelled(), cell.timers);
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
