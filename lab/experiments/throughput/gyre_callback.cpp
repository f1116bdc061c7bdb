// SPDX-License-Identifier: Apache-2.0
// gyre's callbacks: a server that adopts the sessions' sockets as its connections.
#include <gyre/base/unique_fd.hpp>
#include <gyre/exec/loop.hpp>
#include <gyre/io/input.hpp>
#include <gyre/net/tcp_server.hpp>
#include <lab/experiments/throughput/contender.hpp>
#include <lab/harness/built_as.hpp>
#include <lab/harness/gyre_io.hpp>

#include <chrono>
#include <span>
#include <system_error>
#include <unordered_map>

namespace {

struct gyre_contender {
  static void probe() { lab::probe_contender_io(); }

  template <lab::network::any_session Session>
  static void run(std::span<Session> sessions) {
    gyre::loop loop(
        {.busy_poll = std::chrono::microseconds{lab::built_as.busy_poll}, .io = lab::contender_io});
    // The clients of the lab have few addresses.
    gyre::net::tcp_server server(
        loop, {.connections_per_address = gyre::net::tcp_server_options::unlimited});
    std::unordered_map<int, Session*> served;
    server.on_connection([&](gyre::net::tcp_connection& peer) {
      Session* const session = served.at(peer.fd());
      peer.context() = session;
      peer.send(session->first());
    });
    server.on_message([](gyre::net::tcp_connection& peer, gyre::io::input& input) {
      peer.send((*peer.context<Session*>())->received(input.bytes()));
      input.consume_all();
    });
    server.on_close([](gyre::net::tcp_connection& peer, std::error_code) {
      (*peer.context<Session*>())->lost();
    });
    for (Session& each : sessions) {
      served.emplace(each.fd(), &each);
      server.adopt(gyre::unique_fd(each.fd()));
    }
    loop.run();
  }
};

}  // namespace

int main(int argc, char** argv) { lab::network::contender_main<gyre_contender>(argc, argv); }
