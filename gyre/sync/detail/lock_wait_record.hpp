// SPDX-License-Identifier: Apache-2.0
// lock_wait_record: records how long a coroutine has waited for a lock.
#pragma once

#include <gyre/base/detail/ticks.hpp>
#include <gyre/trace/detail/event.hpp>
#include <gyre/trace/detail/recorder.hpp>

#include <cstdint>

namespace gyre::detail {

/// A wait in the flight recorder, with the name of the coroutine that waited.
///
/// Thread-safety: any thread, one at a time.
class lock_wait_record {
 public:
  /// `frame`: the address of the coroutine's frame, which begins with the address of its code.
  void begin(const void* frame) noexcept {
    begin_ = trace::detail::begin_now();
    code_ = *static_cast<const std::uint64_t*>(frame);
  }
  void end() noexcept {
    trace::detail::record_since(begin_, trace::detail::event_kind::lock_wait, code_);
  }

 private:
  tick_count begin_ = 0;
  std::uint64_t code_ = 0;
};

}  // namespace gyre::detail
