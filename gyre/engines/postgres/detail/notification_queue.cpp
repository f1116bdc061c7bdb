// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/postgres/detail/notification_queue.hpp>

#include <new>

namespace gyre::postgres::detail {

void notification_queue::push(std::string_view payload, std::int32_t process) noexcept {
  const auto is_full = [this, &payload] {
    return messages_.size() >= options_.max_messages ||
           (!messages_.empty() && bytes_ + payload.size() > options_.max_bytes);
  };
  while (is_full()) drop_oldest();
  try {
    messages_.push_back({channel_, std::string(payload), process, has_gap_});
  } catch (const std::bad_alloc&) {
    ++dropped_;
    has_gap_ = true;
    return;
  }
  has_gap_ = false;
  bytes_ += payload.size();
  arrival_.set();
}

void notification_queue::note_gap() noexcept {
  if (!is_confirmed_) return;
  has_gap_ = true;
  push({}, 0);
}

void notification_queue::drop_oldest() noexcept {
  bytes_ -= messages_.front().payload.size();
  messages_.pop_front();
  ++dropped_;
  if (messages_.empty()) {
    has_gap_ = true;
  } else {
    messages_.front().follows_gap = true;
  }
}

std::optional<notification> notification_queue::pop() {
  if (messages_.empty()) return std::nullopt;
  notification first = std::move(messages_.front());
  messages_.pop_front();
  bytes_ -= first.payload.size();
  return first;
}

}  // namespace gyre::postgres::detail
