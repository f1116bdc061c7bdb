// SPDX-License-Identifier: Apache-2.0
// gyre: a coroutine for each caller; all share one client, which distributes their statements to
// its connections.
#include <gyre/engines/postgres/client.hpp>
#include <gyre/exec/loop.hpp>
#include <gyre/task/spawn.hpp>
#include <gyre/task/task.hpp>
#include <lab/experiments/postgres_select/gyre_options.hpp>
#include <lab/experiments/postgres_select/workload.hpp>
#include <lab/harness/gyre_io.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <tuple>

namespace {

using lab::engines::caller;
using lab::postgres::server_address;

class gyre_client {
 public:
  static void probe() { lab::probe_contender_io(); }

  static void serve(const server_address& server, std::span<caller> callers) {
    gyre::loop loop({.io = lab::contender_io});
    gyre::postgres::client db(loop, lab::postgres::gyre_options(server));
    std::size_t running = callers.size();
    for (caller& each : callers) gyre::spawn(loop, call(db, each, running, loop));
    loop.run();
  }

 private:
  using row = std::tuple<std::int32_t, std::string>;

  static gyre::task<> call(gyre::postgres::client& db, caller& self, std::size_t& running,
                           gyre::loop& loop) {
    bool asks_again = true;
    while (asks_again) {
      const auto id = static_cast<std::int32_t>(self.ask());
      const row found = co_await db.query_one<row>(lab::postgres::select_text, id);
      asks_again = self.take(static_cast<std::uint32_t>(std::get<0>(found)), std::get<1>(found));
    }
    if (--running == 0) loop.stop();
  }
};

}  // namespace

int main(int argc, char** argv) { return lab::postgres::contender_main<gyre_client>(argc, argv); }
