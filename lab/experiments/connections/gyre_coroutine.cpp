// SPDX-License-Identifier: Apache-2.0
// gyre's coroutines: one that accepts, and one per connection, which receives into the loop's
// buffer instead of one of its own.
#include <gyre/base/unique_fd.hpp>
#include <gyre/exec/loop.hpp>
#include <gyre/io/received.hpp>
#include <gyre/net/socket.hpp>
#include <gyre/net/tcp_listener.hpp>
#include <gyre/net/tcp_stream.hpp>
#include <gyre/task/spawn.hpp>
#include <gyre/task/task.hpp>
#include <lab/experiments/connections/workload.hpp>
#include <lab/harness/gyre_io.hpp>

#include <system_error>
#include <utility>

namespace {

gyre::task<> answer(gyre::net::tcp_stream peer) {
  try {
    for (;;) {
      gyre::io::received data = co_await peer.receive();
      if (data.empty()) co_return;
      co_await peer.write_all(std::move(data));
    }
  } catch (const std::system_error&) {
    co_return;  // as when the other end resets the connection
  }
}

gyre::task<> accept(gyre::event_loop& loop, int listener) {
  gyre::net::tcp_listener from(loop, gyre::net::socket(gyre::unique_fd(listener)));
  for (;;) {
    gyre::net::tcp_stream peer = co_await from.accept();
    gyre::spawn(loop, answer(std::move(peer)));
  }
}

struct gyre_server {
  static void probe() { lab::probe_contender_io(); }

  static void serve(int listener) {
    gyre::loop loop({.io = lab::contender_io});
    gyre::spawn(loop, accept(loop, listener));
    loop.run();
  }
};

}  // namespace

int main(int argc, char** argv) { lab::connections::contender_main<gyre_server>(argc, argv); }
