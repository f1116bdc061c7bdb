// SPDX-License-Identifier: Apache-2.0
// The workload of postgres_select and postgres_pipeline: callers select rows by primary key from a
// PostgreSQL server, which has processes of its own. The name under which a program is built
// decides on the parameters.
#pragma once

#include <lab/harness/contender.hpp>
#include <lab/harness/engines/caller.hpp>
#include <lab/harness/engines/client.hpp>
#include <lab/harness/engines/item_set.hpp>
#include <lab/harness/engines/load.hpp>
#include <lab/harness/engines/postgres_server.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

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

template <engines::client_of<server_address> Contender>
void run(const parameters& cell, const harness_options& harness, report& result) {
  constexpr std::size_t name_bytes = 32;
  const engines::item_set items(engines::item_count, name_bytes);
  engines::run_client<Contender>(
      cell.load, harness, items, {"query", "queries"},
      [&items](const std::vector<unsigned>& cpus) { return engines::postgres_server(items, cpus); },
      [&cell](const engines::postgres_server& server) {
        return server_address{server.host(), engines::postgres_server::user,
                              engines::postgres_server::database, cell.connections};
      },
      result);
}

/// The main() of a contender of these experiments.
template <engines::client_of<server_address> Contender>
int contender_main(int argc, const char* const* argv, libraries versions = {}) {
  parameters cell;
  arguments options;
  options.number("callers", cell.load.callers, "callers, each with a query in flight", 1, 10'000);
  if (std::string_view(built_as.experiment) == "postgres_select") {
    options.number("connections", cell.connections, "connections of the client", 1, 100);
  }
  return engines::client_main(argc, argv, std::move(versions), options, cell.load,
                              [&cell](const harness_options& harness, report& result) {
                                run<Contender>(cell, harness, result);
                              });
}

}  // namespace lab::postgres
