// SPDX-License-Identifier: Apache-2.0
#include <lab/harness/http2/workload.hpp>

#include <lab/harness/affinity.hpp>
#include <lab/harness/http/load.hpp>
#include <lab/harness/http2/load.hpp>
#include <lab/harness/network/closed_load.hpp>
#include <lab/harness/timing.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace lab::http2 {
namespace {

constexpr std::uint32_t warm_up_connections = 20;
constexpr std::uint32_t idle_connections = 100;
constexpr std::uint32_t held_streams = 25;  // of each idle connection

bool has_bodies() { return std::string_view(built_as.experiment) == "http2_body"; }

load_plan plan_of(const cell_parameters& cell, std::uint16_t port, fault sabotage) {
  load_plan plan;
  plan.port = port;
  plan.connections = cell.connections;
  plan.in_flight = cell.in_flight;
  plan.sabotage = sabotage;
  plan.expected_body = http::hello;
  if (has_bodies() && cell.body == direction::down) {
    plan.target = "/file";
    plan.expected_body = http::make_pattern(http::file_bytes, 0);
  } else if (has_bodies()) {
    plan.target = "/upload";
    plan.sent_body = http::make_pattern(http::file_bytes, 0);
  }
  return plan;
}

// The memory of idle connections and open streams, in connections of their own.
void measure_memory(network::server_process& server, const harness_options& harness,
                    bool holds_streams, report& result) {
  load_plan plan;
  plan.port = server.port();
  plan.connections = 0;
  plan.in_flight = held_streams;
  plan.expected_body = http::hello;
  load warm_up(plan);
  warm_up.hold(warm_up_connections);
  if (holds_streams) warm_up.hold_streams(1);
  load clients(plan);
  const network::usage before = server.used();
  clients.hold(idle_connections);
  const network::usage idle = server.used();
  const double factor = 1 + harness.handicap / 100;
  result.metric("bytes_per_connection",
                network::memory_of_each(before, idle, idle_connections) * factor);
  if (holds_streams) {
    clients.hold_streams(held_streams);
    const network::usage after = server.used();
    result.metric("bytes_per_stream",
                  network::memory_of_each(idle, after, idle_connections * held_streams) * factor);
  }
  if (!clients.mistake().empty()) result.fail(clients.mistake());
}

// Runs the load, and checks that all was answered.
template <class Load>
network::load_costs measure_load(Load& clients, network::server_process& server,
                                 const cell_parameters& cell, const harness_options& harness,
                                 report& result) {
  const std::chrono::milliseconds duration{cell.duration_ms};
  clients.run(clock::now() + duration / 4);
  network::load_costs costs = network::measure(clients, server, duration, harness);
  clients.finish();
  if (!clients.mistake().empty()) result.fail(clients.mistake());
  result.check("responses", clients.answered(), clients.requested());
  result.check("wrong_responses", clients.wrong(), 0);
  if (costs.answered == 0) result.fail("no response in the measured time");
  return costs;
}

void report_costs(const network::load_costs& costs, std::uint64_t answered,
                  const harness_options& harness, report& result) {
  result.metric("requests_per_second", static_cast<double>(costs.answered) / costs.seconds);
  costs.report_per("request", harness, result);
  result.units("request", answered);
}

}  // namespace

void describe_cell(cell_parameters& cell, arguments& options) {
  options.number("connections", cell.connections, "connections of the client", 1, 10'000)
      .number("in-flight", cell.in_flight, "streams of a connection at a time", 1, 1000);
  if (has_bodies()) {
    options.choice("direction", cell.body, "bodies of responses, or of requests",
                   {{"down", direction::down}, {"up", direction::up}});
  }
  options.number("duration-ms", cell.duration_ms, "milliseconds that are measured", 1, 3'600'000);
}

void run_client(const cell_parameters& cell, const harness_options& harness, bool holds_streams,
                report& result) {
  const network::side_cpus cpus = network::split_cpus(harness.pin);
  network::raise_descriptor_limit(cell.connections + idle_connections + warm_up_connections +
                                  network::spare_descriptors);
  network::server_process server({}, cpus.server);
  server.await_serving();
  pin_thread(cpus.client);
  http::await_listening(server.port());

  load clients(plan_of(cell, server.port(), harness.sabotage));
  const network::load_costs costs = measure_load(clients, server, cell, harness, result);
  if (!result.ok()) return;
  // Afterwards, as closing so many streams takes the server's time; and while the connections of
  // the load are open, so that the server cannot use their memory again.
  if (!has_bodies()) measure_memory(server, harness, holds_streams, result);

  report_costs(costs, clients.answered(), harness, result);
}

void run_http1_client(const cell_parameters& cell, const harness_options& harness, report& result) {
  const network::side_cpus cpus = network::split_cpus(harness.pin);
  http::load_plan plan;
  plan.connections = std::size_t{cell.connections} * cell.in_flight;
  plan.target = "/plain";
  plan.body = http::hello;
  plan.sabotage = harness.sabotage;
  network::raise_descriptor_limit(plan.connections + network::spare_descriptors);
  network::server_process server({}, cpus.server);
  server.await_serving();
  pin_thread(cpus.client);
  http::await_listening(server.port());

  plan.port = server.port();
  http::load clients(plan);
  const network::load_costs costs = measure_load(clients, server, cell, harness, result);
  if (result.ok()) report_costs(costs, clients.answered(), harness, result);
}

}  // namespace lab::http2
