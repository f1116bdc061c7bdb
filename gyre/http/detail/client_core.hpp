// SPDX-License-Identifier: Apache-2.0
// client_core: the state that the requests of a client share: connection pools, cookies, resolver.
#pragma once

#include <gyre/base/circuit_breaker.hpp>
#include <gyre/exec/event_loop.hpp>
#include <gyre/http/client_options.hpp>
#include <gyre/http/cookie_jar.hpp>
#include <gyre/http/detail/client_connection.hpp>
#include <gyre/http/detail/client_origin.hpp>
#include <gyre/http/detail/client_stream.hpp>
#include <gyre/http/detail/request_clock.hpp>
#include <gyre/http/url.hpp>
#include <gyre/net/connection_pool.hpp>
#include <gyre/net/resolver.hpp>
#include <gyre/net/tcp_stream.hpp>
#include <gyre/task/stop_token.hpp>
#include <gyre/task/task.hpp>
#include <gyre/tls/tls_stream.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

namespace gyre::http::detail {

/// The route of a connection: to the server directly, to a proxy, or through a tunnel of a proxy.
struct client_destination {
  url server;
  std::optional<url> proxy = {};
  bool tunnel = false;

  bool is_tls() const noexcept { return server.scheme() == "https"; }
  bool is_absolute_form() const noexcept { return proxy && !tunnel; }
  /// Returns the key of a connection pool: equal for destinations that share connections.
  std::string key() const;
};

/// The state that the requests of a client share.
///
/// Thread-safety: the loop's thread.
/// Lifetime: shared by the client and its requests.
class client_core {
 public:
  client_core(event_loop& loop, client_options options);
  client_core(const client_core&) = delete;
  client_core& operator=(const client_core&) = delete;

  event_loop& loop() const noexcept { return loop_; }
  const client_options& options() const noexcept { return options_; }
  client_destination destination_of(const url& server) const;
  /// Returns the route of another protocol than HTTP: a proxy opens a tunnel for it.
  client_destination tunnel_destination_of(const url& server) const;

  /// Returns a stream of a connection that has room, or of a new one; with `needs_new`, none of an
  /// idle connection of HTTP/1.1.
  task<client_stream_pointer> acquire(const client_destination& destination, bool needs_new);
  /// Returns a stream for a WebSocket on an open connection of HTTP/2: see client_origin.
  client_stream_pointer try_open_websocket(const client_destination& destination);
  /// Called when the server wants HTTP/1.1.
  void require_http1(const client_destination& destination);

  /// Returns the circuit breaker of a server; null if there are none.
  std::shared_ptr<circuit_breaker> breaker_of(const url& server);
  /// Returns how many hedges may still be sent. Each request adds hedging_options::max_share, and
  /// each hedge takes 1.
  double& hedge_budget() noexcept { return hedge_budget_; }
  /// Returns a new connection that belongs to no pool, for another protocol than HTTP.
  task<std::unique_ptr<client_connection>> connect_alone(const url& server);

  void close() noexcept;
  bool is_closed() const noexcept { return is_closed_; }
  /// Returns a token whose stop close() requests.
  inplace_stop_token closing() const noexcept { return close_source_.get_token(); }

  client_metrics metrics() const noexcept;

  static constexpr double max_hedge_budget = 10;

  cookie_jar cookies;
  client_metrics counts;
  bool abandoned = false;  ///< whether the client was destroyed: callbacks are then not called

 private:
  std::shared_ptr<client_origin> origin_of(const client_destination& destination);
  client_origin::version first_version(const client_destination& destination) const noexcept;
  void drop_unused_origins();
  void drop_unused_breakers();
  task<std::unique_ptr<client_connection>> connect(const client_destination& destination,
                                                   std::shared_ptr<tls::session> newest_session,
                                                   bool offers_http2);
  task<net::tcp_stream> connect_tcp(const url& target);
  task<tls::tls_stream> make_tls(net::tcp_stream stream, const client_destination& destination,
                                 const tls::session& former_session, bool offers_http2);
  task<> open_tunnel(client_connection& connection, const client_destination& destination,
                     const request_clock& clock);

  event_loop& loop_;
  const client_options options_;
  // The key is client_destination::key().
  std::map<std::string, std::shared_ptr<client_origin>> origins_;
  std::size_t max_origins_;  // at this number of origins, origin_of() drops unused ones
  // The key is scheme, host and port.
  std::map<std::string, std::shared_ptr<circuit_breaker>> breakers_;
  std::size_t max_breakers_;            // at this number, breaker_of() drops unused ones
  std::uint64_t dropped_refusals_ = 0;  // refusals of the circuit breakers that were dropped
  double hedge_budget_;                 // never above max_hedge_budget
  std::optional<net::resolver> names_;
  inplace_stop_source close_source_;
  bool is_closed_ = false;
};

}  // namespace gyre::http::detail
