// SPDX-License-Identifier: Apache-2.0
// jetstream_errc, server_error: errors of JetStream, its key-value buckets and their clients.
//
//     try {
//       co_await streams.create_stream(orders);
//     } catch (const gyre::nats::server_error& error) {
//       if (error.code() != gyre::nats::jetstream_errc::stream_name_in_use) throw;
//     }
#pragma once

#include <string>
#include <system_error>
#include <type_traits>

namespace gyre::nats {

/// Errors of JetStream. The errors that a server replies have the protocol's own numbers
/// (`err_code`), so that a code without an enumerator is kept, too.
enum class jetstream_errc {
  // The next codes are errors that the client finds.

  /// Nobody replied: no stream stores the subject, the stream or consumer does not exist or has no
  /// leader at present, or JetStream is switched off; std::errc::resource_unavailable_try_again.
  no_stream = 1,
  /// A reply that does not follow JetStream's protocol; std::errc::protocol_error.
  bad_reply = 2,
  /// The consumer that messages are fetched from was deleted.
  consumer_deleted = 3,
  /// A message needs more than fetch_options::max_bytes, or messages_options::max_bytes;
  /// std::errc::message_size.
  message_too_large = 4,
  /// key_value::create() of a key that exists; std::errc::file_exists.
  key_exists = 5,
  /// The server refused to give messages to a consumer's client. The text says why.
  pull_refused = 6,

  // The next codes are errors that the server reports, with the server's numbers.

  account_limit = 10002,
  bad_request = 10003,
  /// The cluster has no leader at present; std::errc::resource_unavailable_try_again.
  cluster_unavailable = 10008,
  consumer_not_found = 10014,  ///< std::errc::no_such_file_or_directory
  insufficient_resources = 10023,
  maximum_consumers = 10026,
  maximum_streams = 10027,
  message_not_found = 10037,  ///< std::errc::no_such_file_or_directory
  not_enabled_for_account = 10039,
  insufficient_storage = 10047,
  invalid_stream_config = 10052,
  message_exceeds_maximum = 10054,  ///< std::errc::message_size
  stream_name_in_use = 10058,       ///< with another configuration; std::errc::file_exists
  stream_not_found = 10059,         ///< std::errc::no_such_file_or_directory
  unexpected_stream = 10060,        ///< stream_publish_options::expected_stream does not match
  subjects_overlap = 10065,         ///< the subjects overlap with those of another stream
  wrong_last_message_id = 10070,
  wrong_last_sequence = 10071,
  not_enabled = 10076,
  /// The stream is full and its discard_policy refuses new messages, or it could not be written;
  /// std::errc::no_space_on_device.
  store_failed = 10077,
  stream_sealed = 10109,
  stream_offline = 10118,
  consumer_exists = 10148,  ///< std::errc::file_exists
  consumer_does_not_exist = 10149,
  /// A message with the same id is being stored; std::errc::resource_unavailable_try_again.
  duplicate_in_process = 10158,
  /// std::errc::resource_unavailable_try_again
  last_sequence_unavailable = 10163,
  wrong_last_sequence_of_subject = 10164,
  invalid_time_to_live = 10165,
  time_to_live_disabled = 10166,
  too_many_requests = 10167,  ///< std::errc::resource_unavailable_try_again
};

/// The category of jetstream_errc, "gyre.nats.jetstream". Any thread.
const std::error_category& jetstream_category() noexcept;
std::error_code make_error_code(jetstream_errc code) noexcept;

/// An error that the server has replied to a request of JetStream, which it did not carry out.
class server_error : public std::system_error {
 public:
  /// `status`: as of HTTP, such as 404. `operation`: the request, for what().
  server_error(jetstream_errc code, int status, std::string text, const std::string& operation);

  /// The class of the error in the numbers of HTTP: 400, 404, 500 or 503, for instance.
  [[nodiscard]] int status() const noexcept { return status_; }
  /// Returns the server's description.
  [[nodiscard]] const std::string& text() const noexcept { return text_; }

 private:
  int status_;
  std::string text_;
};

}  // namespace gyre::nats

template <>
struct std::is_error_code_enum<gyre::nats::jetstream_errc> : std::true_type {};
