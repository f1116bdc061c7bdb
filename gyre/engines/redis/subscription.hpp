// SPDX-License-Identifier: Apache-2.0
// subscription: the messages of a channel of Redis, for one coroutine.
//
//     gyre::redis::subscription news = co_await cache.subscribe("news");
//     while (auto message = co_await news.next()) {
//       std::cout << message->text << '\n';
//     }
#pragma once

#include <gyre/engines/redis/message.hpp>
#include <gyre/engines/redis/subscription_options.hpp>
#include <gyre/task/task.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

namespace gyre::redis {

namespace detail {
class client_core;
class message_queue;
}  // namespace detail

/// The messages of a channel, or of the channels that match a pattern, made by client::subscribe().
/// A subscription outlives connections: the client connects and subscribes again, and the first
/// message after that has `follows_gap`, because the server keeps no messages.
///
/// Thread-safety: the loop's thread; one coroutine waits at a time.
/// Lifetime: may outlive the client; the loop must outlive it. A subscription must not be moved or
/// destroyed while a coroutine waits.
/// Errors: next() throws server_error if the server refuses the channel after a reconnect, for
/// example because the user's permissions have changed. The subscription has then ended.
/// Complexity: each message is copied once from the connection's memory.
class subscription {
 public:
  /// Makes a subscription that has ended.
  subscription() noexcept = default;
  subscription(subscription&&) noexcept = default;
  subscription& operator=(subscription&& other) noexcept;
  /// Ends the subscription. The last one of a channel also ends it in the server.
  ~subscription();

  /// Waits for the next message, in the order in which the server sent them; returns std::nullopt
  /// after the client was closed.
  [[nodiscard]] task<std::optional<message>> next();
  /// Returns the next message, if one has come.
  [[nodiscard]] std::optional<message> try_next();
  /// Returns the number of messages that did not fit into the queue.
  [[nodiscard]] std::uint64_t dropped() const noexcept;

 private:
  friend detail::client_core;
  subscription(std::shared_ptr<detail::client_core> core,
               std::shared_ptr<detail::message_queue> queue) noexcept
      : core_(std::move(core)), queue_(std::move(queue)) {}

  std::shared_ptr<detail::client_core> core_;
  std::shared_ptr<detail::message_queue> queue_;
};

}  // namespace gyre::redis
