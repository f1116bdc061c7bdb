// SPDX-License-Identifier: Apache-2.0
// An HTTP server that its operators can see into: metrics for Prometheus, tasks, connections.
//
//     observed_service [ADDRESS:PORT [INSPECTOR]]
//     curl http://localhost:9464/metrics      # or /tasks, or /connections
#include <gyre/http/inspect_at.hpp>
#include <gyre/http/inspector.hpp>
#include <gyre/http/server.hpp>
#include <gyre/http/trace_propagation.hpp>
#include <gyre/metrics/registry.hpp>
#include <gyre/net/endpoint.hpp>
#include <gyre/runtime/runtime.hpp>
#include <gyre/task/live_tasks.hpp>
#include <gyre/task/schedule.hpp>
#include <gyre/task/task.hpp>

#include <cstdint>
#include <exception>
#include <iostream>
#include <string>

// The number of steps of the Collatz sequence from `n` to 1.
gyre::task<std::uint64_t> count_steps(std::uint64_t n) {
  std::uint64_t steps = 0;
  for (; n > 1; ++steps) n = n % 2 == 0 ? n / 2 : 3 * n + 1;
  co_return steps;
}

gyre::task<> serve(gyre::runtime& rt, gyre::net::endpoint address,
                   gyre::http::inspector& inspector) {
  gyre::metrics::registry& metrics = rt.registry();
  auto& computed = metrics.make_counters("service_sequences_total",
                                         "Sequences by the parity of "
                                         "their beginning.",
                                         {"parity"});
  auto& took = metrics.make_duration_histogram("service_sequence_seconds",
                                               "Time until a sequence was computed.");

  gyre::http::server server(rt.loops(), address, {.counts_routes = true});
  server.use(gyre::http::trace_propagation());
  server.get("/steps/{n}", [&](gyre::http::request& request) -> gyre::task<gyre::http::response> {
    const auto n = request.param<std::uint32_t>("n");
    const gyre::steady_time begin = request.loop().now();
    auto computing = gyre::on(rt.pool(), count_steps(n));
    const std::uint64_t steps = co_await std::move(computing);
    took.record(request.loop().now() - begin);
    computed.with({n % 2 == 0 ? "even" : "odd"}).add();
    co_return gyre::http::response::text(std::to_string(steps) + "\n");
  });

  const auto counted = metrics.add("service", server);
  const auto shown = inspector.show_connections("service", server.tcp());
  server.start();
  std::cout << "listening on " << server.local_endpoint() << ", inspected at "
            << inspector.local_endpoint() << std::endl;

  auto hook = rt.on_shutdown(gyre::shutdown_phase::drain, [&] { return server.stop_async(); });
  co_await rt.drained();
}

int main(int argc, char** argv) try {
  gyre::record_live_tasks(true);  // first of all, so that no task is missing
  const char* address = argc > 1 ? argv[1] : "[::]:8080";
  const char* inspected = argc > 2 ? argv[2] : "127.0.0.1:9464";
  gyre::http::inspector* inspector = nullptr;
  return gyre::runtime::main(
      {.pool = {.record_times = true},
       .inspect = gyre::http::inspect_at(inspected, {},
                                         [&](gyre::http::inspector& one) { inspector = &one; })},
      [&](gyre::runtime& rt) { return serve(rt, address, *inspector); });
} catch (const std::exception& error) {  // an address that is none
  std::cerr << error.what() << std::endl;
  return 1;
}
