// SPDX-License-Identifier: Apache-2.0
// activity_scope: records a function or a handler that a thread runs.
#pragma once

#include <gyre/base/detail/ticks.hpp>
#include <gyre/trace/detail/event.hpp>
#include <gyre/trace/detail/recorder.hpp>

#include <cstdint>

namespace gyre::trace::detail {

/// The scope in which a thread runs a function or a handler: an event when it ends, and the
/// thread's activity meanwhile. Must begin and end on the same thread.
class activity_scope {
 public:
  /// `target`: the recorder of the calling thread, or null.
  activity_scope(recorder* target, event_kind kind, std::uint64_t object) noexcept
      : recorder_(target) {
    if (recorder_ == nullptr) return;
    outer_activity_ = recorder_->own_activity();
    current_activity_ = {.begin = gyre::detail::read_ticks(), .kind = kind, .object = object};
    recorder_->set_activity(current_activity_);
  }
  activity_scope& operator=(activity_scope&&) = delete;
  /// Returns when the scope began, in ticks; zero if nothing is recorded.
  [[nodiscard]] gyre::detail::tick_count begun() const noexcept { return current_activity_.begin; }
  ~activity_scope() {
    if (recorder_ == nullptr) return;
    recorder_->set_activity(outer_activity_);
    end_event(recorder_, current_activity_.begin, current_activity_.kind, current_activity_.object);
  }

 private:
  recorder* const recorder_;
  activity_info outer_activity_;
  activity_info current_activity_;
};

}  // namespace gyre::trace::detail
