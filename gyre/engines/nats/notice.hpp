// SPDX-License-Identifier: Apache-2.0
// notice: an event of a NATS client that no call reports.
#pragma once

#include <cstdint>

namespace gyre::nats {

/// Events of a client, for logs and alarms; see client::on_notice(). The text is the server for the
/// first three, and its own text, or the subject, for the others.
enum class notice : std::uint8_t {
  connected,      ///< the login has succeeded
  disconnected,   ///< the connection has ended; the client connects again
  lame_duck,      ///< the server closes its connections soon
  server_error,   ///< the server has sent -ERR, such as for a subject that may not be used
  slow_consumer,  ///< a subscription begins to drop messages
};

}  // namespace gyre::nats
