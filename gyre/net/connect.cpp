// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/connect.hpp>

#include <gyre/base/detail/duration_check.hpp>
#include <gyre/io/error.hpp>
#include <gyre/net/detail/connect_attempt.hpp>
#include <gyre/net/resolver.hpp>
#include <gyre/sync/event.hpp>
#include <gyre/task/as_expected.hpp>
#include <gyre/task/detail/this_context.hpp>
#include <gyre/task/scope.hpp>
#include <gyre/task/with_timeout.hpp>

#include <memory>
#include <utility>

namespace gyre::net {

namespace detail {

socket open_to_connect(const endpoint& to, const endpoint& local, const socket_options& options) {
  socket opened = socket::open(to.family(), socket_type::stream);
  opened.apply(options);
  if (local.family() != address_family::none) {
    if (!options.reuse_address) opened.set_reuse_address(true);
    // Connecting then chooses a port that is free for this peer, not for all of them.
    if (local.is_ip() && local.port() == 0) opened.set_bind_address_no_port(true);
    opened.bind(local);
  }
  return opened;
}

std::error_code check_connected(socket_ref connected) noexcept try {
  const endpoint local = connected.local_endpoint();
  if (!local.is_ip() || local != connected.peer_endpoint()) return {};
  return io::errc::connected_to_itself;
} catch (const std::system_error& error) {
  return error.code();
}

void throw_not_connected(std::error_code error, const endpoint& to) {
  throw std::system_error(error, "connect " + to.to_string());
}

event_loop& loop_of(const task_context& context) {
  // Before the thread runs a loop, that may be the executor already: see sync_wait().
  if (auto* const loop = dynamic_cast<event_loop*>(context.where)) return *loop;
  if (event_loop* const loop = event_loop::current()) return *loop;
  fail(std::errc::operation_not_permitted, "gyre::net::connect: the coroutine runs on no loop");
}

}  // namespace detail

task<tcp_stream> connect(event_loop& loop, endpoint to, connect_options options) {
  socket opened = detail::open_to_connect(to, options.local.value_or(endpoint()), options.socket);
  auto on = std::make_unique<io::detail::open_descriptor>(loop, opened.release(),
                                                          io::handle_kind::stream_socket);
  auto connecting = as_expected(io::detail::request_awaiter<detail::connect_operation>(
      std::in_place, on.get(), std::as_const(to).data(), to.size()));
  const auto connected = co_await std::move(connecting);
  if (!connected) detail::throw_not_connected(connected.error(), to);
  if (const std::error_code error = detail::check_connected(socket_ref(on->fd()))) {
    detail::throw_not_connected(error, to);
  }
  co_return detail::stream_maker::make<tcp_stream>(std::move(on));
}

task<tcp_stream> connect(endpoint to, connect_options options) {
  const task_context& context = co_await gyre::detail::this_context();
  task<tcp_stream> connecting = connect(detail::loop_of(context), to, std::move(options));
  co_return co_await std::move(connecting);
}

namespace {

/// Happy eyeballs (RFC 8305): attempts to connect to several addresses, each started some time
/// after the one before, of which the first that succeeds wins. Lives in the frame of the coroutine
/// that waits for all attempts. The loop's thread.
class connection_race {
 public:
  connection_race(event_loop& loop, race_options options)
      : loop_(loop), options_(std::move(options)) {
    gyre::detail::require_not_negative(options_.attempt_delay, "gyre::net::connect: attempt_delay");
    gyre::detail::require_not_negative(options_.resolution_delay,
                                       "gyre::net::connect: resolution_delay");
  }

  /// As candidate_list::add().
  void add(const std::vector<endpoint>& candidates) {
    candidates_.add(candidates);
    more_.set();
  }
  bool has_candidates() const noexcept { return candidates_.has_known(); }
  /// No others will be added.
  void end_of_candidates() {
    complete_ = true;
    more_.set();
  }
  /// Starts attempts in `attempts`, until one succeeds or all candidates have been tried. With the
  /// first success the scope is asked to stop.
  task<> run(scope& attempts) {
    for (;;) {
      if (const std::optional<endpoint> to = candidates_.next()) {
        one_ended_.reset();
        attempts.spawn(loop_, attempt(*to, attempts), "net::connect: attempt");
        auto ended = as_expected(with_timeout(one_ended_.wait(), options_.attempt_delay));
        const auto waited = co_await std::move(ended);
        if (!waited && waited.error() != std::errc::timed_out) co_return;
      } else if (complete_) {
        co_return;
      } else {
        more_.reset();  // earlier notifications have been dealt with
        auto waiting = as_expected(more_.wait());
        const auto waited = co_await std::move(waiting);
        if (!waited) co_return;
      }
      if (winner_) co_return;
    }
  }
  /// When the scope has ended: the connection, or throws the error of the last attempt that failed.
  tcp_stream result() {
    if (winner_) return std::move(*winner_);
    std::string what = "connect";
    if (last_failed_.family() != address_family::none) what += ' ' + last_failed_.to_string();
    throw std::system_error(error_, what);
  }

 private:
  task<> attempt(endpoint to, scope& attempts) {
    auto connecting = as_expected(connect(loop_, to, options_.each));
    auto connected = co_await std::move(connecting);
    if (!connected) {
      error_ = connected.error();
      last_failed_ = to;
    } else if (!winner_) {
      winner_ = std::move(*connected);
      attempts.request_stop();
    }
    one_ended_.set();
    more_.set();
  }

  event_loop& loop_;
  race_options options_;
  detail::candidate_list candidates_;
  bool complete_ = false;
  auto_reset_event one_ended_;
  auto_reset_event more_;  // candidates, or that there are none; or a winner
  std::optional<tcp_stream> winner_;
  endpoint last_failed_;  // the last one
  std::error_code error_ = detail::cancelled();
};

/// Looks a host up and connects to it, both at the same time (RFC 8305, sections 3 and 5). Lives in
/// the frame of the coroutine that waits for it.
class host_race {
 public:
  host_race(event_loop& loop, resolver& names, std::string host, service port, race_options options)
      : loop_(loop),
        names_(names),
        host_(std::move(host)),
        port_(port),
        resolution_delay_(options.resolution_delay),
        race_(loop, std::move(options)) {}

  task<> run(scope& within) {
    within.spawn(loop_, connect_early(within), "net::connect: first addresses");
    auto asking = as_expected(names_.resolve(host_, port_));
    all_ = co_await std::move(asking);
    if (*all_) race_.add(**all_);
    race_.end_of_candidates();
  }

  tcp_stream result() {
    if (!race_.has_candidates()) throw std::system_error(all_->error(), "resolve " + host_);
    return race_.result();
  }

 private:
  task<> connect_early(scope& within) {
    if (!all_) {
      auto asking = as_expected(
          detail::resolver_access::resolve_first_family(names_, host_, port_, resolution_delay_));
      const resolve_result first = co_await std::move(asking);
      // If all are known by now, this adds none to them, and theirs is the order.
      if (first) race_.add(*first);
    }
    task<> running = race_.run(within);
    co_await std::move(running);
  }

  event_loop& loop_;
  resolver& names_;
  const std::string host_;
  const service port_;
  const std::chrono::nanoseconds resolution_delay_;
  connection_race race_;
  std::optional<resolve_result> all_;
};

}  // namespace

task<tcp_stream> connect(event_loop& loop, std::vector<endpoint> candidates, race_options options) {
  if (candidates.empty()) detail::fail(std::errc::invalid_argument, "connect, without an address");
  connection_race race(loop, std::move(options));
  race.add(candidates);
  race.end_of_candidates();
  auto run = [&](scope& within) { return race.run(within); };
  auto all = with_scope(std::move(run));
  co_await std::move(all);
  co_return race.result();
}

task<tcp_stream> connect(resolver& names, std::string host, service port, race_options options) {
  const task_context& context = co_await gyre::detail::this_context();
  event_loop& loop = detail::loop_of(context);
  host_race race(loop, names, std::move(host), port, std::move(options));
  auto run = [&](scope& within) { return race.run(within); };
  auto all = with_scope(std::move(run));
  co_await std::move(all);
  co_return race.result();
}

namespace {

// To the endpoints that are known without a resolver.
task<tcp_stream> connect_known(event_loop& loop, std::vector<endpoint> known,
                               race_options options) {
  if (known.front().is_unix()) {
    throw std::system_error(
        std::make_error_code(std::errc::invalid_argument),
        "gyre::net::connect " + known.front().to_string() + ": use connect_unix()");
  }
  if (known.size() == 1) return connect(loop, known.front(), std::move(options.each));
  return connect(loop, std::move(known), std::move(options));
}

}  // namespace

task<tcp_stream> connect(resolver& names, host_port to, race_options options) {
  if (to.is_name()) {
    task<tcp_stream> by_name = connect(names, to.host(), to.port(), std::move(options));
    co_return co_await std::move(by_name);
  }
  const task_context& context = co_await gyre::detail::this_context();
  task<tcp_stream> direct =
      connect_known(detail::loop_of(context), to.known_endpoints(), std::move(options));
  co_return co_await std::move(direct);
}

task<tcp_stream> connect(host_port to, race_options options) {
  const task_context& context = co_await gyre::detail::this_context();
  event_loop& loop = detail::loop_of(context);
  std::vector<endpoint> known = to.known_endpoints();
  if (!known.empty()) {
    task<tcp_stream> direct = connect_known(loop, std::move(known), std::move(options));
    co_return co_await std::move(direct);
  }
  resolver names(loop);
  task<tcp_stream> by_name = connect(names, to.host(), to.port(), std::move(options));
  co_return co_await std::move(by_name);
}

namespace detail {

task<tcp_stream> connect_text(std::string to, race_options options) {
  task<tcp_stream> connecting = connect(host_port(to), std::move(options));
  co_return co_await std::move(connecting);
}

task<tcp_stream> connect_text(resolver& names, std::string to, race_options options) {
  task<tcp_stream> connecting = connect(names, host_port(to), std::move(options));
  co_return co_await std::move(connecting);
}

}  // namespace detail
}  // namespace gyre::net
