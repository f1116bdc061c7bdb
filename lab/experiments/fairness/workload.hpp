// SPDX-License-Identifier: Apache-2.0
// A quiet connection beside busy ones: some connections echo as much as they can, and one sends a
// ping now and then. All servers have the same client.
#pragma once

#include <lab/experiments/fairness/pings.hpp>
#include <lab/harness/affinity.hpp>
#include <lab/harness/contender.hpp>
#include <lab/harness/network/bare_epoll.hpp>
#include <lab/harness/network/echo.hpp>
#include <lab/harness/network/exchange.hpp>
#include <lab/harness/network/server_process.hpp>
#include <lab/harness/network/session_threads.hpp>
#include <lab/harness/network/socket.hpp>
#include <lab/harness/timing.hpp>

#include <chrono>
#include <cstdint>
#include <span>

namespace lab::fairness {

struct workload {
  struct parameters {
    std::uint32_t connections = 64;
    std::uint32_t message_bytes = 100'000;
    std::uint32_t duration_ms = 1000;
  };

  static void describe(parameters& cell, arguments& options) {
    options.number("connections", cell.connections, "busy connections", 1, 10'000)
        .number("message-bytes", cell.message_bytes, "bytes that circulate on each of them", 2,
                64 << 20)
        .number("duration-ms", cell.duration_ms, "milliseconds measured", 1, 3'600'000);
  }

  template <class Contender>
  [[noreturn]] static void serve(const char* const* argv) {
    network::serve_sessions<Contender, network::echo_server>(argv);
  }

  /// The first quarter warms up.
  template <class Contender>
  static void run(const parameters& cell, const harness_options& harness, report& result) {
    using std::chrono::milliseconds;
    const network::side_cpus cpus = network::split_cpus(harness.pin);
    const std::uint32_t connections = cell.connections + 1;
    network::raise_descriptor_limit(connections + network::spare_descriptors);
    network::server_process server({.connections = connections}, cpus.server);
    const auto sockets = network::connect_all(server.port(), connections);
    // Never destroyed: the busy thread uses it until the process ends.
    auto& messages = *new network::echo_messages(cell.message_bytes, fault::none);
    auto& busy = network::session_threads<network::echo_client>::make(
        std::span(sockets).first(cell.connections), 1, messages);
    server.await_serving();
    pin_thread(cpus.client);
    busy.template start<network::common_client>(cpus.client);

    const auto received = [&] { return busy.sum(&network::session_counters::bytes); };
    pings quiet(sockets.back(), harness.sabotage);
    quiet.run(clock::now() + milliseconds{cell.duration_ms} / 4, false);
    const network::usage before = server.used();
    stopwatch watch(harness.handicap);
    watch.start();
    const std::uint64_t bytes_before = received();
    // On a crowded machine the time may pass before any bytes have come back.
    const auto patience = clock::now() + std::chrono::seconds(10);
    do {
      quiet.run(clock::now() + milliseconds{cell.duration_ms}, true);
    } while (received() == bytes_before && clock::now() < patience);
    const std::uint64_t bytes = received() - bytes_before;
    watch.stop();
    const network::usage after = server.used();
    if (bytes == 0) return result.fail("nothing arrived on the busy connections");

    const double slower = 1 + harness.handicap / 100;
    const auto microseconds = [&](double percent) {
      return static_cast<double>(quiet.latency().percentile(percent)) * 1e-3 * slower;
    };
    const double mebibytes = static_cast<double>(bytes) / (1 << 20);
    result.metric("p50_us", microseconds(50));
    result.metric("p99_us", microseconds(99));
    result.metric("max_us", microseconds(100));
    result.metric("mib_per_second", mebibytes / watch.seconds());
    result.metric("server_cpu_us_per_mib",
                  (after.cpu_seconds - before.cpu_seconds) * 1e6 / mebibytes);
    result.metric("server_bytes_per_read", static_cast<double>(after.bytes - before.bytes) /
                                               static_cast<double>(after.reads - before.reads));
    result.metric("server_peak_memory_bytes", after.peak_memory_bytes);
    result.units("ping", quiet.sent());
    result.check("pings_answered", quiet.answered(), quiet.sent());
    result.check("wrong_answers", quiet.wrong(), 0);
    result.check("wrong_pieces", busy.sum(&network::session_counters::wrong), 0);
  }
};

}  // namespace lab::fairness
