// SPDX-License-Identifier: Apache-2.0
// stream_config: the settings of a stream, which stores messages of some subjects.
//
//     gyre::nats::stream_config orders{.name = "ORDERS", .subjects = {"orders.>"}};
//     orders.replicas = 3;
//     orders.max_age = 24h;
#pragma once

#include <gyre/base/duration.hpp>
#include <gyre/engines/nats/server_time.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace gyre::nats {

/// The messages that a stream keeps, within its limits.
enum class retention_policy : unsigned char {
  limits,      ///< all messages, within the limits
  interest,    ///< messages that some consumer has not acknowledged
  work_queue,  ///< those that no consumer has acknowledged: each is for one consumer only
};

/// The place where a stream keeps its messages.
enum class storage_type : unsigned char {
  file,
  memory,  ///< the messages are lost when all servers have ended
};

/// The reaction of a full stream to a new message.
enum class discard_policy : unsigned char {
  oldest,  ///< the stream drops its oldest messages
  newest,  ///< the stream refuses the new message, with jetstream_errc::store_failed
};

/// The compression of a stream's messages in files.
enum class stream_compression : unsigned char { none, s2 };

/// Another stream, whose messages a stream copies.
struct stream_source {
  std::string name = {};
  /// The first message that is copied; none: the first one that exists.
  std::optional<std::uint64_t> start_sequence = std::nullopt;
  std::optional<server_time> start_time = std::nullopt;
  /// Subjects that are copied, such as "orders.*"; empty: all.
  std::string filter_subject = {};

  bool operator==(const stream_source&) const = default;
};

/// The servers of a cluster that may store a stream.
struct stream_placement {
  std::string cluster = {};
  std::vector<std::string> tags = {};

  bool operator==(const stream_placement&) const = default;
};

/// Subjects under which a stream publishes each message again once it is stored.
struct stream_republish {
  std::string source = {};  ///< such as "orders.>"
  std::string target = {};  ///< such as "stored.orders.>"
  bool headers_only = false;

  bool operator==(const stream_republish&) const = default;
};

/// Settings of a stream. Limits that are not set do not limit; the account may.
struct stream_config {
  /// Letters, digits, '-' and '_', for instance; no '.', '*', '>', '/', '\' or space.
  std::string name = {};
  /// A text for people, which the server only stores.
  std::string description = {};
  /// The subjects whose messages the stream stores, such as "orders.>". No other stream may store
  /// any of them.
  std::vector<std::string> subjects = {};
  retention_policy retention = retention_policy::limits;
  storage_type storage = storage_type::file;
  discard_policy discard = discard_policy::oldest;
  stream_compression compression = stream_compression::none;
  /// Servers of a cluster that store each message, 1 to 5. A message is acknowledged when most of
  /// them have it. The server does not wait until it is on the disk: see `sync_interval` of the
  /// server's configuration.
  unsigned replicas = 1;

  /// The number of messages in the stream.
  std::optional<std::uint64_t> max_messages = std::nullopt;
  /// The number of messages of each subject.
  std::optional<std::uint64_t> max_messages_per_subject = std::nullopt;
  /// The bytes of all messages.
  std::optional<std::uint64_t> max_bytes = std::nullopt;
  /// Bytes of a message with its headers. A larger one is refused.
  std::optional<std::uint32_t> max_message_size = std::nullopt;
  /// The number of consumers of the stream.
  std::optional<std::uint32_t> max_consumers = std::nullopt;
  /// A message that is older is dropped; zero: none. At least 100 ms otherwise.
  duration max_age = duration::zero();
  /// For so long the stream remembers ids of messages (`stream_publish_options::message_id`), and
  /// stores no other with the same id; zero: two minutes, but no longer than `max_age`.
  duration duplicate_window = duration::zero();

  /// discard_policy::newest holds for each subject, too.
  bool discard_newest_per_subject = false;
  /// Any server that stores the stream may read a message for a client. Buckets of keys have it:
  /// see key_value::get().
  bool allow_direct = false;
  /// A message may replace all earlier ones (header Nats-Rollup).
  bool allow_rollup = false;
  /// Whether single messages cannot be deleted.
  bool deny_delete = false;
  /// Whether the stream cannot be purged.
  bool deny_purge = false;
  /// Messages may have a time to live of their own. Needs a server of 2.11.
  bool allow_message_ttl = false;
  /// The time for which a marker stays when the last message of a subject has expired; zero: none.
  duration subject_delete_marker_ttl = duration::zero();
  /// The sequence of the first message.
  std::optional<std::uint64_t> first_sequence = std::nullopt;
  /// Whether publishers are not acknowledged.
  bool no_acknowledgement = false;

  /// The stream is a copy of another, and has no subjects.
  std::optional<stream_source> mirror = std::nullopt;
  /// Streams whose messages are added to this one.
  std::vector<stream_source> sources = {};
  std::optional<stream_placement> placement = std::nullopt;
  std::optional<stream_republish> republish = std::nullopt;
  /// Pairs for the user, which the server only stores. Keys that begin with "_nats" are the
  /// server's, and are not compared.
  std::map<std::string, std::string> metadata = {};
};

}  // namespace gyre::nats
