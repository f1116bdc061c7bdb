// SPDX-License-Identifier: Apache-2.0
// The workload: callers read values of a Redis server, which has a process of its own.
#pragma once

#include <lab/harness/contender.hpp>
#include <lab/harness/engines/caller.hpp>
#include <lab/harness/engines/client.hpp>
#include <lab/harness/engines/item_set.hpp>
#include <lab/harness/engines/load.hpp>
#include <lab/harness/engines/redis_server.hpp>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

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

template <engines::client_of<server_address> Contender>
void run(const parameters& cell, const harness_options& harness, report& result) {
  const item_set items(engines::item_count, cell.value_bytes);
  engines::run_client<Contender>(
      cell.load, harness, items, {"command", "commands"},
      [&items](const std::vector<unsigned>& cpus) { return engines::redis_server(items, cpus); },
      [&items](const engines::redis_server& server) {
        return server_address{server.socket(), items};
      },
      result);
}

/// The main() of a contender of this experiment.
template <engines::client_of<server_address> Contender>
int contender_main(int argc, const char* const* argv, libraries versions = {}) {
  parameters cell;
  arguments options;
  options.number("callers", cell.load.callers, "callers, each with a command in flight", 1, 10'000)
      .number("value-bytes", cell.value_bytes, "bytes of a value", item_set::smallest_value,
              1U << 20)
      .number("loops", cell.load.threads, "threads of the client", 1, 64);
  return engines::client_main(argc, argv, std::move(versions), options, cell.load,
                              [&cell](const harness_options& harness, report& result) {
                                run<Contender>(cell, harness, result);
                              });
}

}  // namespace lab::redis_get
