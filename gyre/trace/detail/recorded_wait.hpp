// SPDX-License-Identifier: Apache-2.0
// recorded_wait: records the lifetime of an object, such as a local object of a coroutine.
#pragma once

#include <gyre/base/detail/ticks.hpp>
#include <gyre/trace/detail/event.hpp>
#include <gyre/trace/detail/recorder.hpp>

#include <cstdint>

namespace gyre::trace::detail {

/// A scope that may begin and end on different threads.
///
/// Thread-safety: any thread, one at a time.
class recorded_wait {
 public:
  explicit recorded_wait(event_kind kind) noexcept : kind_(kind) {}
  recorded_wait& operator=(recorded_wait&&) = delete;
  ~recorded_wait() { record_since(begin_, kind_, 0); }

 private:
  const event_kind kind_;
  const gyre::detail::tick_count begin_ = begin_now();
};

}  // namespace gyre::trace::detail
