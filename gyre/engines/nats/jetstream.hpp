// SPDX-License-Identifier: Apache-2.0
// jetstream: streams of messages that NATS servers store: publishing with acknowledgements, and the
// management of streams and consumers.
//
//     gyre::nats::jetstream streams(bus);
//     const gyre::nats::stream_config orders{.name = "ORDERS", .subjects = {"orders.>"}};
//     co_await streams.create_stream(orders);
//     auto ack = co_await streams.publish("orders.new", order, {.message_id = "order-17"});
#pragma once

#include <gyre/base/detail/awaited_value.hpp>
#include <gyre/engines/nats/consumer.hpp>
#include <gyre/engines/nats/consumer_config.hpp>
#include <gyre/engines/nats/consumer_info.hpp>
#include <gyre/engines/nats/jetstream_error.hpp>
#include <gyre/engines/nats/jetstream_options.hpp>
#include <gyre/engines/nats/payload_view.hpp>
#include <gyre/engines/nats/publish_ack.hpp>
#include <gyre/engines/nats/purge_options.hpp>
#include <gyre/engines/nats/stored_message.hpp>
#include <gyre/engines/nats/stream_config.hpp>
#include <gyre/engines/nats/stream_info.hpp>
#include <gyre/engines/nats/stream_publish_options.hpp>
#include <gyre/task/join_handle.hpp>
#include <gyre/task/task.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gyre::nats {

class client;

namespace detail {
class jetstream_core;
}  // namespace detail

/// JetStream by the connection of a client: a handle, whose copies share the limits of
/// publish_async().
///
/// Promise: an acknowledged message is stored by most servers of the stream. It may still be lost:
/// when most of them fail at once, or when a machine fails before its disk has the message (servers
/// flush every two minutes unless `sync_interval` says otherwise). A message whose acknowledgement
/// did not come may be stored or not; a publish with the same id stores it once. Consumers deliver
/// at least once.
///
/// Repetition: a message or a request to which no stream replies is sent again within
/// jetstream_options::no_stream_timeout, since nothing has got it. A message with an id is sent
/// again, too, when its acknowledgement does not come, and so are requests of the API but those
/// that delete: a call that deletes and fails without a server_error may have done so.
///
/// Thread-safety: the loop's thread.
/// Lifetime: may outlive the client; the loop must outlive both. Texts that are arguments must
/// outlive the await.
/// Errors: server_error, which the server has replied; std::system_error (jetstream_errc,
/// nats::errc; nats::errc::request_timeout after jetstream_options::timeout; those of
/// client::request()); gyre::operation_cancelled after a stop. std::invalid_argument for options
/// and names that make no sense; std::logic_error for one that was moved from.
/// Complexity: a publish is four coroutine frames, the block of its acknowledgement, and what JSON
/// needs to read it.
class jetstream {
 public:
  explicit jetstream(client& bus, jetstream_options options = {});

  // --- Publishing ---

  /// Publishes a message and waits until a stream has stored it.
  [[nodiscard]] task<publish_ack> publish(std::string_view subject, payload_view payload,
                                          stream_publish_options options = {}) const;
  /// Begins to publish a message, and returns a handle whose join() returns the acknowledgement.
  /// Waits while `max_unacknowledged` messages of this function are not acknowledged. Messages are
  /// sent in the order of the calls, but one that is sent again comes later.
  ///
  /// A handle that is destroyed before the acknowledgement has come waits no more; its message may
  /// be stored. The arguments need to exist only until the returned task has ended.
  [[nodiscard]] task<join_handle<publish_ack>> publish_async(
      std::string_view subject, payload_view payload, stream_publish_options options = {}) const;
  /// Messages of publish_async() that are not acknowledged.
  [[nodiscard]] std::size_t unacknowledged() const noexcept;

  // --- Streams ---

  /// Creates a stream. Does nothing if there is one of the same configuration. Errors:
  /// jetstream_errc::stream_name_in_use for another configuration. With GCC 12, `config` must be a
  /// variable, not a temporary: see channel::send().
  [[nodiscard]] task<stream_info> create_stream(
      gyre::detail::awaited_value<stream_config> config) const;
  /// Changes the configuration of a stream: that of stream(), with changes, as fields that are not
  /// set become the defaults. The server does not allow to change all of them.
  [[nodiscard]] task<stream_info> update_stream(
      gyre::detail::awaited_value<stream_config> config) const;
  [[nodiscard]] task<stream_info> stream(std::string_view name) const;
  /// Deletes a stream with its messages and consumers.
  [[nodiscard]] task<> delete_stream(std::string_view name) const;
  /// Deletes messages of a stream, and returns their number.
  [[nodiscard]] task<std::uint64_t> purge_stream(std::string_view name,
                                                 purge_options options = {}) const;
  /// The names of all streams, or of those that store `subject`, which may have wildcards.
  [[nodiscard]] task<std::vector<std::string>> stream_names(std::string_view subject = {}) const;

  /// Reads a message from the stream's leader; returns std::nullopt if it does not exist.
  [[nodiscard]] task<std::optional<stored_message>> message(std::string_view stream,
                                                            std::uint64_t sequence) const;
  /// Reads the last message of a subject, which may have wildcards, from the stream's leader.
  [[nodiscard]] task<std::optional<stored_message>> last_message(std::string_view stream,
                                                                 std::string_view subject) const;
  /// Deletes a message. Errors: jetstream_errc::message_not_found.
  [[nodiscard]] task<> delete_message(std::string_view stream, std::uint64_t sequence) const;

  // --- Consumers ---

  /// Creates a consumer of a stream. Does nothing if there is one of the same configuration.
  /// Errors: jetstream_errc::consumer_exists for another configuration. With GCC 12, `config` must
  /// be a variable, not a temporary: see channel::send().
  [[nodiscard]] task<nats::consumer> create_consumer(
      std::string_view stream, gyre::detail::awaited_value<consumer_config> config) const;
  /// Changes the configuration of a consumer. Errors: jetstream_errc::consumer_does_not_exist.
  [[nodiscard]] task<nats::consumer> update_consumer(
      std::string_view stream, gyre::detail::awaited_value<consumer_config> config) const;
  /// Opens a consumer that exists.
  [[nodiscard]] task<nats::consumer> consumer(std::string_view stream, std::string_view name) const;
  /// Deletes a consumer; the messages stay in the stream.
  [[nodiscard]] task<> delete_consumer(std::string_view stream, std::string_view name) const;
  /// Returns the names of all consumers of a stream.
  [[nodiscard]] task<std::vector<std::string>> consumer_names(std::string_view stream) const;

  /// The account's use of JetStream. Errors: jetstream_errc::no_stream, not_enabled,
  /// not_enabled_for_account.
  [[nodiscard]] task<account_info> account() const;

 private:
  friend class key_value;

  static task<nats::consumer> handle_of(std::shared_ptr<detail::jetstream_core> core,
                                        task<consumer_info> request);

  const std::shared_ptr<detail::jetstream_core>& checked_core() const;

  std::shared_ptr<detail::jetstream_core> core_;
};

}  // namespace gyre::nats
