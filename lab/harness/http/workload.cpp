// SPDX-License-Identifier: Apache-2.0
#include <lab/harness/http/workload.hpp>

#include <lab/harness/http/load.hpp>
#include <lab/harness/http/vectors.hpp>
#include <lab/harness/network/closed_load.hpp>
#include <lab/harness/timing.hpp>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace lab::http {
namespace {

// The experiments, by the name that the program is built for.
enum class kind { plain, echo, json, file };

kind this_experiment() {
  const std::string_view name = built_as.experiment;
  if (name == "http_echo") return kind::echo;
  if (name == "http_json") return kind::json;
  return name == "http_file" ? kind::file : kind::plain;
}

load_plan plan_of(const cell_parameters& cell, std::uint16_t port, fault sabotage) {
  load_plan plan;
  plan.port = port;
  plan.connections = cell.connections;
  plan.in_flight = cell.in_flight;
  plan.renewed = cell.use == connection_use::renewed;
  plan.sabotage = sabotage;
  switch (this_experiment()) {
    case kind::plain:
      plan.target = "/plain";
      plan.body = hello;
      break;
    case kind::echo:
      plan.target = "/echo";
      plan.sent_bytes = cell.body_bytes;
      break;
    case kind::json:
      plan.target = "/json";
      plan.body = make_json();
      break;
    case kind::file:
      plan.target = "/file";
      plan.body = make_pattern(file_bytes, 0);
      break;
  }
  return plan;
}

void judge(std::uint16_t port, report& result) {
  const vectors_result judged = judge_server(port, read_request_vectors());
  result.metric("vectors_passed", judged.passed);
  if (std::getenv("GYRE_LAB_VECTORS") == nullptr) return;
  for (const std::string& each : judged.failed) std::fprintf(stderr, "%s\n", each.c_str());
}

}  // namespace

void describe_cell(cell_parameters& cell, arguments& options) {
  const kind which = this_experiment();
  options.number("connections", cell.connections, "connections of the client", 1, 60'000);
  if (which == kind::plain) {
    options.number("in-flight", cell.in_flight, "requests of a connection in flight", 1, 1024);
  }
  if (which == kind::echo) {
    options.number("body-bytes", cell.body_bytes, "bytes of a body", 1, 1U << 20)
        .choice("use", cell.use, "connections that stay, or one for each request",
                {{"kept", connection_use::kept}, {"renewed", connection_use::renewed}});
  }
  options.number("duration-ms", cell.duration_ms, "milliseconds that are measured", 1, 3'600'000);
}

void run_client(const cell_parameters& cell, const harness_options& harness, bool passes_vectors,
                report& result) {
  const network::side_cpus cpus = network::split_cpus(harness.pin);
  network::raise_descriptor_limit(cell.connections + 1000);
  network::server_process server({.connections = cell.connections}, cpus.server);
  server.await_serving();
  pin_thread(cpus.client);
  await_listening(server.port());

  const std::chrono::milliseconds duration{cell.duration_ms};
  load clients(plan_of(cell, server.port(), harness.sabotage));
  clients.run(clock::now() + duration / 4);
  const network::load_costs costs = network::measure(clients, server, duration, harness);
  clients.finish();
  result.check("answers", clients.answered(), clients.requested());
  result.check("wrong_answers", clients.wrong(), 0);
  if (!clients.mistake().empty()) result.fail(clients.mistake());
  if (costs.answered == 0) result.fail("no answer in the measured time");
  if (!result.ok()) return;

  result.metric("requests_per_second", static_cast<double>(costs.answered) / costs.seconds);
  costs.report_per("request", harness, result);
  result.units("request", clients.answered());
  if (this_experiment() == kind::plain && cell.in_flight == 1 && passes_vectors)
    judge(server.port(), result);
}

}  // namespace lab::http
