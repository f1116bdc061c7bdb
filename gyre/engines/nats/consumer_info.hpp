// SPDX-License-Identifier: Apache-2.0
// consumer_info: the settings and the state of a consumer.
#pragma once

#include <gyre/engines/nats/consumer_config.hpp>
#include <gyre/engines/nats/server_time.hpp>
#include <gyre/engines/nats/stream_info.hpp>

#include <cstdint>
#include <optional>
#include <string>

namespace gyre::nats {

/// A place in the sequence of a consumer's deliveries, and in that of its stream's messages.
struct consumer_position {
  std::uint64_t consumer_sequence = 0;
  std::uint64_t stream_sequence = 0;
};

/// A consumer, as its leader sees it.
struct consumer_info {
  std::string stream = {};
  std::string name = {};
  consumer_config config = {};
  consumer_position delivered = {};    ///< the last delivery
  consumer_position ack_floor = {};    ///< all up to here are acknowledged
  std::uint64_t ack_pending = 0;       ///< messages that were delivered and not acknowledged
  std::uint64_t redelivered = 0;       ///< those among them that were delivered more than once
  std::uint64_t waiting_requests = 0;  ///< requests of clients for messages
  std::uint64_t pending = 0;           ///< messages that were not delivered
  cluster_info cluster = {};           ///< empty outside of a cluster
  std::optional<server_time> created = std::nullopt;
};

}  // namespace gyre::nats
