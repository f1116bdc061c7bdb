// SPDX-License-Identifier: Apache-2.0
// message_queue: the messages that wait in a subscription, which drops the oldest ones when it is
// full.
#pragma once

#include <gyre/sync/event.hpp>
#include <gyre/task/task.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>

namespace gyre::engines::detail {

/// `SizeOf(message)`: the bytes that count. A message has a member `follows_gap`: whether earlier
/// ones may be missing.
///
/// Thread-safety: the loop's thread.
template <class Message, auto SizeOf>
class message_queue {
 public:
  message_queue(std::string channel, std::size_t max_messages, std::size_t max_bytes) noexcept
      : channel_(std::move(channel)), max_messages_(max_messages), max_bytes_(max_bytes) {}

  const std::string& channel() const noexcept { return channel_; }
  std::uint64_t dropped() const noexcept { return dropped_messages_; }

  std::optional<Message> pop() {
    if (messages_.empty()) return std::nullopt;
    Message first = std::move(messages_.front());
    bytes_ -= SizeOf(first);
    messages_.pop_front();
    return first;
  }
  /// Waits for a message; returns std::nullopt once the queue has ended, or without a queue.
  static task<std::optional<Message>> next(std::shared_ptr<message_queue> self) {
    while (self != nullptr) {
      if (std::optional<Message> first = self->pop()) co_return first;
      if (self->error_) std::rethrow_exception(self->error_);
      if (self->has_ended_) co_return std::nullopt;
      co_await self->arrival_.wait();
    }
    co_return std::nullopt;
  }

  /// Marks the next message as one that follows a gap.
  void note_gap() noexcept { has_gap_ = true; }
  /// After the messages that wait, next() throws `error`, if it is not null.
  void end(std::exception_ptr error = nullptr) noexcept {
    has_ended_ = true;
    error_ = std::move(error);
    arrival_.set();
  }

 protected:
  ~message_queue() = default;

  /// Adds `make()`, a message of `size` bytes; without memory it counts as dropped.
  template <class Make>
  void push(std::size_t size, Make make) noexcept {
    const auto is_full = [&] {
      return messages_.size() >= max_messages_ ||
             (!messages_.empty() && bytes_ + size > max_bytes_);
    };
    while (is_full()) drop_oldest();
    try {
      messages_.push_back(make());
    } catch (const std::bad_alloc&) {
      ++dropped_messages_;
      has_gap_ = true;
      return;
    }
    messages_.back().follows_gap = std::exchange(has_gap_, false);
    bytes_ += size;
    arrival_.set();
  }

 private:
  void drop_oldest() noexcept {
    bytes_ -= SizeOf(messages_.front());
    messages_.pop_front();
    ++dropped_messages_;
    if (messages_.empty()) {
      has_gap_ = true;
    } else {
      messages_.front().follows_gap = true;
    }
  }

  const std::string channel_;
  const std::size_t max_messages_;
  const std::size_t max_bytes_;
  std::deque<Message> messages_;
  std::size_t bytes_ = 0;
  std::uint64_t dropped_messages_ = 0;
  bool has_gap_ = false;
  bool has_ended_ = false;
  std::exception_ptr error_;
  auto_reset_event arrival_;
};

}  // namespace gyre::engines::detail
