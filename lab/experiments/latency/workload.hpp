// SPDX-License-Identifier: Apache-2.0
// Latency of requests at a fixed rate to an echo server, sent whether or not earlier ones are
// answered. The latency of a request begins when it is due, not when it is sent, so that a server
// that stalls for a while is charged for all requests that had to wait ("coordinated omission", G.
// Tene). All servers have the same client.
#pragma once

#include <lab/experiments/latency/requests.hpp>
#include <lab/harness/affinity.hpp>
#include <lab/harness/contender.hpp>
#include <lab/harness/network/echo.hpp>
#include <lab/harness/network/exchange.hpp>
#include <lab/harness/network/server_process.hpp>
#include <lab/harness/network/socket.hpp>

#include <cstdint>

namespace lab::latency {

struct workload {
  struct parameters {
    std::uint32_t rate = 10'000;  ///< requests per second, over all connections
    std::uint32_t connections = 16;
    std::uint32_t duration_ms = 1000;
  };

  static void describe(parameters& cell, arguments& options) {
    options.number("rate", cell.rate, "requests per second", 1, 10'000'000)
        .number("connections", cell.connections, "connections that share the requests", 1, 10'000)
        .number("duration-ms", cell.duration_ms, "milliseconds measured", 1, 3'600'000);
  }

  template <class Contender>
  [[noreturn]] static void serve(const char* const* argv) {
    network::serve_sessions<Contender, network::echo_server>(argv);
  }

  /// The first sixth of the requests warms up.
  template <class Contender>
  static void run(const parameters& cell, const harness_options& harness, report& result) {
    const network::side_cpus cpus = network::split_cpus(harness.pin);
    network::raise_descriptor_limit(cell.connections + network::spare_descriptors);
    network::server_process server({.connections = cell.connections}, cpus.server);
    const auto sockets = network::connect_all(server.port(), cell.connections);
    server.await_serving();
    pin_thread(cpus.client);

    const std::uint64_t measured = std::uint64_t{cell.rate} * cell.duration_ms / 1000 + 1;
    requests sent(sockets, cell.rate, measured / 5, measured, harness.sabotage);
    const network::usage before = server.used();
    sent.run();
    const network::usage after = server.used();

    const double slower = 1 + harness.handicap / 100;
    const auto microseconds = [&](const histogram& of, double percent) {
      return static_cast<double>(of.percentile(percent)) * 1e-3 * slower;
    };
    result.metric("p50_us", microseconds(sent.latency(), 50));
    result.metric("p99_us", microseconds(sent.latency(), 99));
    result.metric("p999_us", microseconds(sent.latency(), 99.9));
    result.metric("max_us", microseconds(sent.latency(), 100));
    result.metric("p99_sent_late_us", microseconds(sent.sent_late(), 99));
    result.metric("server_cpu_us_per_request", (after.cpu_seconds - before.cpu_seconds) * 1e6 /
                                                   static_cast<double>(sent.total()));
    result.metric("server_peak_memory_bytes", after.peak_memory_bytes);
    result.units("request", sent.total());
    result.check("requests_answered", sent.answered(), sent.total());
    result.check("wrong_answers", sent.wrong(), 0);
  }
};

}  // namespace lab::latency
