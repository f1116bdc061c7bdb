// SPDX-License-Identifier: Apache-2.0
// notification_queue: the notifications that wait in a subscription of PostgreSQL.
#pragma once

#include <gyre/engines/postgres/notification.hpp>
#include <gyre/engines/postgres/subscription_options.hpp>
#include <gyre/sync/event.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace gyre::postgres::detail {

/// Thread-safety: the loop's thread.
class notification_queue {
 public:
  notification_queue(std::string channel, const subscription_options& options)
      : channel_(std::move(channel)), options_(options) {}

  const std::string& channel() const noexcept { return channel_; }
  std::uint64_t dropped() const noexcept { return dropped_; }
  bool has_ended() const noexcept { return has_ended_; }
  auto wait() noexcept { return arrival_.wait(); }

  /// Adds a notification; without memory it counts as dropped.
  void push(std::string_view payload, std::int32_t process) noexcept;
  std::optional<notification> pop();
  /// The server has confirmed LISTEN, so that gaps are noted from now on.
  void note_confirmed() noexcept { is_confirmed_ = true; }
  /// The connection was replaced.
  void note_gap() noexcept;
  void end() noexcept {
    has_ended_ = true;
    arrival_.set();
  }

 private:
  void drop_oldest() noexcept;

  const std::string channel_;
  const subscription_options options_;
  std::deque<notification> messages_;
  std::size_t bytes_ = 0;
  std::uint64_t dropped_ = 0;
  bool has_gap_ = false;
  bool is_confirmed_ = false;
  bool has_ended_ = false;
  auto_reset_event arrival_;
};

}  // namespace gyre::postgres::detail
