// SPDX-License-Identifier: Apache-2.0
// http_client: sends requests to an http::server of the same process, in virtual time and without a
// port: for tests of handlers.
//
//     gyre::testing::io_in_virtual_time world;
//     gyre::http::server server(world.loop);
//     server.get("/users/{id}", show_user);
//     gyre::testing::http_client client(world, server);
//     gyre::http::client_response answer = client.get("/users/7");
//     EXPECT_EQ(answer.body(), "Ada");
#pragma once

#include <gyre/http/client.hpp>
#include <gyre/http/client_options.hpp>
#include <gyre/http/client_request.hpp>
#include <gyre/http/client_response.hpp>
#include <gyre/http/method.hpp>
#include <gyre/http/server.hpp>
#include <gyre/net/address.hpp>
#include <gyre/net/tcp_stream.hpp>
#include <gyre/testing/http_exchange.hpp>
#include <gyre/testing/io_in_virtual_time.hpp>

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace gyre::testing {

/// Options of an http_client.
struct http_client_options {
  /// The scheme, host and port of requests that name only a path. With https the server needs
  /// tls::server_transport(), and `client.tls` must trust its certificate.
  std::string origin = "http://localhost";
  /// The client's address, as request::peer_endpoint() tells it; each connection has another port.
  net::ip_address address = net::ip_address("192.0.2.1");
  /// The settings of the client itself. Tests look at each response, so no redirect is followed,
  /// and only a day of virtual time ends a request. With `client.http2.prior_knowledge` requests
  /// use HTTP/2.
  http::client_options client = {.timeouts = {.connect = {},
                                              .handshake = {},
                                              .send = {},
                                              .first_byte = {},
                                              .between_bytes = {},
                                              .total = std::chrono::hours(24)},
                                 .follow_redirects = false};
};

/// An http::client whose connections lead to a server in the same process, which is the server of
/// production: parser, routes, middleware, limits, time limits and streams are the real ones. Only
/// the connections are not: each is a pair of connected descriptors, adopted by the server, so that
/// a test needs no port, no network and no thread, and no other process can reach the server. The
/// server need not listen or start.
///
/// Each function runs the loop until what it returns has come; virtual time passes as needed, so
/// that a handler that sleeps for an hour takes no time.
///
/// Thread-safety: the thread that runs the loop; not within tasks of the loop, which use client().
/// Lifetime: the world and the server must outlive the client, and the client its exchanges. All
/// loops of the server must be that of the world. The destructor closes the connections, and runs
/// what is ready, so that handlers whose clients are gone end; before the server is destroyed, a
/// handler that then still runs needs `world.run(server.stop_async())`.
/// Errors: those of http::client. std::logic_error, as io_in_virtual_time::run(), if a handler can
/// never respond, since nothing is left to do. The constructor throws what that of http::client
/// throws.
class http_client {
 public:
  http_client(io_in_virtual_time& world, http::server& server, http_client_options options = {});
  http_client(const http_client&) = delete;
  http_client& operator=(const http_client&) = delete;
  ~http_client();

  /// Returns a request with `path`, such as "/users/7?page=2", at the origin of the options, or
  /// with a whole URL.
  [[nodiscard]] http::client_request request(http::method method, std::string_view path) const;

  /// Send a request, and return the response with its whole body.
  http::client_response get(std::string_view path);
  /// Sends a request with a body of this type.
  http::client_response post(std::string_view path, std::string_view content_type,
                             std::string body);
  /// Sends the request.
  http::client_response send(http::client_request request);
  /// Sends a request, and returns before the response: for streams and events, for requests that
  /// are in progress at the same time, and for a client that leaves. Runs what is ready.
  http_exchange start(http::client_request request);
  http_exchange start(std::string_view path) { return start(request(http::method::get, path)); }

  /// Returns the client, for coroutines of the world's loop.
  [[nodiscard]] http::client& client() noexcept { return client_; }
  /// Returns the options of client(), whose connector leads to the server: for further clients, and
  /// for other functions that take the options of a client. Valid as long as the server.
  [[nodiscard]] const http::client_options& options() const noexcept { return options_; }
  /// Returns `path` at the origin of the options; a whole URL as it is.
  [[nodiscard]] std::string url(std::string_view path) const;
  /// Connects to the server, for a test that sends bytes of its own, such as malformed requests, or
  /// that reads slowly. No request of this client uses the connection.
  [[nodiscard]] net::tcp_stream connect();

 private:
  struct connections;

  io_in_virtual_time& world_;
  const std::string origin_;
  std::shared_ptr<connections> connections_;
  const http::client_options options_;
  http::client client_;
};

}  // namespace gyre::testing
