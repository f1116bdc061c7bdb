// SPDX-License-Identifier: Apache-2.0
// subscription: the messages of a subject of NATS, for one coroutine.
//
//     gyre::nats::subscription orders = bus.subscribe("orders.*", {.queue_group = "workers"});
//     while (auto order = co_await orders.next()) {
//       std::cout << order->subject() << ": " << order->text() << '\n';
//     }
#pragma once

#include <gyre/engines/nats/message.hpp>
#include <gyre/engines/nats/subscription_options.hpp>
#include <gyre/task/task.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

namespace gyre::nats {

namespace detail {
class client_core;
class subscription_state;
}  // namespace detail

/// The messages of the subjects that match one, from client::subscribe() on. It lasts over
/// connections: the client subscribes again, and the first message after that has follows_gap(), as
/// the server keeps none.
///
/// Thread-safety: the loop's thread; one coroutine waits at a time.
/// Lifetime: independent of the client. It may be destroyed while a coroutine waits in next(),
/// which then returns nothing, but not moved.
/// Errors: next() and try_next() throw std::system_error when the queue is empty, and the
/// subscription has ended with an error: errc::slow_consumer, permission_denied,
/// authorization_violation. next() also throws gyre::operation_cancelled after a stop.
/// Complexity: each message is copied once from the connection's memory, into a block of its own;
/// next() is a coroutine frame.
class subscription {
 public:
  /// Makes a subscription that has ended.
  subscription() noexcept = default;
  subscription(subscription&&) noexcept = default;
  subscription& operator=(subscription&& other) noexcept;
  /// Ends the subscription as unsubscribe() does.
  ~subscription() { unsubscribe(); }

  /// Waits for the next message, in the order in which the server sent them; returns std::nullopt
  /// at the end: after unsubscribe(), drain(), `unsubscribe_after` messages, or the client's
  /// close().
  [[nodiscard]] task<std::optional<message>> next();
  /// Returns the next message, if one has come.
  [[nodiscard]] std::optional<message> try_next();

  /// Ends the subscription, and drops its messages. Idempotent.
  void unsubscribe() noexcept;
  /// Tells the server to send no more messages, and waits until it has confirmed that: next() gives
  /// those that have come until then, and nothing after them. A stop ends the subscription at once.
  [[nodiscard]] task<> drain();

  std::string_view subject() const noexcept;
  /// Whether no further message comes into the queue.
  [[nodiscard]] bool has_ended() const noexcept;
  /// Messages in the queue, and their bytes as subscription_options::max_bytes counts them.
  [[nodiscard]] std::size_t waiting() const noexcept;
  [[nodiscard]] std::size_t waiting_bytes() const noexcept;
  /// Messages that have come, those that were dropped included.
  [[nodiscard]] std::uint64_t received() const noexcept;
  /// Returns the number of messages for which the queue had no room.
  [[nodiscard]] std::uint64_t dropped() const noexcept;

 private:
  friend detail::client_core;
  subscription(std::shared_ptr<detail::client_core> core,
               std::shared_ptr<detail::subscription_state> state) noexcept
      : core_(std::move(core)), state_(std::move(state)) {}

  std::shared_ptr<detail::client_core> core_;
  std::shared_ptr<detail::subscription_state> state_;
};

}  // namespace gyre::nats
