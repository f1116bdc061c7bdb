// SPDX-License-Identifier: Apache-2.0
#include <lab/harness/websocket/workload.hpp>

#include <lab/harness/affinity.hpp>
#include <lab/harness/http/load.hpp>
#include <lab/harness/network/closed_load.hpp>
#include <lab/harness/timing.hpp>
#include <lab/harness/websocket/load.hpp>

#include <chrono>
#include <string_view>

namespace lab::websocket {
namespace {

constexpr std::uint32_t warm_up_connections = 50;
constexpr std::uint32_t idle_connections = 500;

bool is_broadcast() { return std::string_view(built_as.experiment) == "websocket_broadcast"; }

load_plan plan_of(const cell_parameters& cell, std::uint16_t port, fault sabotage) {
  load_plan plan;
  plan.port = port;
  plan.connections = is_broadcast() ? 0 : cell.connections;
  plan.subscribers = is_broadcast() ? cell.subscribers : 0;
  plan.in_flight = cell.in_flight;
  plan.message_bytes = cell.message_bytes;
  plan.is_packed = cell.compression == packing::deflate;
  plan.sabotage = sabotage;
  return plan;
}

// The growth of the server's memory by WebSockets that are idle.
void measure_idle(network::server_process& server, load& clients, const harness_options& harness,
                  report& result) {
  clients.hold(warm_up_connections);
  const network::usage before = server.used();
  clients.hold(idle_connections);
  const network::usage after = server.used();
  result.metric("bytes_per_connection", network::memory_of_each(before, after, idle_connections) *
                                            (1 + harness.handicap / 100));
}

}  // namespace

void describe_cell(cell_parameters& cell, arguments& options) {
  if (is_broadcast()) {
    options.number("subscribers", cell.subscribers, "connections that get all messages", 1, 60'000);
  } else {
    options.number("connections", cell.connections, "connections of the client", 1, 60'000)
        .choice("compression", cell.compression, "permessage-deflate, or none",
                {{"none", packing::none}, {"deflate", packing::deflate}});
  }
  options.number("in-flight", cell.in_flight, "messages in flight", 1, 64)
      .number("message-bytes", cell.message_bytes, "bytes of a message", 1, max_message_bytes)
      .number("duration-ms", cell.duration_ms, "milliseconds that are measured", 1, 3'600'000);
}

void run_client(const cell_parameters& cell, const harness_options& harness, report& result) {
  const network::side_cpus cpus = network::split_cpus(harness.pin);
  network::raise_descriptor_limit(cell.connections + cell.subscribers + idle_connections +
                                  warm_up_connections + network::spare_descriptors);
  network::server_process server({}, cpus.server);
  server.await_serving();
  pin_thread(cpus.client);
  http::await_listening(server.port());

  const std::chrono::milliseconds duration{cell.duration_ms};
  load clients(plan_of(cell, server.port(), harness.sabotage));
  if (!is_broadcast()) measure_idle(server, clients, harness, result);
  clients.run(clock::now() + duration / 4);
  const network::load_costs costs = network::measure(clients, server, duration, harness);
  clients.finish();
  if (!clients.mistake().empty()) result.fail(clients.mistake());
  result.check("messages", clients.answered(), clients.requested());
  result.check("wrong_messages", clients.wrong(), 0);
  if (costs.answered == 0) result.fail("no message in the measured time");
  if (!result.ok()) return;

  result.metric("messages_per_second", static_cast<double>(costs.answered) / costs.seconds);
  costs.report_per("message", harness, result);
  result.units("message", clients.answered());
}

}  // namespace lab::websocket
