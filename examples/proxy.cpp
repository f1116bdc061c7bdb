// SPDX-License-Identifier: Apache-2.0
// A TCP proxy: each connection is forwarded to one server, in both directions at once. A side that
// reads slowly slows the other side down, and the end of each direction is forwarded separately.
//
//     proxy LISTEN_ADDRESS:PORT SERVER_ADDRESS:PORT
#include <gyre/io/received.hpp>
#include <gyre/net/connect.hpp>
#include <gyre/net/endpoint.hpp>
#include <gyre/net/tcp_listener.hpp>
#include <gyre/net/tcp_stream.hpp>
#include <gyre/runtime/runtime.hpp>
#include <gyre/task/as_expected.hpp>
#include <gyre/task/task.hpp>
#include <gyre/task/when_all.hpp>
#include <gyre/task/with_timeout.hpp>

#include <chrono>
#include <iostream>
#include <utility>

using namespace std::chrono_literals;

// Back pressure: reads again only when the previous bytes have been written.
gyre::task<> forward(gyre::net::tcp_stream& from, gyre::net::tcp_stream& to) {
  for (;;) {
    gyre::io::received data = co_await from.receive();
    if (data.empty()) break;
    co_await to.write_all(std::move(data));
  }
  to.shutdown(gyre::net::shutdown_side::send);
}

gyre::task<> join(gyre::net::tcp_stream client, gyre::net::endpoint target) {
  gyre::net::tcp_stream server =
      co_await gyre::with_timeout(gyre::net::connect(client.loop(), target), 10s);
  co_await gyre::when_all(forward(client, server), forward(server, client));
}

gyre::task<> serve(gyre::runtime& rt, gyre::net::endpoint address, gyre::net::endpoint target) {
  gyre::loop& loop = rt.loops()[0];
  gyre::net::tcp_listener listener(loop, address);
  std::cout << "listening on " << listener.local_endpoint() << std::endl;
  for (;;) {
    gyre::net::tcp_stream client = co_await listener.accept();
    rt.spawn(loop, gyre::as_expected(join(std::move(client), target)));
  }
}

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: proxy LISTEN_ADDRESS:PORT SERVER_ADDRESS:PORT\n";
    return 2;
  }
  return gyre::runtime::main({.loops = 1},
                             [&](gyre::runtime& rt) { return serve(rt, argv[1], argv[2]); });
}
