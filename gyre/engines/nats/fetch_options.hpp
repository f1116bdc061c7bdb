// SPDX-License-Identifier: Apache-2.0
// fetch_options, messages_options: the settings of a consumer's client.
#pragma once

#include <gyre/base/duration.hpp>

#include <chrono>
#include <cstddef>

namespace gyre::nats {

/// Settings of consumer::fetch().
struct fetch_options {
  /// The wait for messages; zero: takes those that are there.
  duration expires = std::chrono::seconds{5};
  /// Whether to wait until all messages have come, or `expires` has passed. If not, the wait ends
  /// with the first messages.
  bool waits_for_all = false;
  /// Bytes of messages, with subjects and headers; zero: no limit. A message that is larger ends
  /// the fetch, with jetstream_errc::message_too_large if it is the first.
  std::size_t max_bytes = 0;
};

/// Settings of consumer::messages().
struct messages_options {
  /// Messages that the server has been asked for and that next() has not returned, from 1 to
  /// 1,000,000. They wait in memory, so that next() need not wait for the network, and count for
  /// consumer_config::max_ack_pending and ack_wait.
  std::size_t max_messages = 256;
  /// Bytes of these messages; zero: no limit but that of the stream for each. With a limit, more
  /// are requested only when next() has returned all.
  std::size_t max_bytes = 0;
  /// The server's silence after which the messages are requested again is twice as long. At least
  /// 100 ms, at most 30 s.
  duration heartbeat = std::chrono::seconds{5};
  /// The time after which each request to the server is replaced; at least two heartbeats.
  duration expires = std::chrono::seconds{30};
};

}  // namespace gyre::nats
