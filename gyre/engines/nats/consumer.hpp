// SPDX-License-Identifier: Apache-2.0
// consumer: messages of a stream, which clients fetch and acknowledge, and which the server
// delivers again until they are.
//
//     const gyre::nats::consumer_config shipping{.name = "shipping"};
//     gyre::nats::consumer orders = co_await streams.create_consumer("ORDERS", shipping);
//     for (auto& order : co_await orders.fetch(10, {.expires = 1s})) {
//       co_await ship(order.text());
//       co_await order.ack();
//     }
#pragma once

#include <gyre/base/duration.hpp>
#include <gyre/engines/nats/consumer_info.hpp>
#include <gyre/engines/nats/consumer_messages.hpp>
#include <gyre/engines/nats/fetch_options.hpp>
#include <gyre/engines/nats/jetstream_message.hpp>
#include <gyre/task/task.hpp>

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace gyre::nats {

/// A handle of a pull consumer, made by jetstream. Any number of clients may fetch messages of one
/// consumer, on any number of machines: each message goes to one of them.
///
/// Thread-safety: the loop's thread; several coroutines may fetch at the same time.
/// Lifetime: may outlive the client and the jetstream; the loop must outlive all.
/// Errors: as jetstream; jetstream_errc::consumer_deleted, pull_refused.
class consumer {
 public:
  const std::string& stream() const noexcept { return stream_; }
  const std::string& name() const noexcept { return name_; }

  [[nodiscard]] task<consumer_info> info() const;

  /// Fetches up to `max_messages` messages, at most 1,000,000. Returns when some have come, or none
  /// within the time of the options. A fetch that is stopped drops messages that have come, which
  /// are delivered again.
  ///
  /// Complexity: subscribes for each call; messages() is quicker for many.
  [[nodiscard]] task<std::vector<jetstream_message>> fetch(std::size_t max_messages,
                                                           fetch_options options = {}) const;
  /// Fetches one message; returns std::nullopt if none has come in time.
  [[nodiscard]] task<std::optional<jetstream_message>> next(duration expires = std::chrono::seconds{
                                                                5}) const;
  /// Begins to fetch messages continually.
  [[nodiscard]] consumer_messages messages(messages_options options = {}) const;

 private:
  friend class jetstream;
  consumer(std::shared_ptr<detail::jetstream_core> core, std::string stream,
           std::string name) noexcept
      : core_(std::move(core)), stream_(std::move(stream)), name_(std::move(name)) {}

  static task<std::vector<jetstream_message>> fetch_messages(
      std::shared_ptr<detail::jetstream_core> core, std::string api_name, std::size_t max_messages,
      fetch_options options);
  static task<std::optional<jetstream_message>> first_of(
      task<std::vector<jetstream_message>> batch);
  const std::shared_ptr<detail::jetstream_core>& checked_core() const;

  std::shared_ptr<detail::jetstream_core> core_;
  std::string stream_;
  std::string name_;
};

}  // namespace gyre::nats
