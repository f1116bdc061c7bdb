// SPDX-License-Identifier: Apache-2.0
// subscription_state: a subscription of NATS and its queue of messages.
#pragma once

#include <gyre/base/intrusive_list.hpp>
#include <gyre/base/intrusive_queue.hpp>
#include <gyre/engines/nats/detail/message_block.hpp>
#include <gyre/engines/nats/detail/parser.hpp>
#include <gyre/engines/nats/subscription_options.hpp>
#include <gyre/sync/event.hpp>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <utility>

namespace gyre::nats::detail {

/// | state    | a message comes | drain begins | its end       | next() with an empty queue |
/// |----------|-----------------|--------------|---------------|----------------------------|
/// | active   | queued          | draining     | ended         | waits                      |
/// | draining | queued          | -            | ended         | waits                      |
/// | ended    | -               | -            | -             | nothing, or the error      |
///
/// Thread-safety: the loop's thread.
class subscription_state : public std::enable_shared_from_this<subscription_state>,
                           public intrusive_list_node {
 public:
  enum class push_result : std::uint8_t { queued, dropped, first_dropped, overflow };

  subscription_state(std::string subject, subscription_options options)
      : subject_(std::move(subject)), options_(std::move(options)) {}
  subscription_state(const subscription_state&) = delete;
  subscription_state& operator=(const subscription_state&) = delete;
  ~subscription_state() {
    unlink();
    clear();
  }

  const std::string& subject() const noexcept { return subject_; }
  const std::string& queue_group() const noexcept { return options_.queue_group; }
  std::uint64_t limit() const noexcept { return options_.unsubscribe_after; }
  std::size_t waiting() const noexcept { return count_; }
  std::size_t waiting_bytes() const noexcept { return bytes_; }
  std::uint64_t received() const noexcept { return received_messages_; }
  std::uint64_t dropped() const noexcept { return dropped_messages_; }
  bool is_draining() const noexcept { return state_ == state::draining; }
  bool has_ended() const noexcept { return state_ == state::ended; }
  bool has_reached_limit() const noexcept { return limit() > 0 && received_messages_ >= limit(); }

  /// Queues a message, or drops one, as the policy says; without memory the new one. Overflow: the
  /// subscription must end.
  push_result push(const operation& source) noexcept;
  /// Returns the oldest message; null if the queue is empty.
  message_ptr pop() noexcept;
  auto wait() noexcept { return arrival_.wait(); }
  const std::exception_ptr& error() const noexcept { return error_; }

  /// Marks the next message as one that follows a gap.
  void note_gap() noexcept { has_gap_ = true; }
  void begin_drain() noexcept {
    if (state_ == state::active) state_ = state::draining;
  }
  /// Called when no further message will come. next() throws `error` after the messages, unless it
  /// is null.
  void end(std::exception_ptr error = nullptr) noexcept;
  /// Drops the messages.
  void clear() noexcept;

  /// Called when the program has received the end of the messages, so that it no longer works on
  /// one. Removes the subscription from the list of client_core.
  void note_consumed() noexcept {
    unlink();
    consumption_event_.set();
  }
  auto wait_until_consumed() noexcept { return consumption_event_.wait(); }

  std::uint64_t sid = 0;  ///< the number by which the server knows it; client_core sets it

 private:
  enum class state : std::uint8_t { active, draining, ended };

  void drop_oldest() noexcept;

  const std::string subject_;
  const subscription_options options_;
  intrusive_queue<message_block> messages_;
  std::size_t count_ = 0;
  std::size_t bytes_ = 0;
  std::uint64_t received_messages_ = 0;
  std::uint64_t dropped_messages_ = 0;
  std::exception_ptr error_;
  state state_ = state::active;
  bool has_gap_ = false;
  bool is_dropping_ = false;  // whether a message was dropped since the queue was empty
  auto_reset_event arrival_;
  manual_reset_event consumption_event_;
};

}  // namespace gyre::nats::detail
