// SPDX-License-Identifier: Apache-2.0
// An echo server with callbacks: sends back each message (RFC 862).
//
//     echo_server [ADDRESS:PORT]
#include <gyre/exec/loop.hpp>
#include <gyre/io/input.hpp>
#include <gyre/net/endpoint.hpp>
#include <gyre/net/tcp_connection.hpp>
#include <gyre/net/tcp_server.hpp>
#include <gyre/runtime/signal_set.hpp>

#include <chrono>
#include <csignal>
#include <iostream>

using namespace std::chrono_literals;

int main(int argc, char** argv) {
  const gyre::net::endpoint address(argc > 1 ? argv[1] : "[::]:7007");
  gyre::loop loop;

  gyre::net::tcp_server server(loop, {.name = "echo"});
  server.on_message([](gyre::net::tcp_connection& connection, gyre::io::input& input) {
    connection.send(input.bytes());
    input.consume_all();
  });
  server.listen(address);
  server.start();
  std::cout << "listening on " << server.local_endpoint() << std::endl;

  gyre::signal_set quit(loop, {SIGINT, SIGTERM}, [&](const gyre::signal_info&) {
    server.stop(2s, [&] { loop.stop(); });  // lets clients take what is sent
  });
  loop.run();
}
