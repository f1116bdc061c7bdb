// SPDX-License-Identifier: Apache-2.0
// The workload: callers send requests to a service over a NATS server. Service and server have
// processes of their own.
#pragma once

#include <lab/harness/contender.hpp>
#include <lab/harness/engines/caller.hpp>
#include <lab/harness/engines/client.hpp>
#include <lab/harness/engines/item_set.hpp>
#include <lab/harness/engines/load.hpp>
#include <lab/harness/engines/nats_server.hpp>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace lab::nats_request {

using engines::caller;

struct parameters {
  engines::load_plan load;
  std::uint32_t body_bytes = 16;
};

/// The server, for a contender, and the bodies of requests.
struct server_address {
  std::string url;
  std::string subject;
  std::vector<std::string> bodies;  ///< by the number of the item; each reply is its request's body
};

template <engines::client_of<server_address> Contender>
void run(const parameters& cell, const harness_options& harness, report& result) {
  const engines::item_set items(engines::item_count, cell.body_bytes);
  engines::run_client<Contender>(
      cell.load, harness, items, {"request", "requests"},
      [](const std::vector<unsigned>& cpus) { return engines::nats_server(cpus); },
      [&items](const engines::nats_server& server) {
        server_address address{server.url(), engines::nats_server::subject, {}};
        for (std::uint32_t item = 0; item < items.count(); ++item) {
          address.bodies.push_back(items.value(item));
        }
        return address;
      },
      result);
}

/// The main() of a contender of this experiment.
template <engines::client_of<server_address> Contender>
int contender_main(int argc, const char* const* argv, libraries versions = {}) {
  parameters cell;
  arguments options;
  options.number("callers", cell.load.callers, "callers, each with a request in flight", 1, 10'000)
      .number("body-bytes", cell.body_bytes, "bytes of a request and of its reply",
              engines::item_set::smallest_value, 1U << 20);
  return engines::client_main(argc, argv, std::move(versions), options, cell.load,
                              [&cell](const harness_options& harness, report& result) {
                                run<Contender>(cell, harness, result);
                              });
}

}  // namespace lab::nats_request
