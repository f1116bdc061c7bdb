// SPDX-License-Identifier: Apache-2.0
// drogon: its fast client of a database with callbacks, on the thread of its application's loop. It
// prepares statements and keeps many of them in flight on each connection, with an implicit
// transaction for each.
#include <lab/experiments/postgres_select/workload.hpp>

#include <drogon/HttpAppFramework.h>
#include <drogon/orm/DbClient.h>
#include <trantor/net/EventLoop.h>
#include <trantor/utils/Logger.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace {

using lab::engines::caller;
using lab::postgres::server_address;

class drogon_client {
 public:
  static void serve(const server_address& server, std::span<caller> callers) {
    drogon::HttpAppFramework& app = drogon::app();
    app.setLogLevel(trantor::Logger::kFatal)
        .disableSigtermHandling()
        .setUploadPath(GYRE_LAB_DROGON_FOLDER)
        .setThreadNum(1)
        .addDbClient(settings(server));
    drogon_client self(callers);
    app.registerBeginningAdvice([&] { app.getIOLoop(0)->queueInLoop([&self] { self.begin(); }); });
    app.run();
  }

 private:
  explicit drogon_client(std::span<caller> callers) : callers_(callers), running_(callers.size()) {}

  static drogon::orm::PostgresConfig settings(const server_address& server) {
    return {.host = server.host,
            .port = 5432,
            .databaseName = server.database,
            .username = server.user,
            .password = "",
            .connectionNumber = server.connections,
            .name = "default",
            .isFast = true,
            .characterSet = "",
            .timeout = -1,
            .autoBatch = false,
            .connectOptions = {}};
  }

  // Sends the first queries once all connections are ready.
  void begin() {
    constexpr double moment_seconds = 0.001;
    if (!drogon::app().areAllDbClientsAvailable()) {
      drogon::app().getIOLoop(0)->runAfter(moment_seconds, [this] { begin(); });
      return;
    }
    client_ = drogon::app().getFastDbClient();
    for (caller& each : callers_) ask(each);
  }

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
    if (--running_ == 0) drogon::app().quit();
  }

  static bool take(const drogon::orm::Result& rows, caller& self) {
    if (rows.size() != 1) return self.take_failure();
    const drogon::orm::Field name = rows[0][1];
    return self.take(rows[0][0].as<std::uint32_t>(), {name.c_str(), name.length()});
  }

  std::span<caller> callers_;
  std::size_t running_;
  std::shared_ptr<drogon::orm::DbClient> client_;
};

}  // namespace

int main(int argc, char** argv) {
  return lab::postgres::contender_main<drogon_client>(argc, argv,
                                                      {{"drogon", drogon::getVersion()}});
}
