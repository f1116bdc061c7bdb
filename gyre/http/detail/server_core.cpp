// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/detail/server_core.hpp>

#include <gyre/base/detail/duration_check.hpp>
#include <gyre/base/detail/log.hpp>
#include <gyre/base/detail/system_clocks.hpp>
#include <gyre/http/detail/characters.hpp>
#include <gyre/http/detail/exchange.hpp>
#include <gyre/http/detail/host_list.hpp>
#include <gyre/http/detail/http2_connection.hpp>
#include <gyre/http/detail/http2_session.hpp>
#include <gyre/http/detail/server_connection.hpp>
#include <gyre/http/detail/turn_budget.hpp>
#include <gyre/http/request.hpp>
#include <gyre/net/layer.hpp>
#include <gyre/net/tcp_connection.hpp>
#include <gyre/task/operation_cancelled.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <exception>
#include <limits>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>

namespace gyre::http::detail {
namespace {

// The server's own handlers read no body, so with `streamed_body` they respond before it has come.
constexpr route_options without_body{.streamed_body = true};

// The name of the parameter for the path after a group's prefix, which handlers do not see.
constexpr std::string_view path_below_prefix = "*";

method first_of(method_set methods) noexcept {
  for (auto candidate = method::get; candidate != method::other;
       candidate = static_cast<method>(static_cast<std::uint8_t>(candidate) + 1)) {
    if (candidate != method::options && methods.contains(candidate)) return candidate;
  }
  return methods.contains(method::other) ? method::other : method::options;
}

void check_http2(const http2_options& options) {
  constexpr std::uint32_t max_window = std::numeric_limits<std::int32_t>::max();
  // The window before any setting (RFC 9113, 6.9.2).
  constexpr std::uint32_t initial_window = 65'535;
  const auto require = [](bool is_valid, const char* reason) {
    if (!is_valid) throw std::invalid_argument(std::string("http::server: http2.") + reason);
  };
  require(options.max_streams != 0, "max_streams must be at least 1");
  require(options.stream_window != 0 && options.stream_window <= max_window,
          "stream_window must be from 1 to 2^31 - 1");
  require(options.connection_window >= initial_window && options.connection_window <= max_window,
          "connection_window must be from 65,535 to 2^31 - 1");
  require(options.response_memory != 0, "response_memory must be at least 1");
  require(options.session_memory >= http2_session::min_memory,
          "session_memory must be at least 64 KiB");
  require(options.server_memory >= options.session_memory,
          "server_memory must be at least session_memory");
  require(options.frame_burst != 0, "frame_burst must be at least 1");
}

head_limits limits_of(const server_options& options) noexcept {
  return head_limits{.start_line = options.limits.start_line,
                     .fields = options.limits.fields,
                     .field_count = options.limits.field_count}
      .bounded();
}

server_options with_checked_limits(server_options settings) {
  if (settings.limits.pipelined == 0) {
    throw std::invalid_argument("http::server: limits.pipelined must be at least 1");
  }
  const server_timeouts& timeouts = settings.timeouts;
  gyre::detail::require_not_negative(timeouts.first_byte, "http::server: timeouts.first_byte");
  gyre::detail::require_not_negative(timeouts.head, "http::server: timeouts.head");
  gyre::detail::require_not_negative(timeouts.idle, "http::server: timeouts.idle");
  gyre::detail::require_not_negative(timeouts.body, "http::server: timeouts.body");
  check_http2(settings.http2);
  if (!settings.request_ids.field.empty() && !is_token(settings.request_ids.field)) {
    throw std::invalid_argument("http::server: request_ids.field '" + settings.request_ids.field +
                                "' is not the name of a field");
  }
  if (has_http2 && settings.http2.enabled && settings.tcp.application_protocols.empty()) {
    settings.tcp.application_protocols = {"h2", "http/1.1"};
  }
  settings.tcp.connections.idle_timeout = duration::zero();
  settings.tcp.connections.message_timeout = duration::zero();
  // The output of a connection is not limited here: memory_limit bounds whole bodies, and streams
  // wait at the high-water mark.
  settings.tcp.connections.output_limit = std::numeric_limits<std::size_t>::max();
  // The limit allows an incomplete head, and the input that comes while a handler runs, so that no
  // honest peer exceeds it.
  const head_limits limits = limits_of(settings);
  settings.tcp.connections.input_limit =
      std::max(settings.tcp.connections.input_limit,
               2 * (limits.start_line + limits.fields) + (std::size_t{2} << 20));
  return settings;
}

}  // namespace

server_shard::server_shard(server_core& core, event_loop& loop)
    : budget(std::make_unique<turn_budget>(core, loop)), core_(core), loop_(loop) {
  idle_exchanges_.reserve(max_idle_exchanges);
}

server_shard::~server_shard() = default;

void server_shard::take_output(connection_protocol& owner) noexcept {
  if (output_owner != nullptr) output_owner->flush_output();
  output_owner = &owner;
}

bool server_shard::schedule_flush() noexcept {
  return posted_flush.post(loop_, core_.weak_from_this(), [this] {
    if (output_owner != nullptr) output_owner->flush_output();
  });
}

exchange& server_shard::acquire() {
  if (idle_exchanges_.empty()) return *new exchange(*this);
  exchange& idle_exchange = *idle_exchanges_.back().release();
  idle_exchanges_.pop_back();
  return idle_exchange;
}

void server_shard::release(exchange& idle_exchange) noexcept {
  std::unique_ptr<exchange> owned(&idle_exchange);
  if (idle_exchanges_.size() < max_idle_exchanges && idle_exchange.is_reusable()) {
    idle_exchanges_.push_back(std::move(owned));  // cannot throw: the memory is reserved
  }
}

std::string_view server_shard::date_line(steady_time time) {
  if (time >= date_expires_) {
    using namespace std::chrono;
    const auto wall_time = gyre::detail::wall_now();
    const auto second = floor<seconds>(wall_time);
    std::memcpy(date_line_.data(), "Date: ", 6);
    format_date(second, std::span(date_line_).subspan<6, date_size>());
    std::memcpy(date_line_.data() + 6 + date_size, "\r\n", 2);
    date_expires_ = time + (second + seconds{1} - wall_time);
  }
  return {date_line_.data(), date_line_.size()};
}

void server_shard::make_id(std::span<char, id_size> id) noexcept {
  char* position = id.data();
  for (const std::uint64_t number : {shard_number_, id_sequence_()}) {
    for (int shift = 60; shift >= 0; shift -= 4) {
      *position++ = "0123456789abcdef"[number >> static_cast<unsigned>(shift) & 0xfU];
    }
  }
}

shard_pointer::shard_pointer(server_shard& shard) : shard_(shard) {
  if (shard.pointers_ == 0) shard.kept_core_ = shard.core_.shared_from_this();
  ++shard.pointers_;
}

shard_pointer::~shard_pointer() {
  if (--shard_.pointers_ != 0) return;
  const std::shared_ptr<server_core> last = std::move(shard_.kept_core_);  // may own the shard
}

server_core::server_core(std::vector<event_loop*> loops, server_options settings)
    : options(with_checked_limits(std::move(settings))),
      head_limits(limits_of(options)),
      not_found_{handler([](request&) {
                   return response::text("There is nothing at this path.\n", status::not_found);
                 }),
                 without_body},
      not_allowed_{handler([](request& refused_request) {
                     return response::text("The method is not allowed here.\n",
                                           status::method_not_allowed)
                         .set("Allow", refused_request.allowed_methods().to_string());
                   }),
                   without_body},
      options_{
          handler([](request& request) {
            return response(status::no_content).set("Allow", request.allowed_methods().to_string());
          }),
          without_body},
      misdirected_{handler([](request&) {
                     return response::text(make_error_code(errc::misdirected).message() + "\n",
                                           status::misdirected_request);
                   }),
                   without_body},
      hosts_(options.hosts) {
  scopes_.push_back(std::make_unique<route_scope>());
  for (event_loop* const loop : loops)
    shards.push_back(std::make_unique<server_shard>(*this, *loop));
  tcp.emplace(std::move(loops), options.tcp);
  tcp->on_connection([this](net::tcp_connection& connection) {
    auto& shard = shard_of(connection.loop());
    connection.context() = make_protocol(connection, shard);
  });
  const auto side_of = [](net::tcp_connection& connection) -> connection_protocol& {
    return **connection.context<connection_protocol_pointer>();
  };
  tcp->on_message([side_of](net::tcp_connection& connection, io::input& input) {
    side_of(connection).on_message(input);
  });
  tcp->on_stopping([side_of](net::tcp_connection& connection) { side_of(connection).drain(); });
  tcp->on_low_water(
      [side_of](net::tcp_connection& connection) { side_of(connection).on_low_water(); });
  tcp->on_peer_ended(
      [side_of](net::tcp_connection& connection) { side_of(connection).on_peer_ended(); });
  tcp->on_close([](net::tcp_connection& connection, std::error_code) {
    auto* const side = connection.context<connection_protocol_pointer>();
    if (side != nullptr && *side != nullptr) (*side)->on_closed();
  });
}

connection_protocol_pointer server_core::make_protocol(net::tcp_connection& connection,
                                                       server_shard& shard) {
  if constexpr (has_http2) {
    const net::layer* const layer = connection.layer();
    if (layer != nullptr && layer->application_protocol() == "h2" && options.http2.enabled) {
      return make_http2_connection(connection, shard, shared_from_this());
    }
  }
  return connection_protocol_pointer(new server_connection(connection, shard, shared_from_this()));
}

server_shard& server_core::shard_of(const event_loop& loop) noexcept {
  for (const auto& shard : shards) {
    if (&shard->loop() == &loop) return *shard;
  }
  return *shards.front();
}

route_scope& server_core::add_scope(const route_scope& parent, std::string_view prefix) {
  if (is_started) throw std::logic_error("http::server: group() comes before start()");
  if (!prefix.empty() && (!prefix.starts_with('/') || prefix.ends_with('/'))) {
    throw std::invalid_argument("http::server: the prefix '" + std::string(prefix) +
                                "' of a group must begin with '/', and not end with it");
  }
  auto scope = std::make_unique<route_scope>(
      route_scope{.parent = &parent, .prefix = parent.prefix + std::string(prefix)});
  const bool is_known = std::ranges::any_of(
      scopes_, [&](const auto& known_scope) { return known_scope->prefix == scope->prefix; });
  scopes_.reserve(scopes_.size() + 1);
  if (!is_known) {
    scopes_by_path_.add(scope->prefix + "/{" + std::string(path_below_prefix) + "...}",
                        scope.get());
    scopes_by_path_.add(scope->prefix, scope.get());
  }
  scope->middlewares = parent.middlewares;
  scopes_.push_back(std::move(scope));  // cannot throw: the memory is reserved
  return *scopes_.back();
}

// From now on the server's own routes get whole bodies, because a middleware may respond in place
// of them, and read the body.
void server_core::add(route_scope& scope, middleware layer) {
  if (is_started) throw std::logic_error("http::server: use() comes before start()");
  scope.own.push_back(std::move(layer));
  for (server_route* const refusal : {&not_found_, &not_allowed_, &options_}) refusal->options = {};
  for (const auto& changed_scope : scopes_) {
    changed_scope->middlewares = changed_scope->parent != nullptr
                                     ? changed_scope->parent->middlewares
                                     : std::vector<middleware*>();
    for (middleware& own_layer : changed_scope->own)
      changed_scope->middlewares.push_back(&own_layer);
  }
}

void server_core::add(const route_scope& scope, method_set methods, std::string_view pattern,
                      handler function, route_options route) {
  if (is_started) throw std::logic_error("http::server: routes are added before start()");
  if (!pattern.empty() && !pattern.starts_with('/')) {
    throw std::invalid_argument("http::server: the pattern '" + std::string(pattern) +
                                "' of a route must begin with '/'");
  }
  auto entry = std::make_unique<server_route>(
      server_route{std::move(function), route, scope.prefix + std::string(pattern), &scope});
  if (methods != method_set::all()) entry->method_text = methods.to_string();
  entry->name = trace::intern(entry->method_text + " " + entry->pattern);
  server_route* const added_route = entry.get();
  added_routes_.reserve(added_routes_.size() + 1);
  const std::string& whole_pattern = entry->pattern;
  if (methods == method_set::all()) {
    routes_.add(whole_pattern, std::move(entry));
  } else {
    routes_.add_for(methods, whole_pattern, std::move(entry));
  }
  added_routes_.push_back(added_route);
  methods_.add(methods);
  methods_.add(method::options);
  if (methods.contains(method::get)) methods_.add(method::head);
}

chosen_route server_core::find(const request& request,
                               route_match<std::unique_ptr<server_route>>& match) noexcept {
  routes_.find(request.method(), request.path(), match);
  switch (match.outcome) {
    case route_outcome::found: {
      server_route* const route = match.handler->get();
      return {route, route->scope->middlewares};
    }
    case route_outcome::options: return {&options_, scope_of_refused(request, match).middlewares};
    case route_outcome::not_allowed:
      return {&not_allowed_, scope_of_refused(request, match).middlewares};
    case route_outcome::not_found: break;
  }
  if (request.method() != method::options || request.path() != "*") {
    return {&not_found_, scope_of_refused(request, match).middlewares};
  }
  match.allowed = methods_;
  return {&options_, root_scope().middlewares};
}

// Returns the scope of a request without a route. If its path has routes, this is the scope of one
// of them: in a preflight request of CORS, of the route for the method that will follow. Otherwise
// it is the scope with the longest prefix of the path. Stores the parameters of the pattern in
// `match`.
const route_scope& server_core::scope_of_refused(
    const request& request, route_match<std::unique_ptr<server_route>>& match) const noexcept {
  if (scopes_.size() == 1) return *scopes_.front();
  if (!match.allowed.empty()) {
    const auto preflighted = request.field("Access-Control-Request-Method");
    method requested_method = method_of(preflighted.value_or(""));
    if (!match.allowed.contains(requested_method)) requested_method = first_of(match.allowed);
    const auto route = routes_.find(requested_method, request.path());
    match.parameters = route.parameters;
    return route ? *(*route.handler)->scope : *scopes_.front();
  }
  const auto scope = scopes_by_path_.find(method::get, request.path());
  if (!scope) return *scopes_.front();
  match.parameters = scope.parameters;
  if (match.parameters.raw(path_below_prefix).data() != nullptr) match.parameters.pop();
  return **scope.handler;
}

bool server_core::serves_host(std::string_view authority,
                              const net::tcp_connection& connection) const {
  const net::layer* const layer = connection.layer();
  if (hosts_.empty() && layer == nullptr) return true;
  const std::string_view host = host_of(authority);
  return hosts_.covers(host) && (host.empty() || layer == nullptr || layer->covers_host(host));
}

std::vector<http::route_metrics> server_core::route_metrics() const {
  std::vector<http::route_metrics> sums;
  if (!is_started || !options.counts_routes) return sums;
  for (const server_route* const route : added_routes_) {
    sums.push_back({.method = route->method_text, .pattern = route->pattern});
  }
  sums.push_back({.method = "any", .pattern = not_found_.pattern});
  for (const auto& shard : shards) {
    for (std::size_t i = 0; i < sums.size(); ++i) shard->routes[i].add_to(sums[i]);
  }
  return sums;
}

void server_core::report_error(const request& request, const std::exception_ptr& error) noexcept {
  try {
    if (error_handler) return error_handler(request, error);
    print_error(request.method_text(), request.path(), request.loop().now(), error);
  } catch (...) {
    print_error(request.method_text(), request.path(), request.loop().now(),
                std::current_exception());
  }
}

void server_core::print_error(std::string_view method, std::string_view path, steady_time now,
                              const std::exception_ptr& error) noexcept {
  constexpr std::size_t max_path_length = 200;
  try {
    std::rethrow_exception(error);
  } catch (const operation_cancelled&) {
    return;  // the handler has ended because of the stop
  } catch (const std::exception& failure) {
    if (!may_print_error(now)) return;
    gyre::detail::log(log_level::error, "gyre: http::server: a handler of ", method, " ",
                      path.substr(0, max_path_length), " threw: ", failure.what());
  } catch (...) {
    if (!may_print_error(now)) return;
    gyre::detail::log(log_level::error,
                      "gyre: http::server: a handler, or on_error(), threw an unknown exception");
  }
}

// Limits the rate of messages: a client that can make a handler throw must not fill a log.
bool server_core::may_print_error(steady_time time) {
  return printed_errors_.may_print(time, "http::server", "errors of handlers");
}

void server_core::start() {
  if (is_started) throw std::logic_error("http::server: start() was called twice");
  is_started = true;
  if (options.counts_routes) {
    for (std::size_t i = 0; i < added_routes_.size(); ++i) added_routes_[i]->index = i;
    for (server_route* const own_route : {&not_found_, &not_allowed_, &options_, &misdirected_}) {
      own_route->index = added_routes_.size();
    }
    for (const auto& shard : shards)
      shard->routes = std::vector<route_counters>(added_routes_.size() + 1);
  }
  tcp->start();
}

void server_core::end_work() noexcept {
  // acq_rel: pairs with end_work() in other threads, so that the effects of all work are visible to
  // the stop.
  if (work_.fetch_sub(1, std::memory_order_acq_rel) == 1 && is_draining()) finish_stop();
}

// Counts an activity of a server that a stop waits for, from construction to destruction.
class server_core::activity {
 public:
  explicit activity(std::shared_ptr<server_core> server) noexcept : server_(std::move(server)) {
    server_->begin_work();
  }
  activity(const activity&) = delete;
  activity& operator=(const activity&) = delete;
  ~activity() { server_->end_work(); }

 private:
  const std::shared_ptr<server_core> server_;
};

// The first call begins the stop. A further call may shorten the time limit of the stop.
void server_core::stop(duration timeout, move_only_function<void()> callback) {
  // Delays the callbacks to the end of this call, because they may destroy the server.
  const activity this_call(shared_from_this());
  const steady_time deadline = shards.front()->loop().deadline_after(timeout);
  {
    std::unique_lock lock(mutex_);
    if (is_stopped_) {
      lock.unlock();
      return tcp->stop(deadline, std::move(callback));
    }
  }
  const bool is_first_call = !is_draining_.exchange(true, std::memory_order_relaxed);
  // Closes connections without a request in progress, and at the deadline all others.
  tcp->stop(deadline, [core = weak_from_this()] {
    if (const auto stopping = core.lock()) stopping->on_tcp_stopped();
  });
  if (is_first_call) {
    // The stop waits until each loop has run the function: the last loop destroys the activity.
    auto visits = std::make_shared<activity>(shared_from_this());
    tcp->for_each([visits = std::move(visits)](net::tcp_connection& connection) {
      if (auto* side = connection.context<connection_protocol_pointer>()) (*side)->begin_stop();
    });
  }
  if (!callback) return;
  const std::lock_guard lock(mutex_);
  done_callbacks_.push_back(std::move(callback));
}

void server_core::expire_stop() noexcept {
  const std::lock_guard lock(mutex_);
  if (is_stopped_) return;
  try {
    tcp->stop(duration::zero());
    // NOLINTNEXTLINE(bugprone-empty-catch): without memory the stop keeps its time limit
  } catch (const std::bad_alloc&) {
  }
}

void server_core::on_tcp_stopped() {
  {
    const std::lock_guard lock(mutex_);
    is_tcp_stopped_ = true;
  }
  finish_stop();
}

// Makes the first loop call the callbacks, if all connections have ended, so that no further
// request can begin, and no activity is left: coroutines of handlers may outlive their connections.
// Called after each of these ends.
//
// Any thread may call it, and the callbacks may let another thread destroy the server, and then the
// loops. disconnect(), which the server's destructor calls, therefore waits for the lock.
void server_core::finish_stop() {
  const std::lock_guard lock(mutex_);
  // acquire: pairs with end_work(). An activity that begins later finds is_stopped_ set, or ends
  // with a call of this function.
  const bool is_active = work_.load(std::memory_order_acquire) != 0;
  if (!is_tcp_stopped_ || is_active || std::exchange(is_stopped_, true)) return;
  tcp->stop(duration::zero(), [callbacks = std::exchange(done_callbacks_, {})]() mutable {
    std::exception_ptr error;
    for (auto& callback : callbacks) {
      try {
        callback();
      } catch (...) {
        if (!error) error = std::current_exception();
      }
    }
    if (error) std::rethrow_exception(error);
  });
}

void server_core::disconnect() noexcept {
  // Declared outside the lock, so that the callbacks are destroyed after its release.
  std::vector<move_only_function<void()>> unused_callbacks;
  {
    const std::lock_guard lock(mutex_);
    is_stopped_ = true;
    unused_callbacks.swap(done_callbacks_);
  }
  tcp.reset();
}

}  // namespace gyre::http::detail
