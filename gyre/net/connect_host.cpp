// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/connect.hpp>

#include <gyre/net/detail/connect_attempt.hpp>
#include <gyre/net/resolver.hpp>
#include <gyre/task/as_expected.hpp>
#include <gyre/task/detail/this_context.hpp>
#include <gyre/task/scope.hpp>

#include <chrono>
#include <optional>
#include <system_error>
#include <utility>

namespace gyre::net {
namespace {

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
    within.spawn(loop_, connect_early(within));
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
  detail::connection_race race_;
  std::optional<resolve_result> all_;
};

}  // namespace

task<tcp_stream> connect(resolver& names, std::string host, service port, race_options options) {
  const task_context& context = co_await gyre::detail::this_context();
  event_loop& loop = detail::loop_of(context);
  host_race race(loop, names, std::move(host), port, std::move(options));
  auto run = [&](scope& within) { return race.run(within); };
  auto all = with_scope(std::move(run));
  co_await std::move(all);
  co_return race.result();
}

}  // namespace gyre::net
