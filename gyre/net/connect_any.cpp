// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/connect.hpp>

#include <cstddef>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include <gyre/sync/event.hpp>
#include <gyre/task/as_expected.hpp>
#include <gyre/task/scope.hpp>
#include <gyre/task/with_timeout.hpp>

namespace gyre::net {
namespace {

// Each family in its order, and both in turns, the first one's first.
std::vector<endpoint> interleaved(const std::vector<endpoint>& given) {
  std::vector<endpoint> first, other;
  for (const endpoint& each : given) {
    (each.family() == given.front().family() ? first : other).push_back(each);
  }
  std::vector<endpoint> result;
  result.reserve(given.size());
  for (std::size_t i = 0; result.size() < given.size(); ++i) {
    if (i < first.size()) result.push_back(first[i]);
    if (i < other.size()) result.push_back(other[i]);
  }
  return result;
}

/// Attempts to connect, one started after the other. Lives in the frame of who waits for all.
class race {
 public:
  race(event_loop& loop, race_options options) : loop_(loop), options_(std::move(options)) {}

  task<> run(std::vector<endpoint> candidates, scope& attempts) {
    for (const endpoint& each : candidates) {
      attempts.spawn(loop_, attempt(each, attempts));
      auto next = as_expected(with_timeout(one_ended_.wait(), options_.attempt_delay));
      const auto ended = co_await std::move(next);
      const bool may_go_on = ended || ended.error() == std::errc::timed_out;
      if (winner_ || !may_go_on) co_return;
    }
  }
  tcp_stream result() {
    if (winner_) return std::move(*winner_);
    std::string what = "connect";
    if (refused_by_.family() != address_family::none) what += ' ' + refused_by_.to_string();
    throw std::system_error(error_, what);
  }

 private:
  task<> attempt(endpoint to, scope& attempts) {
    auto connecting = as_expected(connect(loop_, to, options_.each));
    auto made = co_await std::move(connecting);
    if (!made) {
      error_ = made.error();
      refused_by_ = to;
    } else if (!winner_) {
      winner_ = std::move(*made);
      attempts.request_stop();
    }
    one_ended_.set();
  }

  event_loop& loop_;
  race_options options_;
  auto_reset_event one_ended_;
  std::optional<tcp_stream> winner_;
  endpoint refused_by_;  // the last one
  std::error_code error_ = std::make_error_code(std::errc::operation_canceled);
};

}  // namespace

task<tcp_stream> connect(event_loop& loop, std::vector<endpoint> candidates, race_options options) {
  if (candidates.empty()) {
    throw std::system_error(std::make_error_code(std::errc::invalid_argument),
                            "connect, without an address");
  }
  race attempts(loop, std::move(options));
  auto run = [&](scope& within) { return attempts.run(interleaved(candidates), within); };
  auto all = with_scope(std::move(run));
  co_await std::move(all);
  co_return attempts.result();
}

}  // namespace gyre::net
