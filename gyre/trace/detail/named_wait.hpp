// SPDX-License-Identifier: Apache-2.0
// named_wait: records a wait for another program, from the construction of a local object of a
// coroutine to its destruction.
#pragma once

#include <gyre/base/detail/ticks.hpp>
#include <gyre/trace/detail/event.hpp>
#include <gyre/trace/detail/recorder.hpp>

#include <string_view>

namespace gyre::trace::detail {

/// A scope that may begin and end on different threads, with a name such as the text of a
/// statement: see record_wait().
///
/// Thread-safety: any thread, one at a time.
/// Lifetime: the characters of `name` must outlive it.
class named_wait {
 public:
  named_wait(event_kind kind, std::string_view name) noexcept : kind_(kind), name_(name) {}
  named_wait& operator=(named_wait&&) = delete;
  ~named_wait() { record_wait(begin_, kind_, name_); }

 private:
  const event_kind kind_;
  const std::string_view name_;
  const gyre::detail::tick_count begin_ = begin_now();
};

}  // namespace gyre::trace::detail
