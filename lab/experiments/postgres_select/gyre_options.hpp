// SPDX-License-Identifier: Apache-2.0
// The client that the contenders of gyre make.
#pragma once

#include <gyre/engines/postgres/client_options.hpp>
#include <lab/experiments/postgres_select/workload.hpp>

namespace lab::postgres {

inline gyre::postgres::client_options gyre_options(const server_address& server) {
  gyre::postgres::client_options options;
  options.server = "unix:" + server.host + "/.s.PGSQL.5432";
  options.user = server.user;
  options.database = server.database;
  options.max_shared = server.connections;
  options.max_open = server.connections;
  return options;
}

}  // namespace lab::postgres
