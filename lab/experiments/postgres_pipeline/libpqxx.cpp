// SPDX-License-Identifier: Apache-2.0
// libpqxx: its pipeline, which sends statements of text without parameters together, as one
// transaction: when one fails, so do those after it. It blocks, so results are taken in order.
#include <lab/experiments/postgres_select/workload.hpp>

#include <pqxx/pipeline>
#include <pqxx/pqxx>

#include <cstdint>
#include <string>
#include <vector>

namespace {

using lab::engines::caller;
using lab::postgres::server_address;

class libpqxx_client {
 public:
  static void serve(const server_address& server, std::span<caller> callers) {
    pqxx::connection connection(server.as_libpq());
    pqxx::nontransaction work(connection);
    pqxx::pipeline statements(work);
    std::vector<caller*> running;
    for (caller& each : callers) running.push_back(&each);
    while (!running.empty()) {
      statements.retain(static_cast<int>(running.size()));
      for (caller* const each : running) {
        statements.insert("select id, name from item where id = " + std::to_string(each->ask()));
      }
      statements.resume();
      std::erase_if(running,
                    [&](caller* each) { return !take(statements.retrieve().second, *each); });
    }
  }

 private:
  static bool take(const pqxx::result& rows, caller& self) {
    if (rows.size() != 1) return self.take_failure();
    const pqxx::field name = rows[0][1];
    return self.take(rows[0][0].as<std::uint32_t>(), {name.c_str(), name.size()});
  }
};

}  // namespace

int main(int argc, char** argv) {
  return lab::postgres::contender_main<libpqxx_client>(argc, argv, {{"libpqxx", PQXX_VERSION}});
}
