// SPDX-License-Identifier: Apache-2.0
// message_dispatcher: which subscriptions of a Redis client get which messages.
#pragma once

#include <gyre/engines/redis/detail/message_queue.hpp>
#include <gyre/engines/redis/reply_cursor.hpp>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace gyre::redis::detail {

/// Thread-safety: the loop's thread.
class message_dispatcher {
 public:
  bool has_subscriptions() const noexcept { return !channels_.empty() || !patterns_.empty(); }

  void add(const std::shared_ptr<message_queue>& queue);
  /// True if it was the last one of its channel.
  bool remove(const message_queue& queue) noexcept;
  /// Gives a message to the queues it is for; false if it is no message of a channel.
  bool deliver(reply_cursor message) noexcept;
  /// A connection has begun: all queues have a gap. Calls `subscribe(channel, is_pattern)` for each
  /// channel.
  template <class Subscribe>
  void begin_connection(Subscribe subscribe) {
    for (const auto* channels : {&channels_, &patterns_}) {
      for (const auto& [channel, queues] : *channels) {
        for (const auto& queue : queues) queue->note_gap();
        subscribe(std::string_view(channel), channels == &patterns_);
      }
    }
  }
  /// The client was closed.
  void end() noexcept;

 private:
  using channel_map =
      std::map<std::string, std::vector<std::shared_ptr<message_queue>>, std::less<>>;

  channel_map& map_of(const message_queue& queue) noexcept {
    return queue.is_pattern() ? patterns_ : channels_;
  }

  channel_map channels_;
  channel_map patterns_;
};

}  // namespace gyre::redis::detail
