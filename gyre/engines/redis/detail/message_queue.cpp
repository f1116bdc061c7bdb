// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/redis/detail/message_queue.hpp>

#include <new>

namespace gyre::redis::detail {
namespace {

std::size_t size_of(const message& counted) noexcept {
  return counted.channel.size() + counted.text.size();
}

}  // namespace

void message_queue::push(std::string_view channel, std::string_view text) noexcept {
  const std::size_t size = channel.size() + text.size();
  const auto is_full = [&] {
    return messages_.size() >= options_.max_messages ||
           (!messages_.empty() && bytes_ + size > options_.max_bytes);
  };
  while (is_full()) drop_oldest();
  try {
    messages_.push_back({std::string(channel), std::string(text), std::exchange(has_gap_, false)});
  } catch (const std::bad_alloc&) {
    ++dropped_;
    has_gap_ = true;
    return;
  }
  bytes_ += size;
  arrival_.set();
}

void message_queue::drop_oldest() noexcept {
  bytes_ -= size_of(messages_.front());
  messages_.pop_front();
  ++dropped_;
  if (messages_.empty()) {
    has_gap_ = true;
  } else {
    messages_.front().follows_gap = true;
  }
}

std::optional<message> message_queue::pop() {
  if (messages_.empty()) return std::nullopt;
  message first = std::move(messages_.front());
  messages_.pop_front();
  bytes_ -= size_of(first);
  return first;
}

}  // namespace gyre::redis::detail
