// SPDX-License-Identifier: Apache-2.0
// jetstream_options: the settings of a JetStream client.
#pragma once

#include <gyre/base/duration.hpp>

#include <chrono>
#include <cstddef>
#include <string>

namespace gyre::nats {

/// Options of a JetStream client.
struct jetstream_options {
  /// The domain of the servers that store the streams; empty: that of the connection.
  std::string domain = {};
  /// The first tokens of the API's subjects, if an account imports them under others; empty:
  /// "$JS.API", or "$JS.<domain>.API".
  std::string api_prefix = {};
  /// Limit of each call: of a publish until its acknowledgement, of a request of the API. Fetching
  /// messages has limits of its own.
  duration timeout = std::chrono::seconds{10};
  /// A request or a publish to which nobody replies, since there is no such stream or since it has
  /// no leader at present, is sent again within this time; then it fails with
  /// jetstream_errc::no_stream. A cluster elects a leader within some seconds. With zero such a
  /// call fails at once.
  duration no_stream_timeout = std::chrono::seconds{10};
  /// Limit of one attempt of a call that may be repeated: a publish with an id, or a request of the
  /// API that does not delete anything. When nothing has come for so long, it is sent again, until
  /// `timeout` has passed.
  duration attempt_timeout = std::chrono::seconds{2};
  /// The number of messages of publish_async() that are not acknowledged; at least 1. A further
  /// call waits.
  std::size_t max_unacknowledged = 256;
};

}  // namespace gyre::nats
