// SPDX-License-Identifier: Apache-2.0
// message: a NATS message that a subscription or a request has received.
//
//     auto order = co_await orders.next();
//     if (!order->reply().empty()) co_await bus.publish(order->reply(), "accepted");
#pragma once

#include <gyre/engines/nats/detail/message_block.hpp>
#include <gyre/engines/nats/headers.hpp>

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

namespace gyre::nats {

/// A message, which owns its memory: one block for all of its parts. Movable; one that was moved
/// from is empty.
///
/// Lifetime: views of its parts are valid as long as the message.
class message {
 public:
  message() noexcept = default;

  std::string_view subject() const noexcept { return part(&detail::message_block::subject); }
  /// The subject to which the sender wants replies; empty: none.
  std::string_view reply() const noexcept { return part(&detail::message_block::reply); }
  /// Returns the payload.
  std::string_view text() const noexcept { return part(&detail::message_block::payload); }
  std::span<const std::byte> bytes() const noexcept {
    return std::as_bytes(std::span(text().data(), text().size()));
  }
  header_view headers() const noexcept;
  /// The status of a message of the server itself, such as 503; 0: none.
  int status() const noexcept;
  /// The text after the status, such as "No Messages".
  std::string_view description() const noexcept;

  /// Whether messages before this one may be missing: the connection was replaced, or the queue was
  /// full.
  bool follows_gap() const noexcept { return block_ != nullptr && block_->follows_gap; }

  /// Only gyre itself makes messages of blocks.
  explicit message(detail::message_ptr block) noexcept : block_(std::move(block)) {}

 private:
  std::string_view part(std::string_view (detail::message_block::*reader)() const) const noexcept {
    return block_ != nullptr ? ((*block_).*reader)() : std::string_view();
  }
  // The first line of the headers, without "NATS/1.0".
  std::string_view status_line() const noexcept;

  detail::message_ptr block_;
};

}  // namespace gyre::nats
