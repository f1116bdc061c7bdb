// SPDX-License-Identifier: Apache-2.0
// subscription_options: the settings of a subscription of NATS.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace gyre::nats {

/// The fate of messages for which a subscription's queue has no room, because its coroutine is
/// slower than the senders. Messages that are dropped are counted, and the next message that is
/// kept has follows_gap().
enum class full_queue_policy : std::uint8_t {
  drop_oldest,
  drop_newest,
  end,  ///< the subscription ends with errc::slow_consumer, after the messages in the queue
};

/// Options of a subscription.
struct subscription_options {
  /// Each message goes to one of the subscriptions, of all clients, that have the subject and this
  /// queue group; empty: to every one.
  std::string queue_group = {};
  /// The number of messages that may wait in the queue; at least 1.
  std::size_t max_messages = 65536;
  /// The bytes of the messages that wait, with some 50 for each; a single message may have more.
  std::size_t max_bytes = std::size_t{64} << 20;
  full_queue_policy when_full = full_queue_policy::drop_oldest;
  /// The number of messages, dropped ones included, after which the subscription ends; 0: none.
  std::uint64_t unsubscribe_after = 0;
};

}  // namespace gyre::nats
