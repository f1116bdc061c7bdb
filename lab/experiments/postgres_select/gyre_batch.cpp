// SPDX-License-Identifier: Apache-2.0
// gyre: the callers of a connection ask together, by a batch, whose queries are one transaction and
// fail together.
#include <gyre/engines/postgres/client.hpp>
#include <gyre/exec/loop.hpp>
#include <gyre/task/spawn.hpp>
#include <gyre/task/task.hpp>
#include <lab/experiments/postgres_select/gyre_options.hpp>
#include <lab/experiments/postgres_select/workload.hpp>
#include <lab/harness/gyre_io.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <tuple>
#include <vector>

namespace {

using lab::engines::caller;
using lab::postgres::server_address;

class gyre_client {
 public:
  static void probe() { lab::probe_contender_io(); }

  static void serve(const server_address& server, std::span<caller> callers) {
    gyre::loop loop({.io = lab::contender_io});
    gyre::postgres::client db(loop, lab::postgres::gyre_options(server));
    std::size_t running = server.connections;
    for (std::size_t left = running; left > 0; --left) {
      const std::span<caller> share = callers.last(callers.size() / left);
      callers = callers.first(callers.size() - share.size());
      gyre::spawn(loop, call(db, share, running, loop));
    }
    loop.run();
  }

 private:
  using row = std::tuple<std::int32_t, std::string>;

  static gyre::task<> call(gyre::postgres::client& db, std::span<caller> callers,
                           std::size_t& running, gyre::loop& loop) {
    gyre::postgres::session connection = co_await db.acquire_session();
    std::vector<caller*> asking;
    for (caller& each : callers) asking.push_back(&each);
    gyre::postgres::batch queries;
    std::vector<gyre::postgres::batch_result<row>> rows;
    while (!asking.empty()) {
      queries.clear();
      rows.clear();
      for (caller* const each : asking) {
        const auto id = static_cast<std::int32_t>(each->ask());
        rows.push_back(queries.query_one<row>(lab::postgres::select_text, id));
      }
      co_await connection.execute_batch(queries);
      std::size_t kept = 0;
      for (std::size_t each = 0; each < asking.size(); ++each) {
        const row& found = rows[each].get();
        const auto id = static_cast<std::uint32_t>(std::get<0>(found));
        if (asking[each]->take(id, std::get<1>(found))) asking[kept++] = asking[each];
      }
      asking.resize(kept);
    }
    if (--running == 0) loop.stop();
  }
};

}  // namespace

int main(int argc, char** argv) { return lab::postgres::contender_main<gyre_client>(argc, argv); }
