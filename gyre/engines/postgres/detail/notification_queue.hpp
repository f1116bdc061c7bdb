// SPDX-License-Identifier: Apache-2.0
// notification_queue: the notifications that wait in a subscription of PostgreSQL.
#pragma once

#include <gyre/engines/detail/message_queue.hpp>
#include <gyre/engines/postgres/notification.hpp>
#include <gyre/engines/postgres/subscription_options.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace gyre::postgres::detail {

constexpr std::size_t notification_size(const notification& entry) noexcept {
  return entry.payload.size();
}

/// Thread-safety: the loop's thread.
class notification_queue final
    : public engines::detail::message_queue<notification, notification_size> {
 public:
  notification_queue(std::string channel, const subscription_options& options) noexcept
      : engines::detail::message_queue<notification, notification_size>(
            std::move(channel), options.max_messages, options.max_bytes) {}

  void push(std::string_view payload, std::int32_t process) noexcept {
    engines::detail::message_queue<notification, notification_size>::push(payload.size(), [&] {
      return notification{
          .channel = channel(), .payload = std::string(payload), .process_id = process};
    });
  }
  /// Called when the server has confirmed LISTEN: from now on gaps are noted.
  void note_confirmed() noexcept { is_confirmed_ = true; }
  /// Called when the connection was replaced: adds a notification without a payload, which reports
  /// the gap at once.
  void note_replaced_connection() noexcept {
    if (!is_confirmed_) return;
    note_gap();
    push({}, 0);
  }

 private:
  bool is_confirmed_ = false;
};

}  // namespace gyre::postgres::detail
