// SPDX-License-Identifier: Apache-2.0
// publish_ack: the acknowledgement of a message that a stream has stored.
#pragma once

#include <cstdint>
#include <string>

namespace gyre::nats {

/// The server's reply to a message that a stream has stored.
struct publish_ack {
  std::string stream = {};
  std::uint64_t sequence = 0;
  /// The stream had a message with this id already, which has this sequence, and has not stored the
  /// new one.
  bool is_duplicate = false;
  std::string domain = {};  ///< the domain of the server; may be empty
};

}  // namespace gyre::nats
