// SPDX-License-Identifier: Apache-2.0
// stream_publish_options: the settings of a message that a stream stores.
#pragma once

#include <gyre/base/duration.hpp>
#include <gyre/engines/nats/headers.hpp>

#include <cstdint>
#include <optional>
#include <string_view>

namespace gyre::nats {

/// Settings of jetstream::publish(). A stream that finds an expectation not met does not store the
/// message.
///
/// Lifetime: the texts must outlive the call.
struct stream_publish_options {
  /// An id that makes a repeated publish harmless: within stream_config::duplicate_window a stream
  /// stores one message with an id (Nats-Msg-Id).
  std::string_view message_id = {};
  /// The name of the stream that is to store the message.
  std::string_view expected_stream = {};
  /// The sequence of the stream's last message; 0: it has none.
  std::optional<std::uint64_t> expected_last_sequence = std::nullopt;
  /// The sequence of the last message of this subject; 0: there is none.
  std::optional<std::uint64_t> expected_last_subject_sequence = std::nullopt;
  /// The id that the stream's last message must have.
  std::string_view expected_last_message_id = {};
  /// Removes the message after this time, in whole seconds; zero: never. Needs
  /// stream_config::allow_message_ttl.
  duration time_to_live = duration::zero();
  /// The headers of the message.
  header_view headers = {};
  /// The time limit, instead of jetstream_options::timeout.
  std::optional<duration> timeout = std::nullopt;
};

}  // namespace gyre::nats
