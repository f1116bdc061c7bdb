// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/detail/client_core.hpp>

#include <gyre/base/detail/duration_check.hpp>
#include <gyre/http/detail/has_http2.hpp>
#include <gyre/http/detail/http2_session.hpp>
#include <gyre/http/detail/incoming_response.hpp>
#include <gyre/http/detail/request_head.hpp>
#include <gyre/http/error.hpp>
#include <gyre/io/error.hpp>
#include <gyre/net/connect.hpp>
#include <gyre/net/host_port.hpp>
#include <gyre/tls/error.hpp>

#include <algorithm>
#include <chrono>
#include <limits>
#include <stdexcept>
#include <utility>
#include <vector>

namespace gyre::http::detail {
namespace {

constexpr std::size_t min_origin_limit = 64;
constexpr std::size_t min_breaker_limit = 64;
constexpr const char* opening_tunnel = "opening a tunnel";

std::string host_and_port(const url& target) {
  std::string text =
      target.is_ipv6() ? '[' + std::string(target.host()) + ']' : std::string(target.host());
  return text.append(":").append(std::to_string(target.port()));
}

void check_http2(const http2_client_options& options) {
  constexpr std::uint32_t max_window = std::numeric_limits<std::int32_t>::max();
  if (options.max_streams == 0) {
    throw std::invalid_argument("http::client: http2.max_streams must be at least 1");
  }
  if (options.stream_window == 0 || options.stream_window > max_window) {
    throw std::invalid_argument("http::client: http2.stream_window must be from 1 to 2^31 - 1");
  }
  if (options.session_memory < http2_session::min_memory) {
    throw std::invalid_argument("http::client: http2.session_memory must be at least 64 KiB");
  }
  if (options.frame_burst == 0) {
    throw std::invalid_argument("http::client: http2.frame_burst must be at least 1");
  }
  gyre::detail::require_not_negative(options.ping_interval, "http::client: http2.ping_interval");
  gyre::detail::require_positive(options.ping_timeout, "http::client: http2.ping_timeout");
}

void check_options(const client_options& options) {
  if (options.connections_per_host == 0) {
    throw std::invalid_argument("http::client: connections_per_host must be at least 1");
  }
  const client_timeouts& timeouts = options.timeouts;
  const auto check_limit = gyre::detail::require_not_negative;
  check_limit(timeouts.connect, "http::client: timeouts.connect");
  check_limit(timeouts.handshake, "http::client: timeouts.handshake");
  check_limit(timeouts.send, "http::client: timeouts.send");
  check_limit(timeouts.first_byte, "http::client: timeouts.first_byte");
  check_limit(timeouts.between_bytes, "http::client: timeouts.between_bytes");
  check_limit(timeouts.expect_continue, "http::client: timeouts.expect_continue");
  check_limit(timeouts.total, "http::client: timeouts.total");
  gyre::detail::require_positive(options.idle_timeout, "http::client: idle_timeout");
  gyre::detail::require_positive(options.max_lifetime, "http::client: max_lifetime");
  check_http2(options.http2);
  check_limit(options.connecting.attempt_delay, "http::client: connecting.attempt_delay");
  check_limit(options.connecting.resolution_delay, "http::client: connecting.resolution_delay");
  // The constructor checks the options.
  if (options.breaker) static_cast<void>(circuit_breaker(*options.breaker));
  if (options.hedging) {
    gyre::detail::require_positive(options.hedging->delay, "http::client: hedging.delay");
    if (options.hedging->attempts < 2) {
      throw std::invalid_argument("http::client: hedging.attempts must be at least 2");
    }
    if (!(options.hedging->max_share >= 0 && options.hedging->max_share <= 1)) {
      throw std::invalid_argument("http::client: hedging.max_share must be from 0 to 1");
    }
  }
  for (const std::optional<url>* const proxy : {&options.proxy.http, &options.proxy.https}) {
    if (*proxy && (*proxy)->scheme() != "http") {
      throw std::invalid_argument("http::client: a proxy must have an http URL");
    }
  }
}

}  // namespace

std::string client_destination::key() const {
  std::string text;
  if (proxy) text.append(host_and_port(*proxy)).append(" ");
  if (is_absolute_form()) return text;
  return text.append(server.scheme()).append("://").append(host_and_port(server));
}

client_core::client_core(event_loop& loop, client_options options)
    : loop_(loop),
      options_(std::move(options)),
      max_origins_(min_origin_limit),
      max_breakers_(min_breaker_limit),
      hedge_budget_(options_.hedging && options_.hedging->max_share > 0 ? max_hedge_budget : 0) {
  check_options(options_);
}

client_destination client_core::destination_of(const url& server) const {
  client_destination destination{.server = server};
  if (const url* const proxy = options_.proxy.proxy_for(server)) {
    destination.proxy = *proxy;
    destination.tunnel = destination.is_tls() || options_.proxy.tunnel_http;
  }
  return destination;
}

client_destination client_core::tunnel_destination_of(const url& server) const {
  client_destination destination = destination_of(server);
  destination.tunnel = destination.proxy.has_value();
  return destination;
}

std::shared_ptr<client_origin> client_core::origin_of(const client_destination& destination) {
  const std::string key = destination.key();
  if (const auto match = origins_.find(key); match != origins_.end()) return match->second;
  if (origins_.size() >= max_origins_) drop_unused_origins();
  auto connect_to_destination = [this, destination,
                                 newest = std::make_shared<tls::session>()](bool offers_http2) {
    return connect(destination, newest, offers_http2);
  };
  auto entry = std::make_shared<client_origin>(loop_, options_, first_version(destination),
                                               std::move(connect_to_destination));
  origins_.emplace(key, entry);
  return entry;
}

client_origin::version client_core::first_version(
    const client_destination& destination) const noexcept {
  const bool may_choose = destination.is_tls()
                              ? options_.http2.enabled
                              : options_.http2.prior_knowledge && !destination.is_absolute_form();
  return has_http2 && may_choose ? client_origin::version::unknown
                                 : client_origin::version::http1_only;
}

// Drops the origins without a connection, so that a client of very many hosts does not keep a pool
// for each of them. Running calls of acquire() share ownership of their origins, which are kept.
void client_core::drop_unused_origins() {
  std::erase_if(origins_, [](const auto& entry) {
    return entry.second.use_count() == 1 && entry.second->is_unused();
  });
  max_origins_ = std::max(min_origin_limit, 2 * origins_.size());
}

std::shared_ptr<circuit_breaker> client_core::breaker_of(const url& server) {
  if (!options_.breaker) return nullptr;
  const std::string key = client_destination{.server = server}.key();
  if (const auto match = breakers_.find(key); match != breakers_.end()) return match->second;
  if (breakers_.size() >= max_breakers_) drop_unused_breakers();
  auto breaker = std::make_shared<circuit_breaker>(*options_.breaker);
  breakers_.emplace(key, breaker);
  return breaker;
}

// Drops the circuit breakers that behave as new ones would. Calls in progress share ownership of
// theirs.
void client_core::drop_unused_breakers() {
  std::erase_if(breakers_, [this](const auto& entry) {
    if (!entry.second->is_unused(loop_.now())) return false;
    dropped_refusals_ += entry.second->refused();
    return true;
  });
  max_breakers_ = std::max(min_breaker_limit, 2 * breakers_.size());
}

task<client_stream_pointer> client_core::acquire(const client_destination& destination,
                                                 bool needs_new) {
  if (is_closed_) throw std::system_error(make_error_code(io::errc::not_open), "connecting");
  auto acquire_task = client_origin::acquire(origin_of(destination), needs_new);
  client_stream_pointer stream = co_await std::move(acquire_task);
  co_return stream;
}

client_stream_pointer client_core::try_open_websocket(const client_destination& destination) {
  const auto match = origins_.find(destination.key());
  return match == origins_.end() ? nullptr : match->second->try_open_websocket();
}

void client_core::require_http1(const client_destination& destination) {
  const auto match = origins_.find(destination.key());
  if (match != origins_.end()) match->second->require_http1();
}

task<std::unique_ptr<client_connection>> client_core::connect_alone(const url& server) {
  if (is_closed_) throw std::system_error(make_error_code(io::errc::not_open), "connecting");
  const client_destination destination = tunnel_destination_of(server);
  auto connect_task = connect(destination, std::make_shared<tls::session>(), false);
  auto connection = co_await std::move(connect_task);
  co_return connection;
}

task<net::tcp_stream> client_core::connect_tcp(const url& target) {
  net::host_port server = host_and_port(target);
  if (options_.connector) return options_.connector(std::move(server));
  if (!server.is_name() || !server.known_endpoints().empty()) {
    return net::connect(std::move(server), options_.connecting);
  }
  if (!names_) names_.emplace(loop_);
  return net::connect(*names_, std::move(server), options_.connecting);
}

task<std::unique_ptr<client_connection>> client_core::connect(
    const client_destination& destination, std::shared_ptr<tls::session> newest_session,
    bool offers_http2) {
  const url& next_hop = destination.proxy ? *destination.proxy : destination.server;
  const request_clock clock(loop_, std::chrono::nanoseconds(0), {});
  if (destination.is_tls() && options_.tls && options_.tls.is_server()) {
    clock.fail(errc::needs_tls, "connecting");
  }
  const duration limit = options_.timeouts.connect;
  auto connect_task = clock.wait(connect_tcp(next_hop), clock.expiry_of(limit), "connecting");
  net::tcp_stream stream = co_await std::move(connect_task);
  auto connection = std::make_unique<client_connection>(std::move(stream));
  if (destination.tunnel) {
    auto tunnel_task = clock.wait(open_tunnel(*connection, destination, clock),
                                  clock.expiry_of(limit), opening_tunnel);
    co_await std::move(tunnel_task);
  }
  if (!destination.is_tls()) {
    if (offers_http2) connection->set_http2();
    co_return connection;
  }
  // Take the session out, so that the next connection after a failed handshake makes a full
  // handshake.
  const tls::session former_session = std::exchange(*newest_session, {});
  auto handshake_task =
      clock.wait(make_tls(connection->take_tcp(), destination, former_session, offers_http2),
                 clock.expiry_of(options_.timeouts.handshake), "TLS handshake");
  tls::tls_stream secured_stream = co_await std::move(handshake_task);
  const std::string protocol = secured_stream.info().application_protocol;
  const bool is_http2 = offers_http2 && protocol == "h2";
  if (!is_http2 && !protocol.empty() && !protocol.starts_with("http/1.")) {
    clock.fail(tls::errc::no_shared_application,
               "TLS handshake: the server has chosen the protocol " + protocol);
  }
  if (!*newest_session) *newest_session = former_session;
  auto secured_connection =
      std::make_unique<client_connection>(std::move(secured_stream), std::move(newest_session));
  if (is_http2) secured_connection->set_http2();
  co_return secured_connection;
}

task<tls::tls_stream> client_core::make_tls(net::tcp_stream stream,
                                            const client_destination& destination,
                                            const tls::session& former_session, bool offers_http2) {
  const tls::tls_context& context =
      options_.tls ? options_.tls : tls::tls_context::default_client();
  std::vector<std::string> protocols;
  if (offers_http2) protocols = {"h2", "http/1.1"};
  return tls::detail::connect_offering(std::move(stream), std::string(destination.server.host()),
                                       context, former_session, std::move(protocols));
}

task<> client_core::open_tunnel(client_connection& connection,
                                const client_destination& destination, const request_clock& clock) {
  const std::string server = host_and_port(destination.server);
  std::string head = "CONNECT " + server + " HTTP/1.1\r\nHost: " + server + "\r\n";
  if (!destination.proxy->user_info().empty()) {
    head.append("Proxy-Authorization: ").append(basic_credentials(destination.proxy->user_info()));
    head.append("\r\n");
  }
  head.append("\r\n");
  constexpr std::chrono::nanoseconds no_limit{0};
  auto write_task =
      connection.write_all(std::as_bytes(std::span(head)), clock, no_limit, opening_tunnel);
  co_await std::move(write_task);
  incoming_response response(options_.limits, "CONNECT");
  for (std::size_t head_size = 0;;) {
    const auto is_whole = response.take_head(connection.input);
    errc error = is_whole ? no_error : is_whole.error();
    if (error == no_error && *is_whole) {
      if (!response.is_interim()) break;
      error = response.skip_interim();
    } else if (error == no_error) {
      const steady_time expiry = connection.input.empty()
                                     ? steady_time::max()
                                     : clock.expiry_of(options_.timeouts.between_bytes);
      auto receive_task = connection.receive(clock, expiry, opening_tunnel);
      const io::received bytes = co_await std::move(receive_task);
      connection.keep(bytes);
      head_size += bytes.size();
      if (bytes.empty()) error = head_size == 0 ? errc::no_response : errc::truncated;
    }
    if (error != no_error) clock.fail(error, opening_tunnel);
  }
  const std::string proxy =
      std::string(opening_tunnel) + " by " + host_and_port(*destination.proxy);
  const unsigned status = response.head().status;
  if (status / 100 != 2) {
    clock.fail(errc::proxy_refused, proxy + ": status " + std::to_string(status));
  }
  // In a tunnel the client sends first, so that bytes after the head break the protocol.
  if (!connection.input.empty()) {
    clock.fail(errc::proxy_refused, proxy + ": bytes came after its response");
  }
}

void client_core::close() noexcept {
  if (std::exchange(is_closed_, true)) return;
  for (const auto& [key, origin] : origins_) origin->close();
  close_source_.request_stop();
}

client_metrics client_core::metrics() const noexcept {
  client_metrics sum = counts;
  sum.requests -= sum.hedges;  // each attempt was counted as a request
  sum.origins = origins_.size();
  for (const auto& [key, origin] : origins_) {
    sum.open += origin->open();
    sum.idle += origin->idle();
    sum.http2_connections += origin->http2_connections();
  }
  sum.circuit_refusals = dropped_refusals_;
  for (const auto& [key, breaker] : breakers_) {
    sum.circuit_refusals += breaker->refused();
    if (breaker->state() != circuit_state::closed) ++sum.open_circuits;
  }
  return sum;
}

}  // namespace gyre::http::detail
