// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/nats/detail/subscription_state.hpp>

#include <new>

namespace gyre::nats::detail {

subscription_state::push_result subscription_state::push(const operation& source) noexcept {
  ++received_messages_;
  const std::size_t size = sizeof(message_block) + source.subject.size() + source.reply.size() +
                           source.headers.size() + source.payload.size();
  const auto is_full = [this, size] {
    return count_ >= options_.max_messages || (count_ > 0 && bytes_ + size > options_.max_bytes);
  };
  const auto note_drop = [this] {
    return std::exchange(is_dropping_, true) ? push_result::dropped : push_result::first_dropped;
  };
  push_result result = push_result::queued;
  if (is_full()) {
    if (options_.when_full == full_queue_policy::end) {
      ++dropped_messages_;
      return push_result::overflow;
    }
    result = note_drop();
    if (options_.when_full == full_queue_policy::drop_newest) {
      ++dropped_messages_;
      has_gap_ = true;
      return result;
    }
    while (is_full()) drop_oldest();
  }
  message_ptr new_message;
  try {
    new_message = message_block::make(source);
  } catch (const std::bad_alloc&) {
    ++dropped_messages_;
    has_gap_ = true;
    return note_drop();
  }
  new_message->follows_gap = std::exchange(has_gap_, false);
  bytes_ += size;
  ++count_;
  messages_.push_back(*new_message.release());
  arrival_.set();
  return result;
}

void subscription_state::drop_oldest() noexcept {
  pop().reset();
  ++dropped_messages_;
  if (messages_.empty()) {
    has_gap_ = true;
  } else {
    messages_.front()->follows_gap = true;
  }
}

message_ptr subscription_state::pop() noexcept {
  message_ptr first(messages_.pop_front());
  if (first == nullptr) return first;
  --count_;
  bytes_ -= first->size();
  if (count_ == 0) is_dropping_ = false;
  return first;
}

void subscription_state::end(std::exception_ptr error) noexcept {
  if (has_ended()) return;
  state_ = state::ended;
  error_ = std::move(error);
  arrival_.set();
}

void subscription_state::clear() noexcept {
  while (message_block* const first = messages_.pop_front()) message_ptr(first).reset();
  count_ = bytes_ = 0;
}

}  // namespace gyre::nats::detail
