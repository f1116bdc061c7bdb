// SPDX-License-Identifier: Apache-2.0
// The workload: callers read values of a Redis server, which has a process of its own.
#pragma once

#include <lab/harness/affinity.hpp>
#include <lab/harness/contender.hpp>
#include <lab/harness/engines/caller.hpp>
#include <lab/harness/engines/item_set.hpp>
#include <lab/harness/engines/load.hpp>
#include <lab/harness/engines/redis_server.hpp>

#include <csignal>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

namespace lab::redis_get {

using engines::caller;
using engines::item_set;

struct parameters {
  engines::load_plan load;
  std::uint32_t value_bytes = 16;
};

/// The server, for a contender.
struct server_address {
  std::string socket;  ///< the path of its Unix socket
  const item_set& items;
};

/// A contender: one thread of the client, with one connection. serve() returns when no caller asks
/// any more. A contender that does not run on every machine also has a static probe(), which throws
/// cannot_run.
template <class Contender>
concept contender = requires(const server_address& server, std::span<caller> callers) {
  Contender::serve(server, callers);
};

template <contender Contender>
void run(const parameters& cell, const harness_options& harness, report& result) {
  if constexpr (requires { Contender::probe(); }) Contender::probe();
  const item_set items(engines::item_count, cell.value_bytes);
  const network::side_cpus cpus = engines::split_cpus(harness.pin, cell.load.threads);
  const engines::redis_server server(items, cpus.server);
  pin_thread(cpus.client);
  const server_address address{server.socket(), items};
  engines::run_callers(
      cell.load, harness, items, {"command", "commands"}, [&] { return server.used(); },
      [&](std::span<caller> callers) { Contender::serve(address, callers); }, result);
}

/// The main() of a contender of this experiment.
template <contender Contender>
int contender_main(int argc, const char* const* argv, libraries versions = {}) {
  std::signal(SIGPIPE, SIG_IGN);  // not all contenders write with MSG_NOSIGNAL
  parameters cell;
  arguments options;
  options.number("callers", cell.load.callers, "callers, each with a command in flight", 1, 10'000)
      .number("value-bytes", cell.value_bytes, "bytes of a value", item_set::smallest_value,
              1U << 20)
      .number("loops", cell.load.threads, "threads of the client", 1, 64)
      .number("duration-ms", cell.load.duration_ms, "milliseconds that are measured", 1, 3'600'000);
  return lab::contender_main(argc, argv, this_contender(std::move(versions)), options,
                             [&cell](const harness_options& harness, report& result) {
                               run<Contender>(cell, harness, result);
                             });
}

}  // namespace lab::redis_get
