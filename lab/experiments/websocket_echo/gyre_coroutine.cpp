// SPDX-License-Identifier: Apache-2.0
// gyre::http::server whose WebSockets are served by coroutines, with its defaults and time limits.
#include <gyre/base/unique_fd.hpp>
#include <gyre/exec/loop.hpp>
#include <gyre/http/accept_websocket.hpp>
#include <gyre/http/server.hpp>
#include <gyre/http/websocket.hpp>
#include <gyre/http/websocket_broadcast.hpp>
#include <gyre/net/socket.hpp>
#include <gyre/task/task.hpp>
#include <gyre/task/when_any.hpp>
#include <lab/experiments/websocket_echo/gyre_options.hpp>
#include <lab/harness/gyre_io.hpp>
#include <lab/harness/websocket/workload.hpp>

namespace {

using gyre::http::accept_websocket;
using gyre::http::request;
using gyre::http::websocket;
using gyre::http::websocket_broadcast;

gyre::task<> echo(websocket& socket) {
  while (auto message = co_await socket.receive()) co_await socket.send(*message);
}

gyre::task<> publish(websocket& socket, websocket_broadcast& topic) {
  while (auto message = co_await socket.receive()) topic.send_binary(message->bytes);
}

gyre::task<> drop_messages(websocket& socket) {
  while (const auto message = co_await socket.receive()) {
  }
}

gyre::task<> follow(websocket& socket, websocket_broadcast& topic) {
  auto ending = gyre::when_any(drop_messages(socket), topic.forward_to(socket));
  co_await std::move(ending);
}

struct gyre_server {
  static void probe() { lab::probe_contender_io(); }

  static void serve(int listener) {
    gyre::loop loop({.io = lab::contender_io});
    websocket_broadcast topic;
    gyre::http::server server(loop, lab::websocket::server_options());
    server.get("/echo", [](request& request) { return accept_websocket(request, echo); });
    server.get("/deflate", [](request& request) {
      return accept_websocket(request, echo, lab::websocket::packing_options());
    });
    server.get("/topic", [&topic](request& request) {
      return accept_websocket(request,
                              [&topic](websocket& socket) { return follow(socket, topic); });
    });
    server.get("/publish", [&topic](request& request) {
      return accept_websocket(request,
                              [&topic](websocket& socket) { return publish(socket, topic); });
    });
    server.tcp().listen(gyre::net::socket(gyre::unique_fd(listener)));
    server.start();
    loop.run();
  }
};

}  // namespace

int main(int argc, char** argv) { lab::websocket::contender_main<gyre_server>(argc, argv); }
