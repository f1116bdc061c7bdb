// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/server.hpp>

#include <gyre/http/detail/server_core.hpp>
#include <gyre/metrics/exposition.hpp>

#include <stdexcept>
#include <utility>
#include <vector>

namespace gyre::http {

server::server(event_loop& loop, server_options options)
    : server(std::vector<event_loop*>{&loop}, std::move(options)) {}
server::server(std::vector<event_loop*> loops, server_options options)
    : core_(std::make_shared<detail::server_core>(std::move(loops), std::move(options))) {}
server::~server() { core_->disconnect(); }

server& server::add_route(method_set methods, std::string_view pattern, handler function,
                          route_options options) {
  core_->add(core_->root_scope(), methods, pattern, std::move(function), options);
  return *this;
}

route_group server::group(std::string_view prefix) {
  return route_group(core_, core_->add_scope(core_->root_scope(), prefix));
}

server& server::use(middleware layer) {
  core_->add(core_->root_scope(), std::move(layer));
  return *this;
}

server& server::on_error(move_only_function<void(const request&, std::exception_ptr)> callback) {
  if (core_->is_started) throw std::logic_error("http::server: on_error() comes before start()");
  core_->error_handler = std::move(callback);
  return *this;
}

server& server::on_access(move_only_function<void(const access_record&)> callback) {
  if (core_->is_started) throw std::logic_error("http::server: on_access() comes before start()");
  core_->access_handler = std::move(callback);
  return *this;
}

void server::listen(const net::endpoint& endpoint) { core_->tcp->listen(endpoint); }
net::endpoint server::local_endpoint(std::size_t index) const {
  return core_->tcp->local_endpoint(index);
}
void server::start() { core_->start(); }
void server::stop(duration timeout, move_only_function<void()> callback) {
  core_->stop(timeout, std::move(callback));
}
void server::expire_stop(const std::weak_ptr<detail::server_core>& weak_core) noexcept {
  if (const auto core = weak_core.lock()) core->expire_stop();
}
net::tcp_server& server::tcp() noexcept { return *core_->tcp; }

server_metrics server::metrics() const noexcept {
  server_metrics sum;
  sum.http2.memory = core_->http2_memory.load(std::memory_order_relaxed) +
                     core_->idle_http2_memory.load(std::memory_order_relaxed);
  for (const auto& shard : core_->shards) {
    const auto& counts = shard->counts;
    sum.requests += counts.requests.get();
    sum.malformed += counts.malformed.get();
    sum.timeouts += counts.timeouts.get();
    sum.http2.connections += counts.http2_connections.get();
    sum.http2.refused_streams += counts.refused_streams.get();
    sum.http2.stalled_streams += counts.stalled_streams.get();
    sum.http2.floods += counts.floods.get();
    sum.informational += counts.by_class[1].get();
    sum.successes += counts.by_class[2].get();
    sum.redirections += counts.by_class[3].get();
    sum.client_errors += counts.by_class[4].get();
    sum.server_errors += counts.by_class[5].get();
  }
  sum.active = core_->active();
  sum.tcp = core_->tcp->metrics();
  return sum;
}

std::vector<http::route_metrics> server::route_metrics() const { return core_->route_metrics(); }

void write_metrics(metrics::exposition& output, const http2_metrics& counts) {
  const auto& [connections, refused_streams, stalled_streams, floods, memory] = counts;
  output.add_counter("gyre_http2_server_connections_total", "Connections that spoke HTTP/2.",
                     connections);
  output.add_counter("gyre_http2_server_refused_streams_total",
                     "Requests that clients may send again.", refused_streams);
  output.add_counter("gyre_http2_server_stalled_streams_total",
                     "Responses that the client took too slowly.", stalled_streams);
  output.add_counter("gyre_http2_server_floods_total", "Connections ended because of abuse.",
                     floods);
  output.add_gauge("gyre_http2_server_memory_bytes", "Bytes that connections hold now.", memory);
}

void write_metrics(metrics::exposition& output, const server_metrics& counts) {
  const auto& [requests, informational, successes, redirections, client_errors, server_errors,
               malformed, timeouts, active, http2, tcp] = counts;
  output.add_counter("gyre_http_server_requests_total", "Requests whose head was received.",
                     requests);
  const auto add_responses = [&](std::uint64_t count, std::string_view code) {
    output.add_counter("gyre_http_server_responses_total", "Responses by the class of status.",
                       count, {{"code", code}});
  };
  add_responses(informational, "1xx");
  add_responses(successes, "2xx");
  add_responses(redirections, "3xx");
  add_responses(client_errors, "4xx");
  add_responses(server_errors, "5xx");
  output.add_counter("gyre_http_server_malformed_total", "Responses 4xx by the parser or a limit.",
                     malformed);
  output.add_counter("gyre_http_server_timeouts_total", "Connections closed by a time limit.",
                     timeouts);
  output.add_gauge("gyre_http_server_requests_active", "Requests without a complete response.",
                   active);
  write_metrics(output, http2);
  write_metrics(output, tcp);
}

void write_metrics(metrics::exposition& output, const server& source) {
  write_metrics(output, source.metrics());
  for (const route_metrics& route : source.route_metrics()) write_metrics(output, route);
}

}  // namespace gyre::http
