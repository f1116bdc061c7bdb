// SPDX-License-Identifier: Apache-2.0
// Throughput of a TCP echo between two processes: the client sends one message on each of its
// connections, and both processes return the bytes that arrive. The client counts what it reads.
#pragma once

#include <lab/harness/contender.hpp>
#include <lab/harness/memory.hpp>
#include <lab/harness/network/echo.hpp>
#include <lab/harness/network/exchange.hpp>
#include <lab/harness/network/server_process.hpp>
#include <lab/harness/timing.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <thread>

namespace lab::throughput {

struct workload {
  struct parameters {
    std::uint32_t connections = 100;
    std::uint32_t message_bytes = 16384;
    std::uint32_t threads = 1;  ///< of each side
    network::client_kind client = network::client_kind::own;
    std::uint32_t duration_ms = 1000;
  };

  static void describe(parameters& cell, arguments& options) {
    options.number("connections", cell.connections, "connections", 1, 60'000)
        .number("message-bytes", cell.message_bytes, "size of the message on each", 2, 64 << 20)
        .number("threads", cell.threads, "threads of the server, and of the client", 1, 256)
        .choice("client", cell.client, "program that plays the client",
                {{"own", network::client_kind::own}, {"common", network::client_kind::common}})
        .number("duration-ms", cell.duration_ms, "milliseconds measured", 1, 3'600'000);
  }

  template <class Contender>
  [[noreturn]] static void serve(const char* const* argv) {
    network::serve_sessions<Contender, network::echo_server>(argv);
  }

  /// The measured time begins when bytes have come back and a warm-up, a quarter of the measured
  /// time but at most a second, is over.
  template <class Contender>
  static void run(const parameters& cell, const harness_options& harness, report& result) {
    using std::chrono::milliseconds;
    // Never destroyed: the threads use it until the process ends.
    auto& messages = *new network::echo_messages(cell.message_bytes, harness.sabotage);
    network::exchange<Contender, network::echo_client> both(
        {.connections = cell.connections, .threads = cell.threads}, harness, messages);
    const auto received = [&] { return both.clients().sum(&network::session_counters::bytes); };
    const auto wrong = [&] { return both.clients().sum(&network::session_counters::wrong); };

    both.start(cell.client);
    wait_until([&] { return received() > 0; });
    std::this_thread::sleep_for(std::min(milliseconds{cell.duration_ms} / 4, milliseconds{1000}));

    const network::usage server_before = both.server().used();
    const double cpu_before = cpu_seconds();
    const std::uint64_t reads_before = both.clients().sum(&network::session_counters::reads);
    stopwatch watch(harness.handicap);
    watch.start();
    const std::uint64_t bytes_before = received();
    std::this_thread::sleep_for(milliseconds{cell.duration_ms});
    const std::uint64_t bytes = received() - bytes_before;
    watch.stop();
    const std::uint64_t reads =
        both.clients().sum(&network::session_counters::reads) - reads_before;
    const double cpu = cpu_seconds() - cpu_before;
    const network::usage server = both.server().used();
    // A fault is noticed once it has come round, which takes longer on a busy machine.
    if (harness.sabotage != fault::none) wait_until([&] { return wrong() > 0; });

    const double mebibytes = static_cast<double>(bytes) / (1 << 20);
    const double server_cpu = server.cpu_seconds - server_before.cpu_seconds;
    const auto server_reads = static_cast<double>(server.reads - server_before.reads);
    result.metric("mib_per_second", mebibytes / watch.seconds());
    result.metric("seconds", watch.seconds());
    result.metric("server_cpu_seconds", server_cpu);
    result.metric("client_cpu_seconds", cpu);
    result.metric("server_cpu_us_per_mib", server_cpu * 1e6 / mebibytes);
    result.metric("server_peak_memory_bytes", server.peak_memory_bytes);
    result.metric("client_peak_memory_bytes", peak_memory_bytes());
    result.metric("server_bytes_per_read",
                  static_cast<double>(server.bytes - server_before.bytes) / server_reads);
    result.metric("client_bytes_per_read", static_cast<double>(bytes) / static_cast<double>(reads));
    result.units("message", std::max<std::uint64_t>(received() / cell.message_bytes, 1));
    result.metric("connections_answered", both.clients().sum(&network::session_counters::finished));
    result.check("wrong_pieces", wrong(), 0);
    result.check("connections_lost", both.clients().sum(&network::session_counters::lost), 0);
    if (bytes == 0) result.fail("nothing arrived");
  }

 private:
  /// Waits until `condition` holds, at most 10 s.
  template <class Condition>
  static void wait_until(Condition condition) {
    const auto began = clock::now();
    while (!condition() && clock::now() - began < std::chrono::seconds(10)) {
      std::this_thread::sleep_for(std::chrono::milliseconds{1});
    }
  }
};

}  // namespace lab::throughput
