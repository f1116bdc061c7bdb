// SPDX-License-Identifier: Apache-2.0
// A bare session of PostgreSQL, with which the lab itself prepares a run and checks it.
#pragma once

#include <lab/harness/engines/engine_process.hpp>

#include <cstdint>
#include <string>

namespace lab::engines {

/// A blocking session that speaks as little of the protocol as the lab needs.
///
///     postgres_session session(server.host(), "postgres");
///     const std::string rows = session.query("select count(*) from item");
///
/// Errors: of its functions: std::runtime_error with the server's message, after which the session
/// is of no use; std::system_error.
class postgres_session {
 public:
  /// `host`: the folder of the server's Unix socket.
  postgres_session(const std::string& host, const std::string& database);

  /// Executes statements, which ';' separates.
  void run(const std::string& statements) { query(statements); }
  /// Executes statements, and gives the last row's first column as text; empty if it is null, or if
  /// there is no row.
  std::string query(const std::string& statements);
  /// As query(), of a number.
  double query_number(const std::string& statements);

 private:
  void send(std::string message, const std::string& body);
  std::string await_ready();

  bare_connection connection_;
};

}  // namespace lab::engines
