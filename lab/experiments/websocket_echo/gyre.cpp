// SPDX-License-Identifier: Apache-2.0
// gyre::http::server whose WebSockets are served by handlers, with its defaults and time limits.
#include <gyre/base/unique_fd.hpp>
#include <gyre/exec/loop.hpp>
#include <gyre/http/accept_websocket.hpp>
#include <gyre/http/server.hpp>
#include <gyre/http/websocket_broadcast.hpp>
#include <gyre/http/websocket_connection.hpp>
#include <gyre/http/websocket_handlers.hpp>
#include <gyre/net/socket.hpp>
#include <lab/experiments/websocket_echo/gyre_options.hpp>
#include <lab/harness/gyre_io.hpp>
#include <lab/harness/websocket/workload.hpp>

#include <utility>

namespace {

using gyre::http::accept_websocket;
using gyre::http::request;
using gyre::http::response;
using gyre::http::websocket_broadcast;
using gyre::http::websocket_connection;
using gyre::http::websocket_handlers;
using gyre::http::websocket_message;
using gyre::http::websocket_options;

response echo(request& request, websocket_options options = {}) {
  websocket_handlers handlers;
  handlers.on_message(
      [](websocket_connection& socket, websocket_message message) { socket.send(message); });
  return accept_websocket(request, std::move(handlers), std::move(options));
}

response publish(request& request, websocket_broadcast& topic) {
  websocket_handlers handlers;
  handlers.on_message([&topic](websocket_connection&, websocket_message message) {
    topic.send_binary(message.bytes);
  });
  return accept_websocket(request, std::move(handlers));
}

response follow(request& request, websocket_broadcast& topic) {
  websocket_handlers handlers;
  handlers.on_open([&topic](websocket_connection& socket) { socket.subscribe_to(topic); });
  return accept_websocket(request, std::move(handlers));
}

struct gyre_server {
  static void probe() { lab::probe_contender_io(); }

  static void serve(int listener) {
    gyre::loop loop({.io = lab::contender_io});
    websocket_broadcast topic;
    gyre::http::server server(loop, lab::websocket::server_options());
    server.get("/echo", [](request& request) { return echo(request); });
    server.get("/deflate",
               [](request& request) { return echo(request, lab::websocket::packing_options()); });
    server.get("/topic", [&topic](request& request) { return follow(request, topic); });
    server.get("/publish", [&topic](request& request) { return publish(request, topic); });
    server.tcp().listen(gyre::net::socket(gyre::unique_fd(listener)));
    server.start();
    loop.run();
  }
};

}  // namespace

int main(int argc, char** argv) { lab::websocket::contender_main<gyre_server>(argc, argv); }
