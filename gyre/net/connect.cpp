// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/connect.hpp>

#include <gyre/base/detail/duration_check.hpp>
#include <gyre/io/error.hpp>
#include <gyre/net/detail/connect_attempt.hpp>
#include <gyre/net/detail/connection_race.hpp>
#include <gyre/net/detail/errors.hpp>
#include <gyre/net/resolver.hpp>
#include <gyre/sync/event.hpp>
#include <gyre/task/as_expected.hpp>
#include <gyre/task/detail/this_context.hpp>
#include <gyre/task/stop_token.hpp>
#include <gyre/task/stop_when.hpp>
#include <gyre/task/when_all.hpp>

#include <utility>

namespace gyre::net {

task<tcp_stream> connect(event_loop& loop, endpoint server, connect_options options) {
  return detail::connect_to(loop, server, std::move(options));
}

task<tcp_stream> connect(endpoint server, connect_options options) {
  const task_context& context = co_await gyre::detail::this_context();
  task<tcp_stream> connect_task = connect(detail::loop_of(context), server, std::move(options));
  co_return co_await std::move(connect_task);
}

namespace {

// Throws std::invalid_argument for a negative delay, even if only one address is known.
void check_delays(const race_options& options) {
  using gyre::detail::require_not_negative;
  require_not_negative(options.attempt_delay, "gyre::net::connect: attempt_delay");
  require_not_negative(options.resolution_delay, "gyre::net::connect: resolution_delay");
}

/// A race that lives in the frame of the coroutine that awaits it: a stop ends the wait and
/// destroys the race.
struct awaited_race {
  // `lookups`: the lookups for candidates, which the end of the race stops.
  awaited_race(event_loop& loop, const race_options& options,
               inplace_stop_source* lookups = nullptr)
      : race(loop, {.connecting = options.each, .delay = options.attempt_delay}, [this, lookups] {
          if (lookups != nullptr) lookups->request_stop();
          end_event.set();
        }) {
    check_delays(options);
  }

  /// Returns the stream; throws the error of the attempt that failed last.
  tcp_stream result() {
    auto outcome = race.take_result();
    if (outcome) return std::move(outcome->stream);
    std::string message = "connect";
    const endpoint& peer = race.last_failed_endpoint();
    if (peer.family() != address_family::none) message += ' ' + peer.to_string();
    throw std::system_error(outcome.error(), message);
  }

  manual_reset_event end_event;
  detail::connection_race race;
};

enum class candidates { of_first_family, all };

task<> add_candidates(detail::connection_race& race, detail::resolve_awaiter lookup,
                      candidates extent) {
  auto lookup_task = as_expected(std::move(lookup));
  const resolve_result addresses = co_await std::move(lookup_task);
  if (addresses) race.add(*addresses);
  if (extent == candidates::all)
    race.end_of_candidates(addresses ? std::error_code() : addresses.error());
}

}  // namespace

task<tcp_stream> connect(event_loop& loop, std::vector<endpoint> candidates, race_options options) {
  if (candidates.empty()) detail::fail(std::errc::invalid_argument, "connect, without an address");
  const task_context& context = co_await gyre::detail::this_context();
  detail::require_loop(loop, context, "gyre::net::connect");
  awaited_race attempts(loop, options);
  attempts.race.add(candidates);
  attempts.race.end_of_candidates();
  co_await attempts.end_event.wait();
  co_return attempts.result();
}

// Looks up `host` and connects to it at the same time (RFC 8305, sections 3 and 5).
task<tcp_stream> connect(resolver& names, std::string host, service port, race_options options) {
  const task_context& context = co_await gyre::detail::this_context();
  inplace_stop_source race_ended;
  awaited_race attempts(detail::loop_of(context), options, &race_ended);
  task<> all = add_candidates(attempts.race, names.resolve(host, port), candidates::all);
  // If the lookup of all addresses ends first, the other lookup adds no candidates, so that the
  // order of all addresses counts.
  task<> first = add_candidates(
      attempts.race,
      detail::resolver_access::resolve_first_family(names, host, port, options.resolution_delay),
      candidates::of_first_family);
  auto lookups =
      as_expected(stop_when(when_all(std::move(all), std::move(first)), race_ended.get_token()));
  static_cast<void>(co_await std::move(lookups));  // the race reports the errors of the lookups
  co_await attempts.end_event.wait();
  if (attempts.race.has_candidates()) co_return attempts.result();
  throw std::system_error(attempts.race.take_result().error(), "resolve " + host);
}

namespace {

// Connects to endpoints that are known without a resolver.
task<tcp_stream> connect_known(event_loop& loop, std::vector<endpoint> endpoints,
                               race_options options) {
  check_delays(options);
  if (endpoints.front().is_unix()) {
    throw std::system_error(
        std::make_error_code(std::errc::invalid_argument),
        "gyre::net::connect " + endpoints.front().to_string() + ": use connect_unix()");
  }
  if (endpoints.size() == 1) return connect(loop, endpoints.front(), std::move(options.each));
  return connect(loop, std::move(endpoints), std::move(options));
}

}  // namespace

task<tcp_stream> connect(resolver& names, host_port server, race_options options) {
  if (server.is_name()) {
    task<tcp_stream> connect_task =
        connect(names, server.host(), server.port(), std::move(options));
    co_return co_await std::move(connect_task);
  }
  const task_context& context = co_await gyre::detail::this_context();
  task<tcp_stream> connect_task =
      connect_known(detail::loop_of(context), server.known_endpoints(), std::move(options));
  co_return co_await std::move(connect_task);
}

task<tcp_stream> connect(host_port server, race_options options) {
  const task_context& context = co_await gyre::detail::this_context();
  event_loop& loop = detail::loop_of(context);
  std::vector<endpoint> endpoints = server.known_endpoints();
  if (!endpoints.empty()) {
    task<tcp_stream> connect_task = connect_known(loop, std::move(endpoints), std::move(options));
    co_return co_await std::move(connect_task);
  }
  resolver names(loop);
  task<tcp_stream> connect_task = connect(names, server.host(), server.port(), std::move(options));
  co_return co_await std::move(connect_task);
}

namespace detail {

task<tcp_stream> connect_text(std::string server, race_options options) {
  task<tcp_stream> connect_task = connect(host_port(server), std::move(options));
  co_return co_await std::move(connect_task);
}

task<tcp_stream> connect_text(resolver& names, std::string server, race_options options) {
  task<tcp_stream> connect_task = connect(names, host_port(server), std::move(options));
  co_return co_await std::move(connect_task);
}

}  // namespace detail
}  // namespace gyre::net
