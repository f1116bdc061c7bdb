// SPDX-License-Identifier: Apache-2.0
// uWebSockets: one App without TLS, its time limits, pings and pub/sub; the compressor and the
// decompressor that all sockets share, which keep no context.
#include <lab/harness/websocket/workload.hpp>

#include <uWebSockets/App.h>

#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <utility>

namespace {

struct no_data {};

using settings = uWS::App::WebSocketBehavior<no_data>;
using socket = uWS::WebSocket<false, true, no_data>;

class uwebsockets_server {
 public:
  static void serve_at(std::uint16_t port) {
    uWS::App app;
    settings echo = make_settings();
    echo.message = [](socket* peer, std::string_view message, uWS::OpCode kind) {
      peer->send(message, kind);
    };
    settings deflate = make_settings();
    deflate.compression = uWS::CompressOptions(uWS::SHARED_COMPRESSOR | uWS::SHARED_DECOMPRESSOR);
    deflate.message = [](socket* peer, std::string_view message, uWS::OpCode kind) {
      peer->send(message, kind, true);
    };
    settings topic = make_settings();
    topic.open = [](socket* peer) { peer->subscribe("topic"); };
    settings publish = make_settings();
    publish.message = [&app](socket*, std::string_view message, uWS::OpCode kind) {
      app.publish("topic", message, kind);
    };
    app.ws<no_data>("/echo", std::move(echo));
    app.ws<no_data>("/deflate", std::move(deflate));
    app.ws<no_data>("/topic", std::move(topic));
    app.ws<no_data>("/publish", std::move(publish));
    app.listen("127.0.0.1", port, [](us_listen_socket_t* listening) {
      if (listening == nullptr) std::abort();
    });
    app.run();
  }

 private:
  // uWebSockets drops messages of a peer that does not read fast enough: no peer of the lab is one.
  static settings make_settings() {
    settings made;
    made.maxPayloadLength = lab::websocket::max_message_bytes;
    made.maxBackpressure = 64U << 20;
    return made;
  }
};

}  // namespace

int main(int argc, char** argv) { lab::websocket::contender_main<uwebsockets_server>(argc, argv); }
