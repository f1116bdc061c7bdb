// SPDX-License-Identifier: Apache-2.0
// consumer_config: the settings of a consumer, which remembers for its clients the messages of a
// stream that were delivered and acknowledged.
//
//     gyre::nats::consumer_config shipping{.name = "shipping"};
//     shipping.filter_subjects = {"orders.paid"};
//     shipping.ack_wait = 1min;
#pragma once

#include <gyre/base/duration.hpp>
#include <gyre/engines/nats/server_time.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace gyre::nats {

/// The message with which a new consumer begins.
enum class deliver_policy : unsigned char {
  all,               ///< the stream's first one
  last,              ///< the last one
  last_per_subject,  ///< the last one of each subject
  following,         ///< the next one that is stored
  from_sequence,     ///< consumer_config::start_sequence
  from_time,         ///< consumer_config::start_time
};

/// The messages that have to be acknowledged.
enum class ack_policy : unsigned char {
  each,
  all,   ///< each, and the acknowledgement of one is one of all before it, too
  none,  ///< none: a message that was sent counts as acknowledged
};

/// The speed at which a consumer delivers the messages that a stream has already.
enum class replay_policy : unsigned char {
  instant,
  original,  ///< with the pauses in which the messages were stored
};

/// Settings of a pull consumer.
struct consumer_config {
  /// The name of the consumer; empty: the server makes one. No '.', '*', '>', '/', '\' or space.
  std::string name = {};
  /// A text for people, which the server only stores.
  std::string description = {};
  /// Whether the consumer stays when no client uses it, which needs a name. Otherwise it is deleted
  /// after `inactive_threshold`.
  bool is_durable = true;
  /// The time without a client's request for messages after which the server deletes the consumer;
  /// zero: never if it is durable, and otherwise 5 s.
  duration inactive_threshold = duration::zero();

  deliver_policy deliver = deliver_policy::all;
  /// The sequence of the first message, for deliver_policy::from_sequence.
  std::optional<std::uint64_t> start_sequence = std::nullopt;
  /// The time of the first message, for deliver_policy::from_time.
  std::optional<server_time> start_time = std::nullopt;
  /// Subjects that are delivered; empty: all of the stream.
  std::vector<std::string> filter_subjects = {};
  replay_policy replay = replay_policy::instant;
  /// Delivers messages without their payload; the header Nats-Msg-Size has its size.
  bool headers_only = false;

  ack_policy ack = ack_policy::each;
  /// A message that is not acknowledged within this time is delivered again; zero: 30 s.
  duration ack_wait = duration::zero();
  /// The times to wait after the first, the second delivery and so on, instead of `ack_wait`. The
  /// last one holds for all further ones.
  std::vector<duration> backoff = {};
  /// Deliveries of a message, the first included, after which the server gives it up.
  std::optional<std::uint64_t> max_deliveries = std::nullopt;
  /// Messages that were delivered and not acknowledged, to all clients together. At this number no
  /// more are delivered; unset: 1000.
  std::optional<std::uint64_t> max_ack_pending = std::nullopt;

  /// These limit the requests of clients for messages.
  std::optional<std::uint32_t> max_waiting = std::nullopt;  ///< requests; unset: 512
  /// Messages of a request; unset: no limit.
  std::optional<std::uint32_t> max_request_messages = std::nullopt;
  /// Bytes of a request; unset: no limit.
  std::optional<std::uint32_t> max_request_bytes = std::nullopt;
  /// The longest time for which a request may wait; zero: no limit.
  duration max_request_expires = duration::zero();

  /// The number of servers that store the consumer's state; zero: as many as store the stream.
  unsigned replicas = 0;
  /// Whether the servers keep the state in memory, even if the stream is in files.
  bool memory_storage = false;
  /// Pairs for the user, which the server only stores. Keys that begin with "_nats" are the
  /// server's.
  std::map<std::string, std::string> metadata = {};
};

}  // namespace gyre::nats
