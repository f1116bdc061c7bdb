// SPDX-License-Identifier: Apache-2.0
// An echo server with coroutines, on all cores: sends back each message (RFC 862).
//
//     echo_coroutine [ADDRESS:PORT]
#include <gyre/io/received.hpp>
#include <gyre/net/endpoint.hpp>
#include <gyre/net/socket.hpp>
#include <gyre/net/tcp_listener.hpp>
#include <gyre/net/tcp_stream.hpp>
#include <gyre/runtime/runtime.hpp>
#include <gyre/task/as_expected.hpp>
#include <gyre/task/task.hpp>

#include <iostream>
#include <utility>

gyre::task<> echo(gyre::loop& home, gyre::net::socket client) {
  gyre::net::tcp_stream peer(home, std::move(client));
  for (;;) {
    gyre::io::received data = co_await peer.receive();
    if (data.empty()) co_return;  // the peer has ended its side
    co_await peer.write_all(std::move(data));
  }
}

gyre::task<> serve(gyre::runtime& rt, gyre::net::endpoint address) {
  gyre::net::tcp_listener listener(rt.loops()[0], address);
  std::cout << "listening on " << listener.local_endpoint() << std::endl;
  for (;;) {
    gyre::net::socket client = co_await listener.accept_socket();
    gyre::loop& home = rt.loops().next();
    // A reset connection ends only its own coroutine.
    rt.spawn(home, gyre::as_expected(echo(home, std::move(client))));
  }
}

int main(int argc, char** argv) {
  const char* address = argc > 1 ? argv[1] : "[::]:7007";
  return gyre::runtime::main([&](gyre::runtime& rt) { return serve(rt, address); });
}
