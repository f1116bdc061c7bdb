// SPDX-License-Identifier: Apache-2.0
// gyre: a coroutine for each caller; all of a loop share one client, and so one connection.
#include <gyre/engines/redis/client.hpp>
#include <gyre/exec/loop.hpp>
#include <gyre/task/spawn.hpp>
#include <gyre/task/task.hpp>
#include <lab/experiments/redis_get/workload.hpp>
#include <lab/harness/gyre_io.hpp>

#include <cstddef>
#include <string>
#include <string_view>

namespace {

using lab::engines::caller;
using lab::redis_get::server_address;

class gyre_client {
 public:
  static void probe() { lab::probe_contender_io(); }

  static void serve(const server_address& server, std::span<caller> callers) {
    gyre::loop loop({.io = lab::contender_io});
    gyre::redis::client cache(loop, "unix:" + server.socket);
    std::size_t running = callers.size();
    for (caller& each : callers) gyre::spawn(loop, call(server, cache, each, running, loop));
    loop.run();
  }

 private:
  static gyre::task<> call(const server_address& server, gyre::redis::client& cache, caller& self,
                           std::size_t& running, gyre::loop& loop) {
    bool asks_again = true;
    while (asks_again) {
      const std::string_view key = server.items.key(self.ask());
      const std::string value = co_await cache.call<std::string>("GET", key);
      asks_again = self.take(value);
    }
    if (--running == 0) loop.stop();
  }
};

}  // namespace

int main(int argc, char** argv) { return lab::redis_get::contender_main<gyre_client>(argc, argv); }
