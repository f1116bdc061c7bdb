// SPDX-License-Identifier: Apache-2.0
// subscription: the notifications of a channel of PostgreSQL (LISTEN), for one coroutine.
//
//     gyre::postgres::subscription orders = co_await db.listen("orders");
//
//     while (auto message = co_await orders.next()) {
//       if (message->follows_gap) co_await load_all(db);
//       std::cout << message->payload << '\n';
//     }
#pragma once

#include <gyre/engines/postgres/notification.hpp>
#include <gyre/engines/postgres/subscription_options.hpp>
#include <gyre/task/task.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

namespace gyre::postgres {

namespace detail {
class listener;
class notification_queue;
}  // namespace detail

/// The notifications of a channel since it was made by client::listen(). It lasts over connections:
/// the client connects and listens again, and then gives a notification that reports a gap, because
/// the server keeps no notifications.
///
/// Thread-safety: the loop's thread; one coroutine waits at a time.
/// Lifetime: independent of the client. A subscription must not be moved or destroyed while a
/// coroutine waits.
/// Complexity: each notification is copied once from the connection's memory.
class subscription {
 public:
  /// Makes a subscription that has ended.
  subscription() noexcept = default;
  subscription(subscription&&) noexcept = default;
  subscription& operator=(subscription&& other) noexcept;
  /// Ends the subscription. With the last one of its channel, the server stops sending
  /// notifications of the channel.
  ~subscription();

  /// Waits for the next notification, in the order in which the server sent them; returns
  /// std::nullopt after the client was closed.
  [[nodiscard]] task<std::optional<notification>> next();
  /// Returns the next notification, if one has come.
  [[nodiscard]] std::optional<notification> try_next();
  /// Notifications that did not fit into the queue.
  [[nodiscard]] std::uint64_t dropped() const noexcept;

 private:
  friend detail::listener;
  subscription(std::shared_ptr<detail::listener> owner,
               std::shared_ptr<detail::notification_queue> queue) noexcept
      : owner_(std::move(owner)), queue_(std::move(queue)) {}

  std::shared_ptr<detail::listener> owner_;
  std::shared_ptr<detail::notification_queue> queue_;
};

}  // namespace gyre::postgres
