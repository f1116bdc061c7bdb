// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/server.hpp>

#include <gyre/base/detail/duration_check.hpp>
#include <gyre/http/detail/host_field.hpp>
#include <gyre/http/detail/server_connection.hpp>
#include <gyre/http/detail/server_core.hpp>
#include <gyre/task/operation_cancelled.hpp>
#include <gyre/tls/transport.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <limits>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>

namespace gyre::http {
namespace detail {
namespace {

// The server's own handlers answer before a body is asked for, and read none.
constexpr route_options without_body{.streamed_body = true};

}  // namespace

exchange& server_shard::acquire() {
  if (unused_.empty()) return *new exchange(*this);
  exchange& reused = *unused_.back().release();
  unused_.pop_back();
  return reused;
}

void server_shard::release(exchange& unused) noexcept {
  std::unique_ptr<exchange> owned(&unused);
  if (unused_.size() < most_unused && unused.is_reusable()) {
    unused_.push_back(std::move(owned));  // reserved: cannot throw
  }
}

std::string_view server_shard::date_line(steady_time present) {
  if (present >= date_expires_) {
    using namespace std::chrono;
    const auto wall = system_clock::now();
    const auto second = floor<seconds>(wall);
    std::memcpy(date_line_.data(), "Date: ", 6);
    format_date(second, std::span(date_line_).subspan<6, date_size>());
    std::memcpy(date_line_.data() + 6 + date_size, "\r\n", 2);
    date_expires_ = present + (second + seconds{1} - wall);
  }
  return {date_line_.data(), date_line_.size()};
}

server_options server_core::checked(server_options settings) {
  if (settings.limits.pipelined == 0) {
    throw std::invalid_argument("http::server: limits.pipelined must be at least 1");
  }
  const server_timeouts& times = settings.timeouts;
  gyre::detail::require_not_negative(times.first_byte, "http::server: timeouts.first_byte");
  gyre::detail::require_not_negative(times.head, "http::server: timeouts.head");
  gyre::detail::require_not_negative(times.idle, "http::server: timeouts.idle");
  gyre::detail::require_not_negative(times.body, "http::server: timeouts.body");
  settings.tcp.connections.idle_timeout = duration::zero();
  settings.tcp.connections.message_timeout = duration::zero();
  // Whole bodies may be as long as memory_limit allows; streams wait at the high-water mark.
  settings.tcp.connections.output_limit = std::numeric_limits<std::size_t>::max();
  // Input that waits for a handler comes on top of an incomplete head: no honest peer exceeds it.
  settings.tcp.connections.input_limit =
      std::max(settings.tcp.connections.input_limit,
               2 * (settings.limits.start_line + settings.limits.fields) + (std::size_t{2} << 20));
  return settings;
}

server_core::server_core(std::vector<event_loop*> loops, server_options settings)
    : options(checked(std::move(settings))),
      head_limits{.start_line = options.limits.start_line,
                  .fields = options.limits.fields,
                  .field_count = options.limits.field_count},
      not_found_{handler([](request&) {
                   return response::text("There is nothing at this path.\n", status::not_found);
                 }),
                 without_body},
      not_allowed_{handler([](request& refused) {
                     return response::text("The method is not allowed here.\n",
                                           status::method_not_allowed)
                         .set("Allow", refused.allowed_methods().to_string());
                   }),
                   without_body},
      options_{
          handler([](request& asked) {
            return response(status::no_content).set("Allow", asked.allowed_methods().to_string());
          }),
          without_body},
      misdirected_{handler([](request&) {
                     return response::text(make_error_code(errc::misdirected).message() + "\n",
                                           status::misdirected_request);
                   }),
                   without_body},
      hosts_(options.hosts) {
  for (event_loop* const each : loops)
    shards.push_back(std::make_unique<server_shard>(*this, *each));
  tcp.emplace(std::move(loops), options.tcp);
  tcp->on_connection([this](net::tcp_connection& begun) {
    auto& shard = shard_of(begun.loop());
    begun.context() = std::make_unique<server_connection>(begun, shard, shared_from_this());
  });
  const auto side_of = [](net::tcp_connection& of) -> server_connection& {
    return **of.context<std::unique_ptr<server_connection>>();
  };
  tcp->on_message(
      [side_of](net::tcp_connection& from, io::input& in) { side_of(from).on_message(in); });
  tcp->on_stopping([side_of](net::tcp_connection& stopping) { side_of(stopping).drain(); });
  tcp->on_low_water([side_of](net::tcp_connection& to) { side_of(to).on_low_water(); });
  tcp->on_peer_ended([side_of](net::tcp_connection& from) { side_of(from).on_peer_ended(); });
}

server_shard& server_core::shard_of(const event_loop& loop) noexcept {
  for (const auto& each : shards) {
    if (&each->loop() == &loop) return *each;
  }
  return *shards.front();
}

// A middleware may answer in place of a route that is missing, from the body.
void server_core::add(middleware around) {
  middlewares.push_back(std::move(around));
  for (endpoint* const refusal : {&not_found_, &not_allowed_, &options_}) refusal->options = {};
}

void server_core::add(method which, std::string_view pattern, handler answer, route_options route) {
  if (started) throw std::logic_error("http::server: routes are added before start()");
  auto added = std::make_unique<endpoint>(endpoint{std::move(answer), route, std::string(pattern)});
  routes_.add(which, pattern, std::move(added));
  methods_.add({which, method::options});
  if (which == method::get) methods_.add(method::head);
}

endpoint* server_core::find(method which, std::string_view path,
                            route_match<std::unique_ptr<endpoint>>& match) noexcept {
  routes_.find(which, path, match);
  switch (match.outcome) {
    case route_outcome::found: return match.handler->get();
    case route_outcome::options: return &options_;
    case route_outcome::not_allowed: return &not_allowed_;
    case route_outcome::not_found: break;
  }
  if (which != method::options || path != "*") return &not_found_;
  match.allowed = methods_;
  return &options_;
}

bool server_core::answers_for(std::string_view authority, const net::tcp_connection& from) const {
  if (hosts_.empty() && from.layer() == nullptr) return true;
  const std::string_view host = host_of(authority);
  return hosts_.covers(host) && (host.empty() || tls::covers_host(from, host));
}

void server_core::report(const request& from, const std::exception_ptr& error) noexcept {
  try {
    if (error_handler) return error_handler(from, error);
    try {
      std::rethrow_exception(error);
    } catch (const std::exception& known) {
      if (!may_print_error(from.loop().now())) return;
      std::fprintf(stderr, "gyre: http::server: a handler of %.*s %.*s threw: %s\n",
                   static_cast<int>(from.method_text().size()), from.method_text().data(),
                   static_cast<int>(std::min<std::size_t>(from.path().size(), 200)),
                   from.path().data(), known.what());
    }
  } catch (const operation_cancelled&) {
    return;  // the handler ended as it was asked to
  } catch (...) {
    if (!may_print_error(from.loop().now())) return;
    std::fputs("gyre: http::server: a handler, or on_error(), threw an unknown exception\n",
               stderr);
  }
}

// Clients may be able to make a handler throw: they must not fill a log.
bool server_core::may_print_error(steady_time present) {
  return printed_errors_.may_print(present, "http::server", "errors of handlers");
}

void server_core::start() {
  if (started) throw std::logic_error("http::server: start() was called twice");
  started = true;
  tcp->start();
}

void server_core::end_work() noexcept {
  // acq_rel: what others did with theirs happens before the stop.
  if (work_.fetch_sub(1, std::memory_order_acq_rel) == 1 && is_draining()) finish_stop();
}

// The first call begins it; each may make the end earlier.
void server_core::stop(duration timeout, move_only_function<void()> done) {
  event_loop& first = shards.front()->loop();
  const steady_time deadline = first.deadline_after(timeout);
  bool begins = false;
  {
    std::unique_lock lock(mutex_);
    if (stopped_) {
      lock.unlock();
      return tcp->stop(deadline, std::move(done));
    }
    begins = !draining_.exchange(true, std::memory_order_relaxed);
    if (begins || deadline < stop_by_) stop_by_ = deadline;
    done_callbacks_.push_back(std::move(done));
  }
  begin_work();
  first.post_at(deadline, [self = weak_from_this()] {
    if (const auto core = self.lock()) core->finish_stop();
  });
  if (begins) {
    tcp->stop(deadline);  // connections without a request in work are drained
    // Destroyed when every loop has seen it.
    struct visit {
      explicit visit(std::shared_ptr<server_core> of) : core(std::move(of)) {}
      visit(const visit&) = delete;
      visit& operator=(const visit&) = delete;
      ~visit() { core->end_work(); }
      std::shared_ptr<server_core> core;
    };
    begin_work();
    tcp->for_each([held = std::make_shared<visit>(shared_from_this())](net::tcp_connection& each) {
      if (auto* side = each.context<std::unique_ptr<server_connection>>()) (*side)->begin_stop();
    });
  }
  end_work();
}

void server_core::finish_stop() {
  std::vector<move_only_function<void()>> callbacks;
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(stopped_, true)) return;
    callbacks.swap(done_callbacks_);
  }
  if (!tcp) return;
  tcp->stop(stop_by_, [callbacks = std::move(callbacks)]() mutable {
    for (auto& each : callbacks) {
      if (each) each();
    }
  });
}

}  // namespace detail

std::string to_combined_log(const access_record& record) {
  const request& from = record.request;
  const auto quoted = [](std::string& to, std::string_view text) {
    to += '"';
    for (const char each : text) {
      if (each == '"' || each == '\\') to += '\\';
      const auto byte = static_cast<unsigned char>(each);
      to += byte < 0x20 || byte >= 0x7f ? '?' : each;
    }
    to += '"';
  };
  std::string line = "-";
  if (net::tcp_connection* const open = from.connection()) {
    const net::endpoint peer = open->peer_endpoint();
    if (peer.is_ip()) line = peer.address().to_string();
  }
  const std::time_t now = std::time(nullptr);
  std::tm fields{};
  ::gmtime_r(&now, &fields);
  static constexpr const char* months[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                           "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  std::array<char, 64> time;
  std::snprintf(time.data(), time.size(), " - - [%02d/%s/%d:%02d:%02d:%02d +0000] ", fields.tm_mday,
                months[fields.tm_mon], fields.tm_year + 1900, fields.tm_hour, fields.tm_min,
                fields.tm_sec);
  line += time.data();
  std::string first(from.method_text());
  first += ' ';
  first += from.target();
  first += from.minor_version() == 0 ? " HTTP/1.0" : " HTTP/1.1";
  quoted(line, first);
  line += ' ' + std::to_string(to_number(record.status)) + ' ' + std::to_string(record.body_bytes) +
          ' ';
  quoted(line, from.field("Referer").value_or("-"));
  line += ' ';
  quoted(line, from.field("User-Agent").value_or("-"));
  return line;
}

server::server(event_loop& loop, server_options options)
    : server(std::vector<event_loop*>{&loop}, std::move(options)) {}
server::server(std::vector<event_loop*> loops, server_options options)
    : core_(std::make_shared<detail::server_core>(std::move(loops), std::move(options))) {}
server::~server() { core_->tcp.reset(); }

server& server::route(method which, std::string_view pattern, handler answer,
                      route_options options) {
  core_->add(which, pattern, std::move(answer), options);
  return *this;
}

server& server::use(middleware around) {
  if (core_->started) throw std::logic_error("http::server: use() comes before start()");
  core_->add(std::move(around));
  return *this;
}

server& server::on_error(move_only_function<void(const request&, std::exception_ptr)> callback) {
  if (core_->started) throw std::logic_error("http::server: on_error() comes before start()");
  core_->error_handler = std::move(callback);
  return *this;
}

server& server::on_access(move_only_function<void(const access_record&)> callback) {
  if (core_->started) throw std::logic_error("http::server: on_access() comes before start()");
  core_->access_handler = std::move(callback);
  return *this;
}

void server::listen(const net::endpoint& at) { core_->tcp->listen(at); }
net::endpoint server::local_endpoint(std::size_t index) const {
  return core_->tcp->local_endpoint(index);
}
void server::start() { core_->start(); }
void server::stop(duration timeout, move_only_function<void()> done) {
  core_->stop(timeout, std::move(done));
}
net::tcp_server& server::tcp() noexcept { return *core_->tcp; }

server_metrics server::metrics() const noexcept {
  server_metrics sum;
  for (const auto& each : core_->shards) {
    const auto& counts = each->counts;
    sum.requests += counts.requests.get();
    sum.malformed += counts.malformed.get();
    sum.timeouts += counts.timeouts.get();
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

}  // namespace gyre::http
