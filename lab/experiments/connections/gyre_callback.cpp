// SPDX-License-Identifier: Apache-2.0
// gyre's callbacks: a watch on the listener, and a tcp_server that adopts the accepted sockets, as
// a tcp_server makes its own listeners.
#include <gyre/base/unique_fd.hpp>
#include <gyre/exec/fd_watch.hpp>
#include <gyre/exec/loop.hpp>
#include <gyre/exec/poller.hpp>
#include <gyre/io/input.hpp>
#include <gyre/net/tcp_server.hpp>
#include <lab/experiments/connections/workload.hpp>
#include <lab/harness/gyre_io.hpp>

#include <sys/socket.h>

namespace {

struct gyre_server {
  static void probe() { lab::probe_contender_io(); }

  static void serve(int listener) {
    gyre::loop loop({.io = lab::contender_io});
    // The clients of the lab have few addresses.
    gyre::net::tcp_server server(
        loop, {.connections_per_address = gyre::net::tcp_server_options::unlimited});
    server.on_message([](gyre::net::tcp_connection& peer, gyre::io::input& in) {
      peer.send(in.bytes());
      in.consume_all();
    });
    gyre::fd_watch accepting(loop, listener, [&](gyre::readiness) {
      for (;;) {
        const int fd = accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) return;
        server.adopt(gyre::unique_fd(fd));
      }
    });
    accepting.start(gyre::readiness::readable);
    loop.run();
  }
};

}  // namespace

int main(int argc, char** argv) { lab::connections::contender_main<gyre_server>(argc, argv); }
