// SPDX-License-Identifier: Apache-2.0
// stream_info: the settings and the state of a stream. account_info: the limits of an account.
#pragma once

#include <gyre/base/duration.hpp>
#include <gyre/engines/nats/server_time.hpp>
#include <gyre/engines/nats/stream_config.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace gyre::nats {

/// A server that stores a stream or a consumer, besides the leader.
struct replica_info {
  std::string name = {};
  bool is_current = false;  ///< whether it has all that the leader has
  bool is_offline = false;
  duration last_seen = duration::zero();  ///< the time since the leader heard of the server
  std::uint64_t lag = 0;                  ///< operations that the server has not got
};

/// The servers that store a stream or a consumer.
struct cluster_info {
  std::string name = {};
  std::string leader = {};  ///< the leader's name; empty while there is none
  std::vector<replica_info> replicas = {};
};

/// The messages of a stream.
struct stream_state {
  std::uint64_t messages = 0;
  std::uint64_t bytes = 0;
  std::uint64_t first_sequence = 0;  ///< one more than the last one, if there is no message
  std::uint64_t last_sequence = 0;
  std::optional<server_time> first_time = std::nullopt;
  std::optional<server_time> last_time = std::nullopt;
  std::uint64_t subjects = 0;  ///< the number of different subjects
  std::uint64_t deleted = 0;   ///< messages that are missing between the first and the last
  std::uint64_t consumers = 0;
};

/// A stream, as its leader sees it.
struct stream_info {
  stream_config config = {};
  stream_state state = {};
  cluster_info cluster = {};  ///< empty outside of a cluster
  std::optional<server_time> created = std::nullopt;
};

/// JetStream's use of an account, and its limits.
struct account_info {
  std::uint64_t memory = 0;   ///< bytes
  std::uint64_t storage = 0;  ///< bytes
  std::uint64_t streams = 0;
  std::uint64_t consumers = 0;
  std::optional<std::uint64_t> max_memory = std::nullopt;
  std::optional<std::uint64_t> max_storage = std::nullopt;
  std::optional<std::uint64_t> max_streams = std::nullopt;
  std::optional<std::uint64_t> max_consumers = std::nullopt;
};

}  // namespace gyre::nats
