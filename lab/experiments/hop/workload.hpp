// SPDX-License-Identifier: Apache-2.0
// Latency of a hop from thread to thread: N loops, each in a thread of its own, pass one token
// around. The loop that receives the token times the hop.
#pragma once

#include <lab/experiments/hop/ring.hpp>
#include <lab/harness/contender.hpp>
#include <lab/harness/memory.hpp>
#include <lab/harness/timing.hpp>

#include <algorithm>
#include <cstdint>
#include <utility>

namespace lab::hop {

/// The form of a hop: a posted callable that holds the token, or an intrusive node without storage.
enum class form { callable, intrusive };

struct parameters {
  std::uint32_t loops = 2;
  std::uint64_t hops = 1'000'000;  ///< in all
  hop::form form = form::callable;
};

/// Two rounds on the same loops: a small one that warms up code, caches and allocators, and the
/// timed one.
template <contender_loop Loop>
void run(const parameters& cell, const harness_options& harness, report& result) {
  stopwatch watch(harness.handicap);
  ring<Loop> loops(cell.loops, harness.pin, watch);
  const auto go = [&](std::uint64_t hops, fault sabotage) {
    loops.start(hops, sabotage);
    if (!loops.wait()) {
      result.check("hops_run", loops.hops(), hops);
      result.abandon();
    }
  };
  const std::uint64_t warm_up = std::max<std::uint64_t>(cell.hops / 50, 1);
  go(warm_up, fault::none);
  const auto allocations_before = allocations();
  const auto wakeups_before = loops.wakeups();
  const double cpu_before = cpu_seconds();
  go(cell.hops, harness.sabotage);
  const double cpu = cpu_seconds() - cpu_before;
  const auto allocations_after = allocations();
  const auto wakeups_after = loops.wakeups();
  loops.stop();

  const auto hops = static_cast<double>(cell.hops);
  const histogram latency = loops.latency();
  result.metric("ns_per_hop", watch.seconds() * 1e9 / hops);
  result.metric("cpu_ns_per_hop", cpu * 1e9 / hops);
  result.metric("seconds", watch.seconds());
  result.metric("p50_ns", latency.percentile(50));
  result.metric("p99_ns", latency.percentile(99));
  if (wakeups_after) result.metric("wakeups", *wakeups_after - *wakeups_before);
  result.metric("peak_memory_bytes", peak_memory_bytes());
  if (allocations_after) {
    const auto count = static_cast<double>(*allocations_after - *allocations_before);
    result.metric("allocations_per_hop", count / hops);
  }
  result.units("hop", warm_up + cell.hops);
  result.check("hops_run", loops.hops(), cell.hops);
  result.check("wrong_thread", loops.wrong_thread(), 0);
  result.check("loops_skipped", loops.skipped(cell.hops), 0);
}

/// The main() of a contender of this experiment. A contender with a single form names one loop, and
/// its figures stand beside both forms.
template <contender_loop CallableLoop, contender_loop IntrusiveLoop = CallableLoop>
int contender_main(int argc, const char* const* argv, libraries versions = {}) {
  parameters cell;
  arguments options;
  options.number("loops", cell.loops, "loops in the ring", 2, 1024)
      .number("hops", cell.hops, "hops of the token in all", 1)
      .choice("form", cell.form, "form in which the token is posted",
              {{"callable", form::callable}, {"intrusive", form::intrusive}});
  return lab::contender_main(argc, argv, this_contender(std::move(versions)), options,
                             [&cell](const harness_options& harness, report& result) {
                               if (cell.form == form::callable) {
                                 run<CallableLoop>(cell, harness, result);
                               } else {
                                 run<IntrusiveLoop>(cell, harness, result);
                               }
                             });
}

}  // namespace lab::hop
