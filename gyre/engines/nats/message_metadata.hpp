// SPDX-License-Identifier: Apache-2.0
// message_metadata: a delivery of a message of a stream to a consumer's client.
#pragma once

#include <gyre/engines/nats/server_time.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace gyre::nats {

/// The server's facts about a delivered message.
struct message_metadata {
  std::string stream = {};
  std::string consumer = {};
  std::string domain = {};              ///< the domain of the server; may be empty
  std::uint64_t deliveries = 0;         ///< the deliveries of this message; the first one is 1
  std::uint64_t stream_sequence = 0;    ///< the message's number in the stream
  std::uint64_t consumer_sequence = 0;  ///< the delivery's number in the consumer
  std::uint64_t pending = 0;            ///< messages of the stream that were not delivered then
  server_time stored = {};

  bool operator==(const message_metadata&) const = default;
};

namespace detail {

/// Reads the reply subject of a delivered message ("$JS.ACK…"). The result is empty for other
/// subjects.
std::optional<message_metadata> parse_ack_subject(std::string_view subject);

}  // namespace detail
}  // namespace gyre::nats
