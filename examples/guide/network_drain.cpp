// SPDX-License-Identifier: Apache-2.0
// Guide to the network, part 10: a server with coroutines that answers what it has begun, and ends.
#include <gyre/io/buffer.hpp>
#include <gyre/io/received.hpp>
#include <gyre/net/connect.hpp>
#include <gyre/net/endpoint.hpp>
#include <gyre/net/tcp_listener.hpp>
#include <gyre/net/tcp_stream.hpp>
#include <gyre/runtime/runtime.hpp>
#include <gyre/task/as_expected.hpp>
#include <gyre/task/shielded.hpp>
#include <gyre/task/sleep.hpp>
#include <gyre/task/task.hpp>

#include <chrono>
#include <cstddef>
#include <iostream>
#include <string>
#include <utility>

using namespace std::chrono_literals;

gyre::task<> answer(gyre::runtime& rt, gyre::net::tcp_stream& peer, std::string request) {
  if (request == "shut down\n") rt.shutdown();  // as does SIGTERM
  co_await gyre::sleep_for(10ms);               // the work
  co_await peer.write_all("answer to " + request);
}

gyre::task<> serve_one(gyre::runtime& rt, gyre::net::tcp_stream& peer, gyre::io::buffer& input) {
  const std::size_t length = co_await peer.read_until(input, "\n");
  std::string request(input.text().substr(0, length));
  input.consume(length);
  co_await answer(rt, peer, std::move(request));
}

gyre::task<> serve(gyre::runtime& rt, gyre::net::tcp_stream peer) {
  gyre::io::buffer input;
  for (;;) {
    if (input.empty()) co_await peer.wait_for_input();        // a stop ends this wait
    co_await gyre::shielded(serve_one(rt, peer, input), 5s);  // but no request that has come
  }
}

gyre::task<> accept_all(gyre::runtime& rt, gyre::net::tcp_listener& listener) {
  for (;;) {
    gyre::net::tcp_stream client = co_await listener.accept();
    rt.spawn(rt.loops()[0], gyre::as_expected(serve(rt, std::move(client))));
  }
}

gyre::task<> ask(gyre::net::endpoint server) {
  gyre::net::tcp_stream idle = co_await gyre::net::connect(server);
  gyre::net::tcp_stream busy = co_await gyre::net::connect(server);
  gyre::io::buffer input;
  co_await busy.write_all("shut down\n");
  co_await busy.read_until(input, "\n");
  std::cout << input.text();
  const gyre::io::received rest = co_await idle.receive();
  if (rest.empty()) std::cout << "the idle session has ended\n";
}

gyre::task<> run(gyre::runtime& rt) {
  gyre::net::tcp_listener listener(rt.loops()[0], {gyre::net::ip_address::loopback_v4(), 0});
  rt.spawn(ask(listener.local_endpoint()), gyre::shutdown_phase::force);
  co_await accept_all(rt, listener);
}

int main() { return gyre::runtime::main({.drain_time = 20s}, run); }
