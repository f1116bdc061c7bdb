// SPDX-License-Identifier: Apache-2.0
// The parts that the loads of HTTP, WebSocket and TLS share: waiting while there is progress, the
// costs of the measured time, and the memory of connections.
#pragma once

#include <lab/harness/contender.hpp>
#include <lab/harness/network/server_process.hpp>
#include <lab/harness/timing.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

namespace lab::network {

/// Calls `turn` until `done`, or until `progress` has given the same number for five seconds.
template <class Turn, class Progress, class Done>
void turn_until(Turn turn, Progress progress, Done done) {
  constexpr std::chrono::seconds patience{5};
  clock::time_point progressed = clock::now();
  while (!done() && clock::now() - progressed < patience) {
    const std::uint64_t before = progress();
    turn();
    if (progress() != before) progressed = clock::now();
  }
}

/// Returns the memory of the server, in bytes, for each of `count` things that were added between
/// two measurements. Memory is counted in pages: growth of less than one page counts as one.
inline double memory_of_each(const usage& before, const usage& after, std::size_t count) {
  constexpr std::uint64_t page = 4096;
  const std::uint64_t least = before.memory_bytes + page;
  const std::uint64_t growth = std::max(after.memory_bytes, least) - before.memory_bytes;
  return static_cast<double>(growth) / static_cast<double>(count);
}

/// The costs of the answers that came in the measured time.
struct load_costs {
  std::uint64_t answered = 0;
  double seconds = 0;
  double client_cpu_seconds = 0;
  usage before;  ///< the server's
  usage after;

  /// Reports the costs of one answer, called `unit` in the names of the metrics.
  void report_per(const std::string& unit, const harness_options& harness, report& result) const {
    const auto count = static_cast<double>(answered);
    result.metric("server_cpu_us_per_" + unit, (after.cpu_seconds - before.cpu_seconds) * 1e6 /
                                                   count * (1 + harness.handicap / 100));
    result.metric("client_cpu_us_per_" + unit, client_cpu_seconds * 1e6 / count);
    if (before.allocations && after.allocations) {
      result.metric("allocations_per_" + unit,
                    static_cast<double>(*after.allocations - *before.allocations) / count);
    }
    result.metric("server_peak_memory_bytes", after.peak_memory_bytes);
  }
};

/// Runs a load, which has answered() and run(end), for this time.
template <class Load>
load_costs measure(Load& clients, server_process& server, std::chrono::milliseconds duration,
                   const harness_options& harness) {
  load_costs costs;
  const double client_before = cpu_seconds();
  costs.before = server.used();
  const std::uint64_t answered_before = clients.answered();
  stopwatch watch(harness.handicap);
  watch.start();
  clients.run(clock::now() + duration);
  costs.answered = clients.answered() - answered_before;
  watch.stop();
  costs.after = server.used();
  costs.client_cpu_seconds = cpu_seconds() - client_before;
  costs.seconds = watch.seconds();
  return costs;
}

}  // namespace lab::network
