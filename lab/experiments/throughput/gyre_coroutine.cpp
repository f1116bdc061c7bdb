// SPDX-License-Identifier: Apache-2.0
// gyre's coroutines: one for each connection, which receives into the loop's memory.
#include <gyre/base/unique_fd.hpp>
#include <gyre/exec/loop.hpp>
#include <gyre/io/stream.hpp>
#include <gyre/task/spawn.hpp>
#include <gyre/task/task.hpp>
#include <lab/experiments/throughput/contender.hpp>
#include <lab/harness/gyre_io.hpp>

#include <span>
#include <system_error>
#include <utility>

namespace {

template <lab::network::any_session Session>
gyre::task<> echo(gyre::io::stream& peer, Session& served) {
  if (!served.first().empty()) co_await peer.write_all(served.first());
  for (;;) {
    gyre::io::received data = co_await peer.receive();
    if (data.empty()) co_return;
    const std::span<const std::byte> answer = served.received(data);
    if constexpr (Session::echoes) {
      co_await peer.write_all(std::move(data));
    } else if (!answer.empty()) {
      data.reset();
      co_await peer.write_all(answer);
    }
  }
}

template <lab::network::any_session Session>
gyre::task<> serve(gyre::event_loop& loop, Session& served) {
  gyre::io::stream peer(loop, gyre::unique_fd(served.fd()), gyre::io::handle_kind::stream_socket);
  try {
    co_await echo(peer, served);
  } catch (const std::system_error&) {
    served.lost();  // as when the other end resets the connection
  }
  served.lost();
}

struct gyre_contender {
  static void probe() { lab::probe_contender_io(); }

  template <lab::network::any_session Session>
  static void run(std::span<Session> sessions) {
    gyre::loop loop({.io = lab::contender_io});
    for (Session& each : sessions) gyre::spawn(loop, serve(loop, each));
    loop.run();
  }
};

}  // namespace

int main(int argc, char** argv) { lab::network::contender_main<gyre_contender>(argc, argv); }
