// SPDX-License-Identifier: Apache-2.0
#include <gyre/testing/http_client.hpp>

#include <gyre/net/endpoint.hpp>
#include <gyre/net/host_port.hpp>
#include <gyre/net/socket.hpp>
#include <gyre/net/tcp_server.hpp>
#include <gyre/task/join_handle.hpp>
#include <gyre/task/task.hpp>

#include <cstdint>

namespace gyre::testing {

/// Makes the connections of a client. Shared with the client's attempts to connect.
struct http_client::connections {
  net::tcp_stream open() {
    auto [client_end, server_end] = net::socket_pair();
    server.tcp().adopt(server_end.release(), net::endpoint(address, next_port));
    next_port = next_port == last_port ? first_port : static_cast<std::uint16_t>(next_port + 1);
    return net::tcp_stream(loop, std::move(client_end));
  }

  static constexpr std::uint16_t first_port = 49152;
  static constexpr std::uint16_t last_port = 65535;

  event_loop& loop;
  http::server& server;
  net::ip_address address;
  std::uint16_t next_port = first_port;
};

namespace {

template <class Connections>
task<net::tcp_stream> connect_to(std::shared_ptr<Connections> connections) {
  co_return connections->open();
}

template <class Connections>
http::client_options with_connector(http::client_options options,
                                    const std::shared_ptr<Connections>& connections) {
  options.connector = [connections](const net::host_port&) { return connect_to(connections); };
  return options;
}

}  // namespace

http_client::http_client(io_in_virtual_time& world, http::server& server,
                         http_client_options options)
    : world_(world),
      origin_(std::move(options.origin)),
      connections_(std::make_shared<connections>(world.loop, server, options.address)),
      options_(with_connector(std::move(options.client), connections_)),
      client_(world.loop, options_) {}

http_client::~http_client() {
  client_.close();
  try {
    world_.settle();
    // An exception of a task of the loop comes too late for the test, and would end the program.
    // NOLINTNEXTLINE(bugprone-empty-catch)
  } catch (...) {
  }
}

std::string http_client::url(std::string_view path) const {
  return path.starts_with('/') ? origin_ + std::string(path) : std::string(path);
}

http::client_request http_client::request(http::method method, std::string_view path) const {
  return {method, url(path)};
}

http::client_response http_client::get(std::string_view path) {
  return send(request(http::method::get, path));
}

http::client_response http_client::post(std::string_view path, std::string_view content_type,
                                        std::string body) {
  return send(request(http::method::post, path).set_body(content_type, std::move(body)));
}

http::client_response http_client::send(http::client_request request) {
  return world_.run(client_.send(std::move(request)));
}

http_exchange http_client::start(http::client_request request) {
  http_exchange exchange(world_, spawn_joinable(world_.loop, client_.stream(std::move(request)),
                                                {.name = "testing::http_client"}));
  world_.settle();
  return exchange;
}

net::tcp_stream http_client::connect() { return connections_->open(); }

}  // namespace gyre::testing
