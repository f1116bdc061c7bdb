// SPDX-License-Identifier: Apache-2.0
// Latency of honest clients beside an attack, and without it, in turn. Where it is permitted, the
// server and the honest client run before all other processes, so that neighbours of a shared
// machine disturb little. A contender serves on its thread, and never returns:
//
//     GET  /plain    `http::hello`
//     GET  /medium   32,000 bytes
//     GET  /large    300,000 bytes
//     GET  /stream   a body without an end
//     GET  /slow     nothing, for an hour
//     POST /whole    reads the body as a whole
//     POST /pieces   does not read the body for an hour
#pragma once

#include <lab/experiments/http2_attacked/attackers.hpp>
#include <lab/experiments/http2_attacked/attacks.hpp>
#include <lab/experiments/http2_attacked/honest_clients.hpp>
#include <lab/harness/affinity.hpp>
#include <lab/harness/contender.hpp>
#include <lab/harness/histogram.hpp>
#include <lab/harness/http/site.hpp>
#include <lab/harness/network/exchange.hpp>
#include <lab/harness/network/server_process.hpp>
#include <lab/harness/network/socket.hpp>

#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <thread>
#include <utility>

namespace lab::http2_attacked {

struct workload {
  struct parameters {
    http2_attacked::attack attack = attack::resets;
    std::uint32_t attackers = 8;
    std::uint32_t rate = 500;
    std::uint32_t duration_ms = 1000;
  };

  static void describe(parameters& cell, arguments& options) {
    options
        .choice("attack", cell.attack, "what the hostile clients do",
                {{"none", attack::none},
                 {"stalled_responses", attack::stalled_responses},
                 {"stalled_streams", attack::stalled_streams},
                 {"unread_streams", attack::unread_streams},
                 {"heads", attack::heads},
                 {"incomplete_bodies", attack::incomplete_bodies},
                 {"unread_bodies", attack::unread_bodies},
                 {"reset_data", attack::reset_data},
                 {"resets", attack::resets},
                 {"provoked_resets", attack::provoked_resets},
                 {"pings", attack::pings},
                 {"settings", attack::settings},
                 {"windows", attack::windows},
                 {"priorities", attack::priorities},
                 {"updates", attack::updates},
                 {"unknown_frames", attack::unknown_frames},
                 {"empty_data", attack::empty_data},
                 {"continuations", attack::continuations},
                 {"cookies", attack::cookies},
                 {"crowd", attack::crowd}})
        .number("attackers", cell.attackers, "hostile connections at a time", 1, 10'000)
        .number("rate", cell.rate, "honest requests per second", 1, 100'000)
        .number("duration-ms", cell.duration_ms, "milliseconds with the attack, and without it", 1,
                3'600'000);
  }

  template <class Contender>
  [[noreturn]] static void serve(const char* const* argv) {
    network::server_side side(argv);
    const int listener = side.listen();
    network::set_non_blocking(listener);
    network::disable_delay(listener);  // connections inherit it
    std::thread([listener] {
      take_precedence();
      Contender::serve(listener);
    }).detach();
    side.serve([](network::usage&) {});
  }

  template <class Contender>
  static void run(const parameters& cell, const harness_options& harness, report& result) {
    constexpr std::uint32_t honest_connections = 16;
    constexpr int slices = 10;  // of each kind, in turn
    const network::side_cpus cpus = network::split_cpus(harness.pin);
    network::raise_descriptor_limit(cell.attackers + network::spare_descriptors);
    network::server_process server({}, cpus.server);
    server.await_serving();
    pin_thread(cpus.client);
    // The hostile clients must not delay the honest one on their common processor.
    const bool has_precedence = take_precedence();
    attackers hostile(cell.attack, server.port(), cell.attackers, !has_precedence);
    prctl(PR_SET_TIMERSLACK, 1UL);

    honest_clients honest(server.port(), honest_connections, cell.rate, http::hello,
                          harness.sabotage);
    histogram ignored;
    histogram alone;
    histogram attacked;
    const std::chrono::nanoseconds slice =
        std::chrono::nanoseconds(std::chrono::milliseconds{cell.duration_ms}) / slices;
    honest.run(slice, ignored);
    network::usage spent_alone;
    network::usage spent_attacked;
    for (int i = 0; i < 2 * slices && honest.mistake().empty(); ++i) {
      const bool attacks = i % 2 == 1;
      hostile.attack_now(attacks);
      honest.run(slice / 5, ignored);  // until the attack has begun, or ended
      const network::usage before = server.used();
      honest.run(slice, attacks ? attacked : alone);
      const network::usage after = server.used();
      (attacks ? spent_attacked : spent_alone).cpu_seconds +=
          after.cpu_seconds - before.cpu_seconds;
    }
    hostile.attack_now(false);
    honest.finish();
    if (!honest.mistake().empty()) result.fail(honest.mistake());
    result.check("responses", honest.answered(), honest.requested());

    const double factor = 1 + harness.handicap / 100;
    const auto microseconds = [](const histogram& times, double percent) {
      return static_cast<double>(times.percentile(percent)) * 1e-3;
    };
    const double p99_alone = std::max(microseconds(alone, 99), 1.0);
    const double seconds = static_cast<double>(cell.duration_ms) * 1e-3;
    result.metric("p99_us", microseconds(attacked, 99) * factor);
    result.metric("p99_alone_us", p99_alone);
    result.metric("p99_ratio", microseconds(attacked, 99) * factor / p99_alone);
    result.metric("p50_us", microseconds(attacked, 50) * factor);
    result.metric("p50_alone_us", microseconds(alone, 50));
    result.metric("server_cpu_share", spent_attacked.cpu_seconds / seconds);
    result.metric("hostile_connections", hostile.connections());
    result.metric("server_peak_memory_bytes", server.used().peak_memory_bytes);
    result.units("request", honest.answered());
  }
};

/// The main() of a contender.
template <class Contender>
[[noreturn]] void contender_main(int argc, const char* const* argv) {
  network::workload_main<workload, Contender>(argc, argv, {});
}

}  // namespace lab::http2_attacked
