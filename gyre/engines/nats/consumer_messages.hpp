// SPDX-License-Identifier: Apache-2.0
// consumer_messages: the messages of a consumer as a stream of values, fetched ahead.
//
//     gyre::nats::consumer_messages orders = shipping.messages();
//     while (auto order = co_await orders.next()) {
//       co_await ship(order->text());
//       co_await order->ack();
//     }
#pragma once

#include <gyre/engines/nats/fetch_options.hpp>
#include <gyre/engines/nats/jetstream_message.hpp>
#include <gyre/task/task.hpp>

#include <cstdint>
#include <memory>
#include <optional>

namespace gyre::nats {

namespace detail {
class pull_reader;
}  // namespace detail

/// Messages of a consumer, made by consumer::messages(). Requests more as next() returns them, so a
/// slow reader slows the server and needs no memory. It lasts over connections and changes of the
/// leader: after a lost connection, or when the server is silent for two heartbeats, it requests
/// the messages again.
///
/// Thread-safety: the loop's thread; one coroutine waits at a time.
/// Lifetime: may outlive the consumer and the client. The object must not be moved or destroyed
/// while a coroutine waits. Messages that wait in it when it is destroyed are delivered again after
/// ack_wait.
/// Errors: of next(): jetstream_errc::consumer_deleted, pull_refused, message_too_large; those of
/// client::publish(). After an error, next() may be called again. std::logic_error for one that was
/// moved from.
/// Complexity: next() allocates a coroutine frame.
class consumer_messages {
 public:
  consumer_messages(consumer_messages&&) noexcept;
  consumer_messages& operator=(consumer_messages&&) noexcept;
  ~consumer_messages();

  /// Waits for the next message, without a limit; returns std::nullopt after the client was closed
  /// or client::drain() has ended. A wait that is stopped loses no message.
  [[nodiscard]] task<std::optional<jetstream_message>> next();
  /// Returns the next message, if one has come.
  [[nodiscard]] std::optional<jetstream_message> try_next();
  /// Returns how often the server was silent for two heartbeats.
  [[nodiscard]] std::uint64_t missed_heartbeats() const noexcept;

 private:
  friend class consumer;
  explicit consumer_messages(std::unique_ptr<detail::pull_reader> reader) noexcept;

  detail::pull_reader& checked_reader() const;

  std::unique_ptr<detail::pull_reader> reader_;
};

}  // namespace gyre::nats
