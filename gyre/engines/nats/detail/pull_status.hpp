// SPDX-License-Identifier: Apache-2.0
// pull_status: the meaning of a server's status message to a client that fetches messages.
#pragma once

#include <string_view>

namespace gyre::nats::detail {

enum class pull_status : unsigned char {
  message,           ///< a message, which has no status
  heartbeat,         ///< the request waits for messages
  no_messages,       ///< the request without a wait has ended
  ended,             ///< the request has ended in order
  ended_by_size,     ///< the next message exceeds the request's bytes
  busy,              ///< the request was not accepted, or has ended, for a reason that passes
  no_responders,     ///< no server or consumer got the request
  consumer_deleted,  ///< the consumer is gone: no later request can succeed
  refused,
};

/// `status` and `description`: those of the message.
pull_status classify_pull_status(int status, std::string_view description) noexcept;

}  // namespace gyre::nats::detail
