// SPDX-License-Identifier: Apache-2.0
// Guide to the network, part 10: a server with callbacks as a whole program, and its shutdown.
#include <gyre/io/buffer.hpp>
#include <gyre/io/input.hpp>
#include <gyre/net/connect.hpp>
#include <gyre/net/endpoint.hpp>
#include <gyre/net/tcp_connection.hpp>
#include <gyre/net/tcp_server.hpp>
#include <gyre/net/tcp_stream.hpp>
#include <gyre/runtime/runtime.hpp>
#include <gyre/task/task.hpp>

#include <chrono>
#include <iostream>

using namespace std::chrono_literals;

gyre::task<> try_it(gyre::runtime& rt, gyre::net::endpoint server) {
  gyre::net::tcp_stream connection = co_await gyre::net::connect(server);
  co_await connection.write_all("hello\n");
  gyre::io::buffer answer;
  co_await connection.read_until(answer, "\n");
  std::cout << answer.text();
  rt.shutdown();  // as does Ctrl-C
}

gyre::task<> serve(gyre::runtime& rt) {
  gyre::net::tcp_server server(rt.loops(), {.strategy = gyre::net::accept_strategy::every_loop});
  server.on_message([](gyre::net::tcp_connection& connection, gyre::io::input& input) {
    connection.send(input.bytes());
    input.consume_all();
  });
  server.listen({gyre::net::ip_address::loopback_v4(), 0});
  server.start();
  const gyre::shutdown_hook closing =
      rt.on_shutdown(gyre::shutdown_phase::drain, [&] { return server.stop_async(5s); });

  rt.spawn(try_it(rt, server.local_endpoint()));
  co_await rt.drained();
  std::cout << server.metrics().connections << " connections left\n";
}

int main() { return gyre::runtime::main({.drain_time = 20s}, serve); }
