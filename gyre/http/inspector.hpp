// SPDX-License-Identifier: Apache-2.0
// inspector: the address at which operators see the inside of a running program.
//
//     gyre::http::inspector inspector(metrics, "unix:/run/shop/inspect");
//     const auto shown = inspector.show_connections("shop", server.tcp());
//     inspector.start();
//
// Then, on the same machine:
//
// > curl --unix-socket /run/shop/inspect http://localhost/metrics
#pragma once

#include <gyre/http/handler.hpp>
#include <gyre/http/inspector_options.hpp>
#include <gyre/http/shown_connections.hpp>
#include <gyre/metrics/registry.hpp>
#include <gyre/net/endpoint.hpp>
#include <gyre/net/tcp_server.hpp>

#include <memory>
#include <string>
#include <string_view>

namespace gyre::http {

namespace detail {
class inspector_core;
}  // namespace detail

/// A small HTTP server on a thread of its own, so that it responds while every loop of the program
/// is held. It runs no code of its clients, and changes nothing but the log level: all other routes
/// are GET.
///
/// | path | shows |
/// |---|---|
/// | `/` | the paths |
/// | `/metrics` | the registry, as metrics_handler() does |
/// | `/tasks` | the live tasks, the oldest first: name, place, age, peer |
/// | `/connections` | the connections of the servers that show_connections() named |
/// | `/trace` | what the flight recorder has kept: see trace_handler() |
/// | `/log-level` | the log level; PUT sets it to the body: off, error, warning or info |
///
/// `/tasks` and `/connections` are text, or JSON for a client that accepts application/json or asks
/// for `?format=json`; `?limit=20` shows fewer entries. The text escapes control characters of
/// names, and JSON has U+FFFD for bytes that are not UTF-8.
///
/// The address is the path of a Unix socket, which only the user of the process may use (mode
/// 0600), or a loopback address, which every user of the machine can reach. There a browser cannot
/// be led to it by a name of another site: requests must name localhost, 127.0.0.1, [::1] or the
/// address itself as their host.
///
/// Thread-safety: any thread, but get() comes before start().
/// Lifetime: `source` must outlive the inspector. The destructor stops the server and its thread,
/// after at most a second and the limit of a collection, unless a handler of get() ignores its stop
/// request: the destructor then waits for the end of that handler. It must not be called by a
/// handler of the inspector.
/// Errors: the constructor throws std::invalid_argument for an address that other machines can
/// reach, for a Unix socket without a path (abstract or unnamed), which has no mode, and for
/// options out of their ranges; std::system_error as tcp_server::listen() and loop_thread do.
/// Complexity: a thread that sleeps while nobody asks.
class inspector {
 public:
  inspector(const metrics::registry& source, const net::endpoint& address,
            inspector_options options = {});
  inspector(const inspector&) = delete;
  inspector& operator=(const inspector&) = delete;
  ~inspector();

  /// Shows the connections of `server` at `/connections` until the returned object is destroyed,
  /// which `server` must outlive.
  [[nodiscard]] shown_connections show_connections(std::string name, net::tcp_server& server);
  /// Adds a page of the program's own. The handler runs on the inspector's thread, and should
  /// change nothing. Throws what route_verbs::get() throws.
  inspector& get(std::string_view pattern, handler function);

  /// The address, with the port that the kernel has chosen for port 0.
  [[nodiscard]] net::endpoint local_endpoint() const;
  /// Begins to respond. Throws std::logic_error if called twice.
  void start();

 private:
  std::unique_ptr<detail::inspector_core> core_;
};

}  // namespace gyre::http
