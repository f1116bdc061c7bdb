// SPDX-License-Identifier: Apache-2.0
// handler_record: records the handler of a request, without a reading of the clock of its own.
#pragma once

#include <gyre/base/detail/ticks.hpp>
#include <gyre/trace/detail/activity_scope.hpp>
#include <gyre/trace/detail/event.hpp>
#include <gyre/trace/detail/function_sequence.hpp>
#include <gyre/trace/detail/recorder.hpp>

#include <cstdint>
#include <optional>

namespace gyre::trace::detail {

/// The scope in which a thread runs the handler of a request, until it returns or waits. Within a
/// callback of I/O the callback's event gets the handler's name, so that it also holds the time of
/// reading the request and of sending the response.
class handler_record {
 public:
  /// `label`: the address of a text that is never freed.
  explicit handler_record(std::uint64_t label) noexcept {
    if constexpr (is_compiled_in) {
      if (function_sequence* const sequence = function_sequence::here()) {
        begin_ = sequence->begin_handler(label);
      }
      if (begin_ != 0) return;
      begin_ = own_scope_.emplace(find_recorder(), event_kind::handler, label).begun();
    }
  }
  handler_record& operator=(handler_record&&) = delete;

  /// Returns when the event begins, in ticks; zero if nothing is recorded.
  [[nodiscard]] gyre::detail::tick_count begun() const noexcept { return begin_; }

 private:
  gyre::detail::tick_count begin_ = 0;
  std::optional<activity_scope> own_scope_;
};

/// Adds a request whose handler began at `handler_begun`, the result of handler_record::begun(),
/// and which ends now. Does nothing if that is zero, or if the handler has not waited: then its own
/// event tells the same.
inline void record_request(gyre::detail::tick_count handler_begun, std::uint64_t label,
                           std::uint64_t status) noexcept {
  if (handler_begun == 0) return;
  recorder* const own_recorder = find_recorder();
  if (own_recorder == nullptr) return;
  const activity_info activity = own_recorder->own_activity();
  if (activity.begin == handler_begun && activity.kind == event_kind::handler) return;
  end_event(own_recorder, handler_begun, event_kind::request, label, status);
}

}  // namespace gyre::trace::detail
