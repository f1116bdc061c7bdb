// SPDX-License-Identifier: Apache-2.0
// gyre: a coroutine for each caller; all share one client, and so one connection.
#include <gyre/engines/nats/client.hpp>
#include <gyre/exec/loop.hpp>
#include <gyre/task/spawn.hpp>
#include <gyre/task/task.hpp>
#include <lab/experiments/nats_request/workload.hpp>
#include <lab/harness/gyre_io.hpp>

#include <cstddef>
#include <string>

namespace {

using lab::engines::caller;
using lab::nats_request::server_address;

class gyre_client {
 public:
  static void probe() { lab::probe_contender_io(); }

  static void serve(const server_address& server, std::span<caller> callers) {
    gyre::loop loop({.io = lab::contender_io});
    gyre::nats::client bus(loop, server.url);
    std::size_t running = callers.size();
    for (caller& each : callers) gyre::spawn(loop, call(server, bus, each, running, loop));
    loop.run();
  }

 private:
  static gyre::task<> call(const server_address& server, gyre::nats::client& bus, caller& self,
                           std::size_t& running, gyre::loop& loop) {
    bool asks_again = true;
    while (asks_again) {
      const std::string& body = server.bodies[self.ask()];
      const gyre::nats::message reply = co_await bus.request(server.subject, body);
      asks_again = self.take(reply.text());
    }
    if (--running == 0) loop.stop();
  }
};

}  // namespace

int main(int argc, char** argv) {
  return lab::nats_request::contender_main<gyre_client>(argc, argv);
}
