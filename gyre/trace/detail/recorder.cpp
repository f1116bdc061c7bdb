// SPDX-License-Identifier: Apache-2.0
#include <gyre/trace/detail/recorder.hpp>

#include <gyre/trace/detail/event_limits.hpp>
#include <gyre/trace/detail/slow_event_mailbox.hpp>

namespace gyre::trace::detail {

void recorder::push_notable(const event& added) noexcept {
  notable_.push(added);
  if (exceeds_limit(added)) slow_event_mailbox::instance().put(added);
}

void recorder::adopt(::pid_t thread) noexcept {
  // relaxed: the mutex of the recorders orders the threads of a recorder.
  recent_skipped_.store(recent_.pushed(), std::memory_order_relaxed);
  notable_skipped_.store(notable_.pushed(), std::memory_order_relaxed);
  thread_.store(thread, std::memory_order_relaxed);
  set_activity({});
}

std::optional<activity_info> recorder::activity() const noexcept {
  // acquire: see set_activity().
  activity_info found;
  found.begin = activity_begin_.load(std::memory_order_acquire);
  found.kind = activity_kind_.load(std::memory_order_acquire);
  found.object = activity_object_.load(std::memory_order_acquire);
  if (found.begin == 0 || activity_begin_.load(std::memory_order_relaxed) != found.begin) {
    return std::nullopt;
  }
  return found;
}

void recorder::append_to(std::vector<event>& events) const {
  recent_.append_to(events, recent_skipped_.load(std::memory_order_relaxed));
  notable_.append_to(events, notable_skipped_.load(std::memory_order_relaxed));
}

}  // namespace gyre::trace::detail
