// SPDX-License-Identifier: Apache-2.0
// Cost of a connection to a server: accepting it, holding it while it is idle, and closing it. Each
// connection is used for one byte there and back, so that it has everything a used connection has.
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

/// A contender: accepts connections on `listener`, a non-blocking socket, for ever, echoes the
/// bytes of each, and closes a connection when its peer closes. It runs on one thread and never
/// returns. A contender that does not run on every machine also has a static probe(), which throws
/// cannot_run on machines where it does not run.
template <class Contender>
concept contender_server = requires(int listener) { Contender::serve(listener); };

struct workload {
  struct parameters {
    std::uint32_t connections = 1000;
    std::uint32_t duration_ms = 500;
  };

  static void describe(parameters& cell, arguments& options) {
    options.number("connections", cell.connections, "connections that stay", 2, 1'000'000)
        .number("duration-ms", cell.duration_ms, "milliseconds in which connections come and go", 1,
                3'600'000);
  }

  template <contender_server Contender>
  [[noreturn]] static void serve(const char* const* argv) {
    network::server_side side(argv);
    const int listener = side.listen();
    network::set_non_blocking(listener);
    std::thread([listener] { Contender::serve(listener); }).detach();
    side.serve([](network::usage&) {});
  }

  /// Some connections come and go first, to warm up. Then `connections` come and stay, which is
  /// timed, and the server's memory is read; then others come and go while those are idle.
  template <contender_server Contender>
  static void run(const parameters& cell, const harness_options& harness, report& result) {
    constexpr clock::time_point never = clock::time_point::max();
    constexpr std::uint64_t warm_up = 200;
    const network::side_cpus cpus = network::split_cpus(harness.pin);
    network::raise_descriptor_limit(cell.connections + network::spare_descriptors);
    network::server_process server({.connections = cell.connections}, cpus.server);
    server.await_serving();
    pin_thread(cpus.client);

    visitors clients(server.port());
    clients.visit(warm_up, never, then::leaves);
    const network::usage before = server.used();
    stopwatch coming(harness.handicap);
    coming.start();
    clients.visit(cell.connections, never, then::stays, harness.sabotage);
    coming.stop();
    const network::usage idle = server.used();
    clients.receive_pending();
    result.check("connections_answered", clients.answered(), warm_up + cell.connections);
    result.check("wrong_answers", clients.wrong(), 0);
    if (!result.ok()) return;

    stopwatch churning(harness.handicap);
    churning.start();
    const std::uint64_t came = clients.begun();
    clients.visit(std::numeric_limits<std::uint32_t>::max(),
                  clock::now() + std::chrono::milliseconds(cell.duration_ms), then::leaves);
    const auto visits = static_cast<double>(clients.begun() - came);
    churning.stop();
    const network::usage after = server.used();
    clients.receive_pending();
    result.check("visits_answered", clients.answered(), clients.begun());
    result.check("wrong_visits", clients.wrong(), 0);

    const auto connections = static_cast<double>(cell.connections);
    // Memory is counted in pages, so less than a page is invisible.
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
    result.units("connection", clients.begun());
  }
};

/// The main() of a contender of this experiment.
template <contender_server Contender>
[[noreturn]] void contender_main(int argc, const char* const* argv, libraries versions = {}) {
  network::workload_main<workload, Contender>(argc, argv, std::move(versions));
}

}  // namespace lab::connections
