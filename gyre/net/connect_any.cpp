// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/connect.hpp>

#include <gyre/net/detail/connection_race.hpp>
#include <gyre/task/scope.hpp>

#include <system_error>
#include <utility>

namespace gyre::net {

task<tcp_stream> connect(event_loop& loop, std::vector<endpoint> candidates, race_options options) {
  if (candidates.empty()) {
    throw std::system_error(std::make_error_code(std::errc::invalid_argument),
                            "connect, without an address");
  }
  detail::connection_race race(loop, std::move(options));
  race.add(candidates);
  race.end_of_candidates();
  auto run = [&](scope& within) { return race.run(within); };
  auto all = with_scope(std::move(run));
  co_await std::move(all);
  co_return race.result();
}

}  // namespace gyre::net
