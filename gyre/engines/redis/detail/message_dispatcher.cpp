// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/redis/detail/message_dispatcher.hpp>

#include <utility>

namespace gyre::redis::detail {

void message_dispatcher::add(const std::shared_ptr<message_queue>& queue) {
  map_of(*queue)[queue->channel()].push_back(queue);
}

bool message_dispatcher::remove(const message_queue& queue) noexcept {
  channel_map& channels = map_of(queue);
  const auto match = channels.find(queue.channel());
  if (match == channels.end()) return false;
  std::erase_if(match->second, [&](const auto& subscriber) { return subscriber.get() == &queue; });
  if (!match->second.empty()) return false;
  channels.erase(match);
  return true;
}

bool message_dispatcher::deliver(reply_cursor message) noexcept {
  const reply_node header = message.next();
  if (header.count == 0) return false;
  const std::string_view kind = message.next().text;
  const bool is_pattern = kind == "pmessage";
  if (!is_pattern && kind != "message") return false;
  if (header.count != (is_pattern ? 4U : 3U)) return false;
  const std::string_view subscribed_name = message.next().text;
  const std::string_view channel = is_pattern ? message.next().text : subscribed_name;
  const std::string_view text = message.next().text;
  const channel_map& channels = is_pattern ? patterns_ : channels_;
  if (const auto match = channels.find(subscribed_name); match != channels.end()) {
    for (const auto& queue : match->second) queue->push(channel, text);
  }
  return true;
}

void message_dispatcher::end_renewal(const std::exception_ptr& refusal) noexcept {
  if (renewals_.empty()) return;
  const queue_list queues = std::move(renewals_.front());
  renewals_.pop_front();
  if (refusal == nullptr) return;
  for (const auto& queue : queues) {
    remove(*queue);
    queue->end(refusal);
  }
}

void message_dispatcher::end() noexcept {
  renewals_.clear();
  for (channel_map* channels : {&channels_, &patterns_}) {
    for (const auto& [channel, queues] : *channels) {
      for (const auto& queue : queues) queue->end();
    }
    channels->clear();
  }
}

}  // namespace gyre::redis::detail
