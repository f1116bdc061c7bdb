// SPDX-License-Identifier: Apache-2.0
// jetstream_message: a message of a stream that a consumer has delivered, and its acknowledgement.
//
//     if (is_valid(order.text())) {
//       co_await order.ack();
//     } else {
//       co_await order.term("it is no order");
//     }
#pragma once

#include <gyre/base/duration.hpp>
#include <gyre/engines/nats/message.hpp>
#include <gyre/engines/nats/message_metadata.hpp>
#include <gyre/task/task.hpp>

#include <chrono>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace gyre::nats {

namespace detail {
class jetstream_core;
}  // namespace detail

/// A message that has to be acknowledged: a message for which the consumer gets no acknowledgement
/// within its ack_wait is delivered again, to any client. An acknowledgement that comes later
/// counts for the other delivery, too; so the effect of a message must be harmless when it is
/// repeated.
///
/// Thread-safety: the loop's thread.
/// Lifetime: may outlive the client and the consumer. Views of its parts are valid as long as the
/// message.
/// Errors: of the acknowledgements: std::logic_error if the message was acknowledged before, or by
/// ack(), ack_sync(), nak() or term(), once; those of client::publish().
class jetstream_message {
 public:
  /// Makes a message without content, which cannot be acknowledged.
  jetstream_message() noexcept = default;

  std::string_view subject() const noexcept { return content_.subject(); }
  /// Returns the payload.
  std::string_view text() const noexcept { return content_.text(); }
  std::span<const std::byte> bytes() const noexcept { return content_.bytes(); }
  header_view headers() const noexcept { return content_.headers(); }
  /// The sequences, the number of deliveries and the like; parsed for each call.
  [[nodiscard]] message_metadata metadata() const;

  /// Acknowledges the message. Gives the acknowledgement to the connection, and does not wait for
  /// the server: one that is lost has the message delivered again.
  [[nodiscard]] task<> ack();
  /// Acknowledges the message, and waits until the server has confirmed that.
  [[nodiscard]] task<> ack_sync(duration timeout = std::chrono::seconds{5});
  /// Has the message delivered again, after `delay`.
  [[nodiscard]] task<> nak(duration delay = duration::zero());
  /// Has the message never delivered again. `reason` is for the server's advisories.
  [[nodiscard]] task<> term(std::string_view reason = {});
  /// Begins the time of ack_wait again. A handler may call it several times.
  [[nodiscard]] task<> in_progress();

 private:
  friend class consumer;
  friend class consumer_messages;
  jetstream_message(std::shared_ptr<detail::jetstream_core> core, message&& content) noexcept
      : core_(std::move(core)), content_(std::move(content)) {}

  void require_unacknowledged() const;
  task<> finish(std::string text);

  std::shared_ptr<detail::jetstream_core> core_;
  message content_;
  bool is_acknowledged_ = false;
};

}  // namespace gyre::nats
