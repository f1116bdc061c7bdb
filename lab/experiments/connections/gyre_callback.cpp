// SPDX-License-Identifier: Apache-2.0
// gyre's callbacks: a tcp_server that accepts on the harness's listener.
#include <gyre/base/unique_fd.hpp>
#include <gyre/exec/loop.hpp>
#include <gyre/io/input.hpp>
#include <gyre/net/socket.hpp>
#include <gyre/net/tcp_server.hpp>
#include <lab/experiments/connections/workload.hpp>
#include <lab/harness/gyre_io.hpp>

namespace {

struct gyre_server {
  static void probe() { lab::probe_contender_io(); }

  static void serve(int listener) {
    gyre::loop loop({.io = lab::contender_io});
    // The clients of the lab have few addresses.
    gyre::net::tcp_server server(
        loop, {.connections_per_address = gyre::net::tcp_server_options::unlimited});
    server.on_message([](gyre::net::tcp_connection& peer, gyre::io::input& input) {
      peer.send(input.bytes());
      input.consume_all();
    });
    server.listen(gyre::net::socket(gyre::unique_fd(listener)));
    server.start();
    loop.run();
  }
};

}  // namespace

int main(int argc, char** argv) { lab::connections::contender_main<gyre_server>(argc, argv); }
