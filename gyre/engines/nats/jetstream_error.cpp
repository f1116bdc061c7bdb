// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/nats/jetstream_error.hpp>

#include <gyre/base/detail/enum_category.hpp>

#include <utility>

namespace gyre::nats {
namespace {

const char* message_of(jetstream_errc code) noexcept {
  switch (code) {
    case jetstream_errc::no_stream:
      return "no stream or consumer replied: it does not exist, or has no leader at present";
    case jetstream_errc::bad_reply: return "the reply is none of JetStream's protocol";
    case jetstream_errc::consumer_deleted: return "the consumer was deleted";
    case jetstream_errc::message_too_large: return "a message is larger than max_bytes";
    case jetstream_errc::key_exists: return "the key exists";
    case jetstream_errc::pull_refused: return "the server refused to give messages";
    case jetstream_errc::account_limit: return "the account's limit of resources is reached";
    case jetstream_errc::bad_request: return "the server does not understand the request";
    case jetstream_errc::cluster_unavailable: return "the cluster has no leader at present";
    case jetstream_errc::consumer_not_found: return "there is no such consumer";
    case jetstream_errc::insufficient_resources: return "the servers have too few resources";
    case jetstream_errc::maximum_consumers: return "the limit of consumers is reached";
    case jetstream_errc::maximum_streams: return "the limit of streams is reached";
    case jetstream_errc::message_not_found: return "there is no such message";
    case jetstream_errc::not_enabled_for_account: return "the account may not use JetStream";
    case jetstream_errc::insufficient_storage: return "the servers have too little storage";
    case jetstream_errc::invalid_stream_config: return "the stream's configuration is invalid";
    case jetstream_errc::message_exceeds_maximum:
      return "the message is larger than the stream allows";
    case jetstream_errc::stream_name_in_use:
      return "a stream of this name has another configuration";
    case jetstream_errc::stream_not_found: return "there is no such stream";
    case jetstream_errc::unexpected_stream: return "another stream stores the subject";
    case jetstream_errc::subjects_overlap: return "another stream stores some of the subjects";
    case jetstream_errc::wrong_last_message_id: return "the last message has another id";
    case jetstream_errc::wrong_last_sequence: return "the last message has another sequence";
    case jetstream_errc::not_enabled: return "the server runs without JetStream";
    case jetstream_errc::store_failed: return "the stream could not store the message";
    case jetstream_errc::stream_sealed: return "the stream is sealed";
    case jetstream_errc::stream_offline: return "the stream is offline";
    case jetstream_errc::consumer_exists: return "the consumer exists";
    case jetstream_errc::consumer_does_not_exist: return "there is no such consumer to update";
    case jetstream_errc::duplicate_in_process: return "a message with this id is being stored";
    case jetstream_errc::last_sequence_unavailable:
      return "the last sequence of the subject is not known at present";
    case jetstream_errc::wrong_last_sequence_of_subject:
      return "the last message of the subject has another sequence";
    case jetstream_errc::invalid_time_to_live: return "the message's time to live is invalid";
    case jetstream_errc::time_to_live_disabled:
      return "the stream does not allow messages with a time to live";
    case jetstream_errc::too_many_requests: return "the server has too many requests";
  }
  return "the server replied an error";
}

std::errc condition_of(jetstream_errc code) noexcept {
  switch (code) {
    case jetstream_errc::no_stream:
    case jetstream_errc::cluster_unavailable:
    case jetstream_errc::duplicate_in_process:
    case jetstream_errc::last_sequence_unavailable:
    case jetstream_errc::too_many_requests: return std::errc::resource_unavailable_try_again;
    case jetstream_errc::bad_reply: return std::errc::protocol_error;
    case jetstream_errc::message_too_large:
    case jetstream_errc::message_exceeds_maximum: return std::errc::message_size;
    case jetstream_errc::key_exists:
    case jetstream_errc::stream_name_in_use:
    case jetstream_errc::consumer_exists: return std::errc::file_exists;
    case jetstream_errc::consumer_not_found:
    case jetstream_errc::message_not_found:
    case jetstream_errc::stream_not_found: return std::errc::no_such_file_or_directory;
    case jetstream_errc::store_failed: return std::errc::no_space_on_device;
    default: return {};
  }
}

}  // namespace

const std::error_category& jetstream_category() noexcept {
  static const gyre::detail::enum_category<jetstream_errc> category("gyre.nats.jetstream",
                                                                    message_of, condition_of);
  return category;
}

std::error_code make_error_code(jetstream_errc code) noexcept {
  return {static_cast<int>(code), jetstream_category()};
}

server_error::server_error(jetstream_errc code, int status, std::string text,
                           const std::string& operation)
    : std::system_error(make_error_code(code), operation + ": " + text + " (" +
                                                   std::to_string(static_cast<int>(code)) + ')'),
      status_(status),
      text_(std::move(text)) {}

}  // namespace gyre::nats
