// SPDX-License-Identifier: Apache-2.0
// message_queue: the messages that wait in a subscription of Redis.
#pragma once

#include <gyre/engines/detail/message_queue.hpp>
#include <gyre/engines/redis/message.hpp>
#include <gyre/engines/redis/subscription_options.hpp>

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

namespace gyre::redis::detail {

constexpr std::size_t message_size(const message& entry) noexcept {
  return entry.channel.size() + entry.text.size();
}

/// Thread-safety: the loop's thread.
class message_queue final : public engines::detail::message_queue<message, message_size> {
 public:
  message_queue(std::string channel, const subscription_options& options) noexcept
      : engines::detail::message_queue<message, message_size>(
            std::move(channel), options.max_messages, options.max_bytes),
        is_pattern_(options.is_pattern) {}

  bool is_pattern() const noexcept { return is_pattern_; }
  void push(std::string_view channel, std::string_view text) noexcept {
    engines::detail::message_queue<message, message_size>::push(channel.size() + text.size(), [&] {
      return message{.channel = std::string(channel), .text = std::string(text)};
    });
  }

 private:
  const bool is_pattern_;
};

}  // namespace gyre::redis::detail
