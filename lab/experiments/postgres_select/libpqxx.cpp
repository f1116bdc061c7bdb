// SPDX-License-Identifier: Apache-2.0
// libpqxx: a thread for each connection, which executes a prepared statement for one of its callers
// after another. The library has nothing that does not block.
#include <lab/experiments/postgres_select/workload.hpp>

#include <pqxx/pqxx>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <string_view>
#include <thread>
#include <vector>

namespace {

using lab::engines::caller;
using lab::postgres::server_address;

class libpqxx_client {
 public:
  static void serve(const server_address& server, std::span<caller> callers) {
    std::vector<std::exception_ptr> errors(server.connections);
    {
      std::vector<std::jthread> threads;
      for (std::size_t n = 0; n < server.connections; ++n) {
        const std::size_t first = callers.size() * n / server.connections;
        const std::size_t end = callers.size() * (n + 1) / server.connections;
        threads.emplace_back(
            [&server, &error = errors[n], own = callers.subspan(first, end - first)] {
              try {
                call(server, own);
              } catch (...) {
                error = std::current_exception();
              }
            });
      }
    }
    for (const std::exception_ptr& each : errors) {
      if (each != nullptr) std::rethrow_exception(each);
    }
  }

 private:
  static void call(const server_address& server, std::span<caller> callers) {
    pqxx::connection connection(server.as_libpq());
    connection.prepare("item", lab::postgres::select_text);
    pqxx::nontransaction work(connection);
    std::vector<caller*> running;
    for (caller& each : callers) running.push_back(&each);
    while (!running.empty()) {
      std::erase_if(running, [&](caller* each) { return !call_once(work, *each); });
    }
  }

  static bool call_once(pqxx::nontransaction& work, caller& self) {
    const pqxx::result rows = work.exec_prepared("item", self.ask());
    if (rows.size() != 1) return self.take_failure();
    const pqxx::field name = rows[0][1];
    return self.take(rows[0][0].as<std::uint32_t>(), {name.c_str(), name.size()});
  }
};

}  // namespace

int main(int argc, char** argv) {
  return lab::postgres::contender_main<libpqxx_client>(argc, argv, {{"libpqxx", PQXX_VERSION}});
}
