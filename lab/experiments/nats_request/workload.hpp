// SPDX-License-Identifier: Apache-2.0
// The workload: callers send requests to a service over a NATS server. Service and server have
// processes of their own.
#pragma once

#include <lab/harness/affinity.hpp>
#include <lab/harness/contender.hpp>
#include <lab/harness/engines/caller.hpp>
#include <lab/harness/engines/item_set.hpp>
#include <lab/harness/engines/load.hpp>
#include <lab/harness/engines/nats_server.hpp>

#include <csignal>
#include <cstdint>
#include <span>
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

/// A contender: a client with one connection. serve() returns when no caller asks any more. A
/// contender that does not run on every machine also has a static probe(), which throws cannot_run.
template <class Contender>
concept contender = requires(const server_address& server, std::span<caller> callers) {
  Contender::serve(server, callers);
};

template <contender Contender>
void run(const parameters& cell, const harness_options& harness, report& result) {
  if constexpr (requires { Contender::probe(); }) Contender::probe();
  const engines::item_set items(engines::item_count, cell.body_bytes);
  const network::side_cpus cpus = engines::split_cpus(harness.pin, cell.load.threads);
  const engines::nats_server server(cpus.server);
  pin_thread(cpus.client);
  server_address address{server.url(), engines::nats_server::subject, {}};
  for (std::uint32_t item = 0; item < items.count(); ++item) {
    address.bodies.push_back(items.value(item));
  }
  engines::run_callers(
      cell.load, harness, items, {"request", "requests"}, [&] { return server.used(); },
      [&](std::span<caller> callers) { Contender::serve(address, callers); }, result);
}

/// The main() of a contender of this experiment.
template <contender Contender>
int contender_main(int argc, const char* const* argv, libraries versions = {}) {
  std::signal(SIGPIPE, SIG_IGN);  // not all contenders write with MSG_NOSIGNAL
  parameters cell;
  arguments options;
  options.number("callers", cell.load.callers, "callers, each with a request in flight", 1, 10'000)
      .number("body-bytes", cell.body_bytes, "bytes of a request and of its reply",
              engines::item_set::smallest_value, 1U << 20)
      .number("duration-ms", cell.load.duration_ms, "milliseconds that are measured", 1, 3'600'000);
  return lab::contender_main(argc, argv, this_contender(std::move(versions)), options,
                             [&cell](const harness_options& harness, report& result) {
                               run<Contender>(cell, harness, result);
                             });
}

}  // namespace lab::nats_request
