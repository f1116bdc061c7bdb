// SPDX-License-Identifier: Apache-2.0
#include <gyre/trace/detail/slow_event_mailbox.hpp>

#include <gyre/base/clock.hpp>
#include <gyre/base/detail/fork_handlers.hpp>

#include <utility>

namespace gyre::trace::detail {

slow_event_mailbox& slow_event_mailbox::instance() {
  static auto& mailbox = *new slow_event_mailbox;
  return mailbox;
}

// The child process of fork(2) has no thread that waits, so it accepts no event.
slow_event_mailbox::slow_event_mailbox() {
  gyre::detail::add_fork_handlers({.before = [] { instance().mutex_.lock(); },
                                   .in_parent = [] { instance().mutex_.unlock(); },
                                   .in_child = &close_in_child});
}

void slow_event_mailbox::close_in_child() {
  slow_event_mailbox& mailbox = instance();
  mailbox.is_open_.store(false, std::memory_order_relaxed);
  mailbox.mutex_.unlock();
}

bool slow_event_mailbox::acquire() noexcept {
  const std::lock_guard lock(mutex_);
  if (std::exchange(is_acquired_, true)) return false;
  is_stopped_ = false;
  content_.reset();
  skipped_events_.store(0, std::memory_order_relaxed);
  is_open_.store(true, std::memory_order_relaxed);
  return true;
}

void slow_event_mailbox::release() noexcept {
  const std::lock_guard lock(mutex_);
  is_acquired_ = false;
}

void slow_event_mailbox::put(const event& slow_event) noexcept {
  // relaxed: the mutex orders the event; a thread that sees an old value skips one more event.
  if (!is_open_.load(std::memory_order_relaxed) ||
      !is_open_.exchange(false, std::memory_order_relaxed)) {
    skipped_events_.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    content_ = slow_event;
  }
  change_condition_.notify_one();
}

std::optional<event> slow_event_mailbox::wait() {
  std::unique_lock lock(mutex_);
  change_condition_.wait(lock, [this] { return content_.has_value() || is_stopped_; });
  if (is_stopped_) return std::nullopt;
  return std::exchange(content_, std::nullopt);
}

void slow_event_mailbox::reopen_after(duration length) {
  std::unique_lock lock(mutex_);
  const steady_time end = gyre::detail::later(gyre::detail::monotonic_now(), length);
  change_condition_.wait_until(lock, end, [this] { return is_stopped_; });
  is_open_.store(!is_stopped_, std::memory_order_relaxed);
}

void slow_event_mailbox::stop() noexcept {
  {
    const std::lock_guard lock(mutex_);
    is_stopped_ = true;
    is_open_.store(false, std::memory_order_relaxed);
  }
  change_condition_.notify_one();
}

std::uint64_t slow_event_mailbox::skipped() const noexcept {
  return skipped_events_.load(std::memory_order_relaxed);
}

}  // namespace gyre::trace::detail
