// SPDX-License-Identifier: Apache-2.0
// drogon: its client of a database with callbacks, which prepares statements, keeps many of them in
// flight on a connection, and has threads of its own.
#include <lab/experiments/postgres_select/workload.hpp>

#include <drogon/HttpAppFramework.h>
#include <drogon/orm/DbClient.h>

#include <cstddef>
#include <cstdint>
#include <latch>
#include <memory>
#include <span>

namespace {

using lab::engines::caller;
using lab::postgres::server_address;

class drogon_client {
 public:
  static void serve(const server_address& server, std::span<caller> callers) {
    drogon_client self(server, callers.size());
    for (caller& each : callers) self.ask(each);
    self.running_.wait();
    self.client_->closeAll();
  }

 private:
  drogon_client(const server_address& server, std::size_t callers)
      : running_(static_cast<std::ptrdiff_t>(callers)),
        client_(drogon::orm::DbClient::newPgClient(server.as_libpq(), server.connections)) {}

  void ask(caller& self) {
    const auto id = static_cast<std::int32_t>(self.ask());
    client_->execSqlAsync(
        lab::postgres::select_text,
        [this, &self](const drogon::orm::Result& rows) { proceed(self, take(rows, self)); },
        [this, &self](const drogon::orm::DrogonDbException&) {
          self.take_failure();
          proceed(self, false);
        },
        id);
  }

  void proceed(caller& self, bool asks_again) {
    if (asks_again) return ask(self);
    running_.count_down();
  }

  static bool take(const drogon::orm::Result& rows, caller& self) {
    if (rows.size() != 1) return self.take_failure();
    const drogon::orm::Field name = rows[0][1];
    return self.take(rows[0][0].as<std::uint32_t>(), {name.c_str(), name.length()});
  }

  std::latch running_;
  std::shared_ptr<drogon::orm::DbClient> client_;
};

}  // namespace

int main(int argc, char** argv) {
  return lab::postgres::contender_main<drogon_client>(argc, argv,
                                                      {{"drogon", drogon::getVersion()}});
}
