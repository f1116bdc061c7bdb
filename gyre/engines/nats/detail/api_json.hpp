// SPDX-License-Identifier: Apache-2.0
// The JSON of JetStream's API: requests are written, and replies read.
#pragma once

#include <gyre/engines/nats/consumer_config.hpp>
#include <gyre/engines/nats/consumer_info.hpp>
#include <gyre/engines/nats/detail/timestamp.hpp>
#include <gyre/engines/nats/publish_ack.hpp>
#include <gyre/engines/nats/purge_options.hpp>
#include <gyre/engines/nats/stream_config.hpp>
#include <gyre/engines/nats/stream_info.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gyre::nats::detail {

/// A stored message, whose headers are not parsed.
struct raw_message {
  std::string subject;
  std::uint64_t sequence = 0;
  timestamp time = {};
  std::string headers;  // the headers with the line of the version; may be empty
  std::string payload;
};

/// A part of a list of names.
struct name_page {
  std::vector<std::string> names;
  std::uint64_t total = 0;  // the number of names in all parts of the list
};

enum class consumer_action : unsigned char { create, update, create_or_update };

// --- Requests. Texts that are not UTF-8 throw std::invalid_argument ---

std::string write_stream(const stream_config& config);
std::string write_consumer(std::string_view stream, const consumer_config& config,
                           consumer_action action);
std::string write_names_request(std::string_view subject, std::uint64_t offset);
std::string write_purge(const purge_options& options);
std::string write_sequence(std::uint64_t sequence);
std::string write_last_of_subject(std::string_view subject);

// --- Replies. `operation` is the request, for messages. Errors that the server has replied throw
// server_error; other texts std::system_error (jetstream_errc::bad_reply) ---

publish_ack read_publish_ack(std::string_view text, std::string_view operation);
stream_info read_stream(std::string_view text, std::string_view operation);
consumer_info read_consumer(std::string_view text, std::string_view operation);
account_info read_account(std::string_view text, std::string_view operation);
name_page read_names(std::string_view text, std::string_view operation);
raw_message read_message(std::string_view text, std::string_view operation);
/// Returns the number of messages that were deleted.
std::uint64_t read_purge(std::string_view text, std::string_view operation);
void read_confirmation(std::string_view text, std::string_view operation);

}  // namespace gyre::nats::detail
