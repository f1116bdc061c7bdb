// SPDX-License-Identifier: Apache-2.0
// What a connection costs a server: to accept it, to hold it while it is idle, and to let it go.
// Each connection is used for one byte there and back, so it has all that one in use has.
#pragma once

#include <lab/experiments/connections/visitors.hpp>
#include <lab/harness/affinity.hpp>
#include <lab/harness/contender.hpp>
#include <lab/harness/network/exchange.hpp>
#include <lab/harness/network/server_process.hpp>
#include <lab/harness/network/socket.hpp>
#include <lab/harness/timing.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>
#include <thread>
#include <utility>

namespace lab::connections {

/// A contender: accepts connections on `listener`, a non-blocking socket, without end, returns what
/// arrives on each, and closes it when its other end is closed. It runs on one thread and never
/// returns. One that does not run on every machine has a static probe() as well, which throws
/// cannot_run on those where it does not.
template <class Contender>
concept contender_server = requires(int listener) { Contender::serve(listener); };

struct workload {
  struct parameters {
    std::uint32_t connections = 1000;
    std::uint32_t duration_ms = 500;
  };

  static void describe(parameters& cell, arguments& options) {
    options.number("connections", cell.connections, "connections that stay", 2, 1'000'000)
        .number("duration-ms", cell.duration_ms, "how long connections come and go", 1, 3'600'000);
  }

  template <contender_server Contender>
  [[noreturn]] static void serve(const char* const* argv) {
    network::server_side side(argv);
    const int listener = side.listen();
    network::set_non_blocking(listener);
    std::thread([listener] { Contender::serve(listener); }).detach();
    side.serve([](network::usage&) {});
  }

  /// Some connections come and go first, to warm up. Then so many come and stay, which is timed and
  /// after which the server's memory is looked at; then others come and go while those are idle.
  template <contender_server Contender>
  static void run(const parameters& cell, const harness_options& harness, report& result) {
    constexpr clock::time_point never = clock::time_point::max();
    constexpr std::uint64_t warm_up = 200;
    const network::sides sides = network::split(harness.pin);
    network::raise_descriptor_limit(cell.connections + network::spare_descriptors);
    network::server_process server({.connections = cell.connections}, sides.server);
    server.await_serving();
    pin_thread(sides.client);

    visitors made(server.port());
    made.visit(warm_up, never, then::leaves);
    const network::usage before = server.used();
    stopwatch coming(harness.handicap);
    coming.start();
    made.visit(cell.connections, never, then::stays, harness.sabotage);
    coming.stop();
    const network::usage idle = server.used();
    made.look();
    result.check("connections_answered", made.answered(), warm_up + cell.connections);
    result.check("wrong_answers", made.wrong(), 0);
    if (!result.ok()) return;

    stopwatch churning(harness.handicap);
    churning.start();
    const std::uint64_t came = made.begun();
    made.visit(std::numeric_limits<std::uint32_t>::max(),
               clock::now() + std::chrono::milliseconds(cell.duration_ms), then::leaves);
    const auto visits = static_cast<double>(made.begun() - came);
    churning.stop();
    const network::usage after = server.used();
    made.look();
    result.check("visits_answered", made.answered(), made.begun());
    result.check("wrong_visits", made.wrong(), 0);

    const auto connections = static_cast<double>(cell.connections);
    // Memory is counted in pages, so less than one is not seen.
    const std::uint64_t more =
        std::max(idle.memory_bytes, before.memory_bytes + 4096) - before.memory_bytes;
    result.metric("bytes_per_connection",
                  static_cast<double>(more) / connections * (1 + harness.handicap / 100));
    result.metric("connects_per_second", connections / coming.seconds());
    result.metric("visits_per_second", visits / churning.seconds());
    result.metric("cpu_us_per_connect",
                  (idle.cpu_seconds - before.cpu_seconds) * 1e6 / connections);
    result.metric("cpu_us_per_visit", (after.cpu_seconds - idle.cpu_seconds) * 1e6 / visits);
    result.metric("server_peak_memory_bytes", after.peak_memory_bytes);
  }
};

/// The main() of a contender of this experiment.
template <contender_server Contender>
[[noreturn]] void contender_main(int argc, const char* const* argv, libraries versions = {}) {
  network::workload_main<workload, Contender>(argc, argv, std::move(versions));
}

}  // namespace lab::connections
