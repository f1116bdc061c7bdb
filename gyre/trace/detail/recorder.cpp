// SPDX-License-Identifier: Apache-2.0
#include <gyre/trace/detail/recorder.hpp>

#include <gyre/trace/detail/event_limits.hpp>
#include <gyre/trace/detail/slow_event_mailbox.hpp>

namespace gyre::trace::detail {

void recorder::push_notable(const event& entry) noexcept {
  notable_events_.push(entry);
  if (exceeds_limit(entry)) slow_event_mailbox::instance().put(entry);
}

void recorder::adopt(::pid_t thread) noexcept {
  // relaxed: the mutex of the recorders orders the threads of a recorder.
  recent_skipped_.store(recent_events_.pushed(), std::memory_order_relaxed);
  notable_skipped_.store(notable_events_.pushed(), std::memory_order_relaxed);
  thread_.store(thread, std::memory_order_relaxed);
  set_activity({});
}

std::optional<activity_info> recorder::activity() const noexcept {
  // acquire: pairs with the release in set_activity().
  activity_info result;
  result.begin = activity_begin_.load(std::memory_order_acquire);
  result.kind = activity_kind_.load(std::memory_order_acquire);
  result.object = activity_object_.load(std::memory_order_acquire);
  if (result.begin == 0 || activity_begin_.load(std::memory_order_relaxed) != result.begin) {
    return std::nullopt;
  }
  return result;
}

void recorder::append_to(std::vector<event>& events) const {
  recent_events_.append_to(events, recent_skipped_.load(std::memory_order_relaxed));
  notable_events_.append_to(events, notable_skipped_.load(std::memory_order_relaxed));
}

}  // namespace gyre::trace::detail
