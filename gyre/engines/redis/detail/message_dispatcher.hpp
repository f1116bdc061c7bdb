// SPDX-License-Identifier: Apache-2.0
// message_dispatcher: which subscriptions of a Redis client get which messages.
#pragma once

#include <gyre/engines/redis/detail/message_queue.hpp>
#include <gyre/engines/redis/reply_cursor.hpp>

#include <algorithm>
#include <deque>
#include <exception>
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
  /// Returns whether the queue was the last one of its channel.
  bool remove(const message_queue& queue) noexcept;
  /// Adds a message to the queues of its channel. Returns false if it is not a message of a
  /// channel.
  bool deliver(reply_cursor message) noexcept;
  /// Called when a connection has begun: notes a gap in all queues, and calls `subscribe(channel,
  /// is_pattern)` for each channel; end_renewal() takes the replies, in the same order.
  template <class Subscribe>
  void begin_connection(Subscribe subscribe) {
    renewals_.clear();
    for (const auto* channels : {&channels_, &patterns_}) {
      for (const auto& [channel, queues] : *channels) {
        for (const auto& queue : queues) queue->note_gap();
        renewals_.push_back(queues);
        subscribe(std::string_view(channel), channels == &patterns_);
      }
    }
  }
  /// Called when the server has confirmed or refused the next channel of begin_connection().
  /// `refusal`: null, or the error with which the queues of the channel end.
  void end_renewal(const std::exception_ptr& refusal) noexcept;
  /// Ends all queues, because the client was closed.
  void end() noexcept;

 private:
  using queue_list = std::vector<std::shared_ptr<message_queue>>;
  using channel_map = std::map<std::string, queue_list, std::less<>>;

  channel_map& map_of(const message_queue& queue) noexcept {
    return queue.is_pattern() ? patterns_ : channels_;
  }

  channel_map channels_;
  channel_map patterns_;
  std::deque<queue_list> renewals_;  // the channels that await their confirmation
};

}  // namespace gyre::redis::detail
