// SPDX-License-Identifier: Apache-2.0
// The workload of postgres_select and postgres_pipeline: callers select rows by primary key from a
// PostgreSQL server, which has processes of its own. The name under which a program is built
// decides on the parameters.
#pragma once

#include <lab/harness/affinity.hpp>
#include <lab/harness/contender.hpp>
#include <lab/harness/engines/caller.hpp>
#include <lab/harness/engines/item_set.hpp>
#include <lab/harness/engines/load.hpp>
#include <lab/harness/engines/postgres_server.hpp>

#include <csignal>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace lab::postgres {

using engines::caller;

struct parameters {
  engines::load_plan load;
  std::uint32_t connections = 1;
};

/// The server, for a contender.
struct server_address {
  std::string host;  ///< the folder of its Unix socket
  std::string user;
  std::string database;
  std::uint32_t connections;  ///< that the client makes

  /// For libpq and the libraries on it.
  std::string as_libpq() const { return "host=" + host + " user=" + user + " dbname=" + database; }
};

/// The columns `id` and `name` of one row; $1 is the id.
inline constexpr const char* select_text = "select id, name from item where id = $1";

/// A contender: a client with some connections. serve() returns when no caller asks any more. A
/// contender that does not run on every machine also has a static probe(), which throws cannot_run.
template <class Contender>
concept contender = requires(const server_address& server, std::span<caller> callers) {
  Contender::serve(server, callers);
};

template <contender Contender>
void run(const parameters& cell, const harness_options& harness, report& result) {
  if constexpr (requires { Contender::probe(); }) Contender::probe();
  constexpr std::size_t name_bytes = 32;
  const engines::item_set items(engines::item_count, name_bytes);
  const network::side_cpus cpus = engines::split_cpus(harness.pin, cell.load.threads);
  const engines::postgres_server server(items, cpus.server);
  pin_thread(cpus.client);
  const server_address address{server.host(), engines::postgres_server::user,
                               engines::postgres_server::database, cell.connections};
  engines::run_callers(
      cell.load, harness, items, {"query", "queries"}, [&] { return server.used(); },
      [&](std::span<caller> callers) { Contender::serve(address, callers); }, result);
}

/// The main() of a contender of these experiments.
template <contender Contender>
int contender_main(int argc, const char* const* argv, libraries versions = {}) {
  std::signal(SIGPIPE, SIG_IGN);  // not all contenders write with MSG_NOSIGNAL
  parameters cell;
  arguments options;
  options.number("callers", cell.load.callers, "callers, each with a query in flight", 1, 10'000);
  if (std::string_view(built_as.experiment) == "postgres_select") {
    options.number("connections", cell.connections, "connections of the client", 1, 100);
  }
  options.number("duration-ms", cell.load.duration_ms, "milliseconds that are measured", 1,
                 3'600'000);
  return lab::contender_main(argc, argv, this_contender(std::move(versions)), options,
                             [&cell](const harness_options& harness, report& result) {
                               run<Contender>(cell, harness, result);
                             });
}

}  // namespace lab::postgres
