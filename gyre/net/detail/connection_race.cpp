// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/detail/connection_race.hpp>

#include <gyre/task/as_expected.hpp>
#include <gyre/task/with_timeout.hpp>

#include <string>
#include <utility>

namespace gyre::net::detail {

void candidate_list::add(const std::vector<endpoint>& candidates) {
  if (candidates.empty()) return;
  if (known_.empty()) first_family_ = candidates.front().family();
  for (const endpoint& each : candidates) {
    if (known_.contains(each)) continue;
    versions_[each.family() == first_family_ ? 0 : 1].candidates.push_back(each);
  }
  known_.insert(candidates.begin(), candidates.end());
}

std::optional<endpoint> candidate_list::next() {
  for (const std::size_t which : {turn_, 1 - turn_}) {
    version& from = versions_[which];
    if (from.taken == from.candidates.size()) continue;
    turn_ = 1 - which;
    return from.candidates[from.taken++];
  }
  return std::nullopt;
}

connection_race::connection_race(event_loop& loop, race_options options)
    : loop_(loop), options_(std::move(options)) {}

void connection_race::add(const std::vector<endpoint>& candidates) {
  candidates_.add(candidates);
  more_.set();
}

void connection_race::end_of_candidates() {
  complete_ = true;
  more_.set();
}

task<> connection_race::run(scope& attempts) {
  for (;;) {
    if (const std::optional<endpoint> to = candidates_.next()) {
      one_ended_.reset();
      attempts.spawn(loop_, attempt(*to, attempts));
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

tcp_stream connection_race::result() {
  if (winner_) return std::move(*winner_);
  std::string what = "connect";
  if (last_failed_.family() != address_family::none) what += ' ' + last_failed_.to_string();
  throw std::system_error(error_, what);
}

task<> connection_race::attempt(endpoint to, scope& attempts) {
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

}  // namespace gyre::net::detail
