// SPDX-License-Identifier: Apache-2.0
// gyre's coroutines: one that accepts, and one for each connection, whose tls_stream gives bytes in
// the loop's memory.
#include <gyre/base/unique_fd.hpp>
#include <gyre/exec/loop.hpp>
#include <gyre/io/received.hpp>
#include <gyre/net/socket.hpp>
#include <gyre/net/tcp_listener.hpp>
#include <gyre/net/tcp_stream.hpp>
#include <gyre/task/spawn.hpp>
#include <gyre/task/task.hpp>
#include <gyre/tls/tls_context.hpp>
#include <gyre/tls/tls_stream.hpp>
#include <lab/harness/gyre_io.hpp>
#include <lab/harness/tls/workload.hpp>

#include <system_error>
#include <utility>

namespace {

gyre::task<> answer(gyre::net::tcp_stream accepted, const gyre::tls::tls_context& context) {
  try {
    gyre::tls::tls_stream peer = co_await gyre::tls::accept(std::move(accepted), context);
    for (;;) {
      gyre::io::received data = co_await peer.receive();
      if (data.empty()) break;
      co_await peer.write_all(std::move(data));
    }
    co_await peer.shutdown();
  } catch (const std::system_error&) {
    co_return;  // as when the other end resets the connection
  }
}

gyre::task<> accept(gyre::event_loop& loop, int listener, gyre::tls::tls_context context) {
  gyre::net::tcp_listener from(loop, gyre::net::socket(gyre::unique_fd(listener)));
  for (;;) {
    gyre::net::tcp_stream peer = co_await from.accept();
    gyre::spawn(loop, answer(std::move(peer), context));
  }
}

struct gyre_server {
  static void probe() { lab::probe_contender_io(); }

  static void serve(int listener, const lab::tls::credentials& own) {
    gyre::loop loop({.io = lab::contender_io});
    auto context = gyre::tls::tls_context::server(
        {.certificates = {{.chain = gyre::tls::pem::text(own.certificate),
                           .key = gyre::tls::pem::text(own.key)}}});
    gyre::spawn(loop, accept(loop, listener, std::move(context)));
    loop.run();
  }
};

}  // namespace

int main(int argc, char** argv) { lab::tls::contender_main<gyre_server>(argc, argv); }
