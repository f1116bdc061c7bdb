// SPDX-License-Identifier: Apache-2.0
// message_queue: the messages that wait in a subscription of Redis.
#pragma once

#include <gyre/engines/redis/message.hpp>
#include <gyre/engines/redis/subscription_options.hpp>
#include <gyre/sync/event.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace gyre::redis::detail {

/// Thread-safety: the loop's thread.
class message_queue {
 public:
  message_queue(std::string channel, const subscription_options& options)
      : channel_(std::move(channel)), options_(options) {}

  const std::string& channel() const noexcept { return channel_; }
  bool is_pattern() const noexcept { return options_.is_pattern; }
  std::uint64_t dropped() const noexcept { return dropped_; }
  bool has_ended() const noexcept { return has_ended_; }
  auto wait() noexcept { return arrival_.wait(); }

  /// Adds a message; without memory it counts as dropped.
  void push(std::string_view channel, std::string_view text) noexcept;
  std::optional<message> pop();
  /// The next message follows a gap.
  void note_gap() noexcept { has_gap_ = true; }
  /// After the messages that wait, next() throws `error`, if it is not null.
  void end(std::exception_ptr error = nullptr) noexcept {
    has_ended_ = true;
    error_ = std::move(error);
    arrival_.set();
  }
  const std::exception_ptr& error() const noexcept { return error_; }

 private:
  void drop_oldest() noexcept;

  const std::string channel_;
  const subscription_options options_;
  std::deque<message> messages_;
  std::size_t bytes_ = 0;
  std::uint64_t dropped_ = 0;
  bool has_gap_ = false;
  bool has_ended_ = false;
  std::exception_ptr error_;
  auto_reset_event arrival_;
};

}  // namespace gyre::redis::detail
