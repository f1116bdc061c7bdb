// SPDX-License-Identifier: Apache-2.0
// key_value_config: the settings of a bucket of keys and values. key_value_status: its state.
//
//     gyre::nats::key_value_config sessions{.bucket = "sessions", .time_to_live = 1h};
#pragma once

#include <gyre/base/duration.hpp>
#include <gyre/engines/nats/stream_config.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace gyre::nats {

/// Settings of a bucket.
struct key_value_config {
  /// The name of the bucket: letters, digits, '-' and '_'.
  std::string bucket = {};
  /// A text for people, which the server only stores.
  std::string description = {};
  /// The number of values that are kept of each key, 1 to 64.
  unsigned history = 1;
  /// A value is deleted after this time; zero: never.
  duration time_to_live = duration::zero();
  std::optional<std::uint64_t> max_bytes =
      std::nullopt;  ///< the size of the bucket, which refuses more
  std::optional<std::uint32_t> max_value_size =
      std::nullopt;  ///< the bytes of a value with its headers
  storage_type storage = storage_type::file;
  stream_compression compression = stream_compression::none;
  /// Servers of a cluster that store each value, 1 to 5: see stream_config::replicas.
  unsigned replicas = 1;
  /// Allows a time to live for single keys; watches receive expired keys, whose markers stay for
  /// this time. At least 1 s; zero: neither. Needs a server of 2.11.
  duration marker_time = duration::zero();
  std::optional<stream_placement> placement = std::nullopt;
  std::optional<stream_republish> republish = std::nullopt;
  /// Pairs for the user, which the server only stores.
  std::map<std::string, std::string> metadata = {};
};

/// The settings and the size of a bucket.
struct key_value_status {
  key_value_config config = {};
  std::uint64_t values = 0;  ///< with those of the history, and markers of deleted keys
  std::uint64_t bytes = 0;
};

}  // namespace gyre::nats
