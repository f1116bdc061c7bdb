// SPDX-License-Identifier: Apache-2.0
#include <lab/harness/tls/workload.hpp>

#include <lab/harness/affinity.hpp>
#include <lab/harness/network/closed_load.hpp>
#include <lab/harness/timing.hpp>
#include <lab/harness/tls/load.hpp>

#include <chrono>
#include <string>
#include <string_view>

namespace lab::tls {
namespace {

bool measures_handshakes() { return std::string_view(built_as.experiment) == "tls_handshake"; }

load_plan plan_of(const cell_parameters& cell, std::uint16_t port, bool encrypted, fault sabotage) {
  return {.port = port,
          .connections = cell.connections,
          .message_bytes = measures_handshakes() ? 1 : cell.message_bytes,
          .encrypted = encrypted,
          .renewed = measures_handshakes(),
          .resumed = cell.handshake == handshake_kind::resumed,
          .sabotage = sabotage};
}

// The growth of the server's memory by connections that are idle, after others have come and gone.
void measure_idle(const cell_parameters& cell, network::server_process& server, load& clients,
                  const harness_options& harness, report& result) {
  const network::usage before = server.used();
  clients.hold(cell.idle_connections);
  const network::usage after = server.used();
  result.metric(
      "bytes_per_connection",
      network::memory_of_each(before, after, cell.idle_connections) * (1 + harness.handicap / 100));
}

}  // namespace

void describe_cell(cell_parameters& cell, arguments& options) {
  options.number("connections", cell.connections, "connections of the client", 1, 10'000);
  if (measures_handshakes()) {
    options
        .choice("handshake", cell.handshake, "each one full, or of a session that is resumed",
                {{"full", handshake_kind::full}, {"resumed", handshake_kind::resumed}})
        .number("idle-connections", cell.idle_connections, "connections that stay", 1, 100'000);
  } else {
    options.number("message-bytes", cell.message_bytes, "bytes of a message", 1, 1U << 20);
  }
  options.number("duration-ms", cell.duration_ms, "milliseconds that are measured", 1, 3'600'000);
}

void run_client(const cell_parameters& cell, const harness_options& harness, bool encrypted,
                report& result) {
  const network::side_cpus cpus = network::split_cpus(harness.pin);
  const std::uint32_t idle = measures_handshakes() ? cell.idle_connections : 0;
  network::raise_descriptor_limit(cell.connections + idle + network::spare_descriptors);
  const credentials made = make_credentials();
  network::server_process server({.connections = cell.connections}, cpus.server);
  server.await_serving();
  pin_thread(cpus.client);

  const std::chrono::milliseconds duration{cell.duration_ms};
  load clients(plan_of(cell, server.port(), encrypted, harness.sabotage),
               make_client_context(made));
  clients.run(clock::now() + duration / 4);
  if (measures_handshakes()) measure_idle(cell, server, clients, harness, result);
  const network::load_costs costs = network::measure(clients, server, duration, harness);
  clients.finish();
  if (!clients.mistake().empty()) result.fail(clients.mistake());
  result.check("answers", clients.answered(), clients.sent());
  result.check("wrong_answers", clients.wrong(), 0);
  if (costs.answered == 0) result.fail("no answer in the measured time");
  if (!result.ok()) return;

  const double per_second = static_cast<double>(costs.answered) / costs.seconds;
  if (measures_handshakes()) {
    result.metric("handshakes_per_second", per_second);
  } else {
    result.metric("mib_per_second", per_second * cell.message_bytes / (1 << 20));
    result.metric("cipher_us_per_message", cipher_microseconds(cell.message_bytes));
  }
  const std::string unit = measures_handshakes() ? "handshake" : "message";
  costs.report_per(unit, harness, result);
  result.units(unit, clients.answered());
}

}  // namespace lab::tls
