// SPDX-License-Identifier: Apache-2.0
// server: an HTTP server on one or several loops, of versions 1.1 and 2.
//
//     gyre::http::server server(runtime.loops(), at);  // an endpoint, or ":8080"
//     server.get("/hello/{name}", [](gyre::http::request& request) {
//       return gyre::http::response::text("Hello, " + request.param("name"));
//     });
//     server.start();
#pragma once

#include <gyre/base/duration.hpp>
#include <gyre/http/access_log.hpp>
#include <gyre/http/handler.hpp>
#include <gyre/http/route_group.hpp>
#include <gyre/http/route_metrics.hpp>
#include <gyre/http/route_verbs.hpp>
#include <gyre/http/server_options.hpp>
#include <gyre/metrics/writable.hpp>
#include <gyre/net/tcp_server.hpp>

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

namespace gyre::http {

namespace detail {
class server_core;
}  // namespace detail

/// Counters of HTTP/2 since the construction of a server, except `memory`.
struct http2_metrics {
  std::uint64_t connections = 0;
  /// Requests that the client may send again: there were too many at a time, or for the memory.
  std::uint64_t refused_streams = 0;
  std::uint64_t stalled_streams = 0;  ///< responses that the client took too slowly
  std::uint64_t floods = 0;           ///< connections that were ended because of abuse
  std::size_t memory = 0;  ///< bytes held now: protocol, heads, and bodies in either direction
};
/// Adds the counts to an exposition: see metrics::registry.
void write_metrics(metrics::exposition& output, const http2_metrics& counts);

/// Counters since the construction of a server, except `active`.
struct server_metrics {
  std::uint64_t requests = 0;  ///< requests whose head was received completely
  std::uint64_t informational = 0;
  std::uint64_t successes = 0;  ///< number of responses by the class of their status
  std::uint64_t redirections = 0;
  std::uint64_t client_errors = 0;
  std::uint64_t server_errors = 0;
  std::uint64_t malformed = 0;  ///< client errors (4xx) by the parser or a limit
  std::uint64_t timeouts = 0;   ///< connections closed by a time limit
  std::size_t active = 0;       ///< requests being received or without a complete response now
  http2_metrics http2 = {};
  net::tcp_server_metrics tcp = {};
};
/// Adds the counts to an exposition: see metrics::registry.
void write_metrics(metrics::exposition& output, const server_metrics& counts);

/// A server of HTTP/1.1 and 1.0: keep-alive, pipelining with responses in order, bodies of known
/// length and chunked bodies, 100-continue, upgrades. It is strict: an ambiguous message is refused
/// (docs/design/http.md). Clients of HTTP/2 are served by the same handlers, several requests of a
/// connection at a time, over TLS by ALPN, and in clear text by prior knowledge: see http2_options.
///
/// Routes have literal segments, `{name}`, and `{rest...}` at the end; if several match, the one
/// with the earlier literal segment wins. The handler of GET also handles HEAD. route_verbs has
/// get(), post() and the other functions that add routes. The server itself
/// responds to OPTIONS with the methods of the path, to a method without a handler with 405 and
/// Allow, and to an unknown path with 404. If a handler throws an http_error, its status is sent;
/// after any other exception, 500 is sent and on_error() is called.
///
/// Thread-safety: any thread; routes, middleware and callbacks are set before start(). Handlers run
/// on the connection's loop, and handlers of different loops run at the same time.
/// Lifetime: the loops must outlive the server. Await stop_async() before destroying the server, or
/// anything that handlers use: until it completes, coroutines of handlers may run.
/// Errors: constructors, listen() and start() throw what those of tcp_server throw. Adding a route
/// throws std::invalid_argument for a malformed or repeated pattern. After start(), adding a route,
/// group(), use(), on_error() and on_access() throw std::logic_error.
/// Complexity: an idle connection holds about 400 bytes and no buffer. One receive and one send per
/// request, or per batch of pipelined requests; memory of requests is reused.
class server : public route_verbs<server> {
 public:
  explicit server(event_loop& loop, server_options options = {});
  template <loop_group Group>
  explicit server(Group& loops, server_options options = {})
      : server(loops.loops(), std::move(options)) {}
  template <class Loop>
  explicit server(basic_loop_thread<Loop>& thread, server_options options = {})
      : server(thread.loop(), std::move(options)) {}
  explicit server(std::vector<event_loop*> loops, server_options options = {});
  /// Constructs a server that listens at `address`: an endpoint, or a text such as ":8080".
  template <std::convertible_to<net::endpoint> At>
  server(event_loop& loop, const At& address, server_options options = {})
      : server(loop, std::move(options)) {
    listen(address);
  }
  template <loop_group Group, std::convertible_to<net::endpoint> At>
  server(Group& loops, const At& address, server_options options = {})
      : server(loops.loops(), std::move(options)) {
    listen(address);
  }
  template <class Loop, std::convertible_to<net::endpoint> At>
  server(basic_loop_thread<Loop>& thread, const At& address, server_options options = {})
      : server(thread.loop(), std::move(options)) {
    listen(address);
  }
  server(const server&) = delete;
  server& operator=(const server&) = delete;
  ~server();

  /// Makes a group of routes whose patterns begin with `prefix`, with middleware of their own.
  [[nodiscard]] route_group group(std::string_view prefix);
  /// Calls `middleware` for each request. The middleware added first is the outermost. It is also
  /// called for requests without a route, after their whole body was read.
  server& use(middleware middleware);
  /// Sets the function that is called when a handler has thrown an exception other than an
  /// http_error, unless the client has disconnected. It is called on the connection's loop, by
  /// several loops at the same time. The default prints a line to stderr, limited to bursts of 10
  /// and one per second, so that clients cannot fill a log.
  server& on_error(move_only_function<void(const request&, std::exception_ptr)> callback);
  /// Sets the function that is called after each response, and when a response that has begun is
  /// cut off. It is called on the connection's loop, by several loops at the same time:
  /// access_log_writer collects their lines. An exception that it throws is reported like one of a
  /// handler.
  server& on_access(move_only_function<void(const access_record&)> callback);

  /// Listens at an address; several calls listen at several addresses. Call it before start().
  void listen(const net::endpoint& address);
  /// Returns the address of a listener, counted in the order of listen(), with its actual port.
  [[nodiscard]] net::endpoint local_endpoint(std::size_t index = 0) const;
  /// Begins to accept connections. Call it once, after all routes were added.
  void start();

  /// Stops gracefully: closes idle connections, responds with `Connection: close` to the requests
  /// of which at least a byte was received, and closes the remaining connections after `timeout`.
  /// Requests that the kernel has received are responded to as well, and a new connection may send
  /// its first request within tcp_server_options::stop_grace. At the end `callback` is called on
  /// the first loop, unless the server was destroyed. Event streams end when stop() begins; other
  /// handlers that wait long should use request::server_stop_token(). Returns at once. A second
  /// call may shorten the timeout; the callback of each call is called.
  ///
  /// When a connection is closed after `timeout`, its handler's stop is requested. `callback` is
  /// called only when the coroutines of all handlers have ended, so a handler that ignores the
  /// request delays it beyond `timeout`. On another thread, `callback` may run before stop()
  /// returns. `callback` may destroy the server.
  void stop(duration timeout = std::chrono::seconds{5}, move_only_function<void()> callback = {});
  /// Stops like stop(); awaiting the result waits until the server has stopped. Throws
  /// std::future_errc::broken_promise if the server is destroyed first. A stop request to the
  /// awaiting task makes the time limit expire, but does not end the wait. A handler of this server
  /// must not await it, because the stop waits for the handler.
  [[nodiscard]] auto stop_async(duration timeout = std::chrono::seconds{5}) {
    return from_callback(
        [this, timeout](completion<void> callback) {
          stop(timeout, [callback] { callback.set_value(); });
        },
        [core = std::weak_ptr(core_)] { expire_stop(core); });
  }

  /// The TCP server that accepts the connections; use it to adopt connections or inherited sockets.
  [[nodiscard]] net::tcp_server& tcp() noexcept;
  [[nodiscard]] server_metrics metrics() const noexcept;
  /// Returns the counts of each route, in the order in which the routes were added, and then those
  /// of all requests without a route. Empty before start(), and unless
  /// server_options::counts_routes is set.
  ///
  /// Complexity: 8 KiB for each route, and some microseconds for each route and loop.
  [[nodiscard]] std::vector<http::route_metrics> route_metrics() const;

 private:
  friend route_verbs;
  server& add_route(method_set methods, std::string_view pattern, handler function,
                    route_options options);
  static void expire_stop(const std::weak_ptr<detail::server_core>& weak_core) noexcept;

  std::shared_ptr<detail::server_core> core_;
};
/// Adds the counts of a server, and those of its routes if it counts them.
void write_metrics(metrics::exposition& output, const server& source);

}  // namespace gyre::http
