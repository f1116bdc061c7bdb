// SPDX-License-Identifier: Apache-2.0
// Duration of a ping-pong of framed messages between two processes: a number of turns on each
// connection, all connections at the same time.
#pragma once

#include <lab/experiments/ping_pong/messages.hpp>
#include <lab/harness/contender.hpp>
#include <lab/harness/network/exchange.hpp>
#include <lab/harness/network/server_process.hpp>
#include <lab/harness/timing.hpp>

#include <chrono>
#include <cstdint>

namespace lab::ping_pong {

struct workload {
  struct parameters {
    std::uint32_t connections = 100;
    std::uint32_t threads = 1;  ///< of each side
    std::uint32_t turns = 8192;
    network::client_kind client = network::client_kind::own;
  };

  static void describe(parameters& cell, arguments& options) {
    options.number("connections", cell.connections, "sessions, each with a connection", 1, 60'000)
        .number("threads", cell.threads, "threads of the server, and of the client", 1, 256)
        .number("turns", cell.turns, "messages there and back in a session", 1)
        .choice("client", cell.client, "program that plays the client",
                {{"own", network::client_kind::own}, {"common", network::client_kind::common}});
  }

  template <class Contender>
  [[noreturn]] static void serve(const char* const* argv) {
    network::serve_sessions<Contender, server_session>(argv);
  }

  template <class Contender>
  static void run(const parameters& cell, const harness_options& harness, report& result) {
    using network::session_counters;
    // Never destroyed: the threads use it until the process ends.
    auto& played = *new game(cell.connections, cell.turns, harness.sabotage);
    network::exchange<Contender, client_session> both(
        {.connections = cell.connections, .threads = cell.threads}, harness, played);
    const auto& clients = both.clients();

    const network::usage server_before = both.server().used();
    const double cpu_before = cpu_seconds();
    stopwatch watch(harness.handicap);
    watch.start();
    both.start(cell.client);
    const bool finished = played.completed.wait(
        [&] { return clients.sum(&session_counters::reads); }, std::chrono::seconds(3));
    watch.stop();
    const double cpu = cpu_seconds() - cpu_before;

    result.check("sessions_finished", clients.sum(&session_counters::finished), cell.connections);
    result.check("wrong_messages", clients.sum(&session_counters::wrong), 0);
    result.check("connections_lost", clients.sum(&session_counters::lost), 0);
    if (!finished) return;
    const network::usage server = both.server().used();
    const auto sessions = static_cast<double>(cell.connections);
    const double handicap = 1 + harness.handicap / 100;
    result.metric("seconds_per_session",
                  static_cast<double>(clients.sum(&session_counters::nanoseconds)) * 1e-9 *
                      handicap / sessions);
    result.metric("seconds", watch.seconds());
    result.metric("turns_per_second", sessions * cell.turns / watch.seconds());
    result.metric("server_cpu_seconds", server.cpu_seconds - server_before.cpu_seconds);
    result.metric("client_cpu_seconds", cpu);
    result.metric("server_peak_memory_bytes", server.peak_memory_bytes);
    result.units("turn", std::uint64_t{cell.connections} * cell.turns);
  }
};

}  // namespace lab::ping_pong
