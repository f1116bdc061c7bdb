// SPDX-License-Identifier: Apache-2.0
// Guide to the network, part 6: clients whose connections stay open.
#include <gyre/exec/loop.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/net/connection_pool.hpp>
#include <gyre/net/framed.hpp>
#include <gyre/net/framing.hpp>
#include <gyre/net/reconnecting_client.hpp>
#include <gyre/net/tcp_listener.hpp>
#include <gyre/net/tcp_stream.hpp>
#include <gyre/task/as_result.hpp>
#include <gyre/task/scope.hpp>
#include <gyre/task/task.hpp>
#include <gyre/task/when_any.hpp>

#include <iostream>
#include <string>
#include <system_error>
#include <utility>

using lines = gyre::net::framed<gyre::net::delimited, gyre::net::tcp_stream>;

gyre::task<> greet(gyre::net::tcp_stream peer) {
  lines guest(std::move(peer), gyre::net::delimited("\n"));
  while (auto name = co_await guest.next()) co_await guest.send("hello, " + std::string(*name));
}

gyre::task<> serve(gyre::net::tcp_listener& listener) {
  auto accept_all = [&](gyre::scope& guests) -> gyre::task<> {
    for (;;) {
      gyre::net::tcp_stream peer = co_await listener.accept();
      guests.spawn(gyre::as_result(greet(std::move(peer))));
    }
  };
  co_await gyre::with_scope(accept_all);
}

gyre::task<std::string> ask(lines& server, std::string question) {
  co_await server.send(question);
  const auto answer = co_await server.next();
  if (!answer) throw std::system_error(std::make_error_code(std::errc::connection_reset));
  co_return std::string(*answer);
}

gyre::task<lines> log_in(gyre::net::tcp_stream connected) {
  lines server(std::move(connected), gyre::net::delimited("\n"));
  co_await ask(server, "this is gyre");
  co_return server;
}

gyre::task<std::string> ask_one(gyre::net::connection_pool<lines>& pool, std::string question) {
  auto server = co_await pool.acquire();  // waits while eight are in use
  std::string answer = co_await ask(*server, std::move(question));
  server.give_back();
  co_return answer;
}

gyre::task<> use(gyre::event_loop& loop, std::string server) {
  gyre::net::connection_pool pool(loop, server, log_in, {.max_open = 8});
  std::cout << co_await ask_one(pool, "Ada") << '\n';

  gyre::net::reconnecting_client client(loop, server, log_in);
  const auto ask_grace = [](lines& peer) { return ask(peer, "Grace"); };
  std::cout << co_await client.call_idempotent(ask_grace) << '\n';
}

int main() {
  gyre::loop loop;
  gyre::net::tcp_listener listener(loop, "127.0.0.1:0");
  gyre::task<> client_work = use(loop, listener.local_endpoint().to_string());
  gyre::sync_wait(loop, gyre::when_any(std::move(client_work), serve(listener)));
}
