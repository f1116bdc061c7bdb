// SPDX-License-Identifier: Apache-2.0
// Support for tests of NATS clients.
#pragma once

#include <gyre/engines/nats/client.hpp>
#include <gyre/sync/event.hpp>
#include <gyre/task/task.hpp>

#include <chrono>
#include <deque>
#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

namespace nats_test {

using gyre::nats::client;
using gyre::nats::client_options;
using gyre::nats::message;
using gyre::nats::notice;
using gyre::nats::subscription;

// Returns options whose time limits are so long that only a hang exceeds them, however busy the
// machine is.
inline client_options patient(client_options options) {
  constexpr std::chrono::hours long_time{1};
  const client_options defaults;
  if (options.connect_timeout == defaults.connect_timeout) options.connect_timeout = long_time;
  if (options.request_timeout == defaults.request_timeout) options.request_timeout = long_time;
  if (options.drain_timeout == defaults.drain_timeout) options.drain_timeout = long_time;
  if (options.ping_interval == defaults.ping_interval) options.ping_interval = long_time;
  return options;
}

// An object whose content was moved to another one.
template <class T>
T moved_from(T object) {
  const T other = std::move(object);
  return object;  // NOLINT(bugprone-use-after-move): the tests need one
}

inline gyre::task<std::string> text_of(gyre::task<std::optional<message>> arrival) {
  const auto received = co_await std::move(arrival);
  co_return received ? std::string(received->text()) : "end";
}

// Replies to each request with the request's text and "!".
inline gyre::task<> echo(client& bus, subscription requests) {
  while (auto request = co_await requests.next()) {
    const std::string text = std::string(request->text()) + '!';
    co_await bus.publish(request->reply(), text);
  }
}

// Collects the notices of a client, so that a test can wait for them.
class notices {
 public:
  explicit notices(client& bus) {
    bus.on_notice([this](notice event, std::string_view text) {
      seen_.push_back({event, std::string(text)});
      arrival_.set();
    });
  }
  gyre::task<std::string> wait_for(notice event) {
    for (;;) {
      while (!seen_.empty()) {
        auto [next, text] = std::move(seen_.front());
        seen_.pop_front();
        if (next == event) co_return text;
      }
      co_await arrival_.wait();
    }
  }

 private:
  std::deque<std::pair<notice, std::string>> seen_;
  gyre::auto_reset_event arrival_;
};

}  // namespace nats_test
