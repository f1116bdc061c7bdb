// SPDX-License-Identifier: Apache-2.0
// function_sequence: records functions that a thread runs one after the other, with one reading of
// the clock for each.
#pragma once

#include <gyre/base/detail/ticks.hpp>
#include <gyre/trace/detail/event.hpp>
#include <gyre/trace/detail/recorder.hpp>

#include <cstdint>

namespace gyre::trace::detail {

/// The scope in which a thread runs functions one after the other, such as the callbacks of ready
/// descriptors. A function that takes at least min_function_length() becomes an event. If it
/// resumes a coroutine, the event has the name of the first one.
///
/// Thread-safety: begins and ends on one thread; scopes nest.
class function_sequence {
 public:
  /// `target`: the recorder of the calling thread; null records nothing. `function_kind` is the
  /// kind of the events of functions, `coroutine_kind` that of coroutines.
  function_sequence(recorder* target, event_kind function_kind, event_kind coroutine_kind) noexcept
      : recorder_(target), function_kind_(function_kind), coroutine_kind_(coroutine_kind) {
    if constexpr (is_compiled_in) {
      if (recorder_ != nullptr) enter();
    }
  }
  function_sequence& operator=(function_sequence&&) = delete;
  ~function_sequence() {
    if constexpr (is_compiled_in) {
      if (recorder_ != nullptr) exit();
    }
  }

  /// Called before a function, whose code is at `function`. The time since the end of the previous
  /// function counts as time of this one. Returns false, and has no effect, within another function
  /// of the sequence; end_function() must then not be called.
  bool begin_function(std::uint64_t function) noexcept {
    if (recorder_ == nullptr || is_in_function_) return false;
    is_in_function_ = true;
    current_activity_ = {.begin = last_, .kind = function_kind_, .object = function};
    recorder_->set_activity(current_activity_);
    return true;
  }
  /// Called after a function.
  void end_function() noexcept {
    if (!is_in_function_) return;
    is_in_function_ = false;
    end_part();
  }
  /// Called within a function when the handler of a request begins. The function's event gets the
  /// handler's name. Each of several requests is an event of its own, which begins when the request
  /// before has ended. Returns when the event begins, in ticks; zero, and no effect, outside of a
  /// function.
  gyre::detail::tick_count begin_handler(std::uint64_t label) noexcept {
    if (!is_in_function_) return 0;
    if (current_activity_.kind == event_kind::handler) {
      end_part();
      current_activity_.begin = last_;
    }
    current_activity_.kind = event_kind::handler;
    current_activity_.object = label;
    recorder_->set_activity(current_activity_);
    return current_activity_.begin;
  }

  /// Returns when the sequence began, and when its last function ended, in ticks.
  [[nodiscard]] gyre::detail::tick_count first() const noexcept { return first_; }
  [[nodiscard]] gyre::detail::tick_count last() const noexcept { return last_; }

  /// Returns the innermost sequence of the calling thread, or null. Must not be inlined into
  /// coroutines, which may be on another thread after each suspension.
  static function_sequence* here() noexcept {
    if constexpr (is_compiled_in) {
      return innermost;
    } else {
      return nullptr;
    }
  }
  /// Called when a coroutine of the function is about to be resumed. `frame` is the address of the
  /// coroutine's frame, which begins with the address of its code.
  void name_coroutine(const void* frame) noexcept {
    if (!is_in_function_ || current_activity_.kind != function_kind_) return;
    current_activity_.kind = coroutine_kind_;
    set_coroutine(frame);
  }
  /// Called when the named coroutine passes the thread on to the coroutine `frame`, which says more
  /// about the work.
  void rename_coroutine(const void* frame) noexcept {
    if (is_in_function_ && current_activity_.kind == coroutine_kind_) set_coroutine(frame);
  }

 private:
  // The variable is visible, so that the library and its users share it even if the users hide
  // their symbols.
  [[gnu::visibility("default")]] static constinit thread_local function_sequence* innermost;

  void set_coroutine(const void* frame) noexcept {
    current_activity_.object = *static_cast<const std::uint64_t*>(frame);
    recorder_->set_activity(current_activity_);
  }
  void enter() noexcept;
  void exit() noexcept;
  // Adds the present function, or its part, to the recorder if it took long enough.
  void end_part() noexcept {
    last_ = gyre::detail::read_ticks();
    const gyre::detail::tick_count length = last_ - current_activity_.begin;
    if (length < min_function_length()) return;
    recorder_->push({.begin = current_activity_.begin,
                     .length = length,
                     .kind = current_activity_.kind,
                     .object = current_activity_.object,
                     .value = 0});
  }

  recorder* const recorder_;
  const event_kind function_kind_;
  const event_kind coroutine_kind_;
  function_sequence* outer_sequence_ = nullptr;
  activity_info outer_activity_;
  activity_info current_activity_;
  gyre::detail::tick_count first_ = 0;
  gyre::detail::tick_count last_ = 0;
  bool is_in_function_ = false;
};

/// The call of one function of the calling thread's innermost sequence, if there is one.
class recorded_call {
 public:
  /// `function`: the address of the function's code.
  explicit recorded_call(std::uint64_t function) noexcept : sequence_(function_sequence::here()) {
    if (sequence_ != nullptr && !sequence_->begin_function(function)) sequence_ = nullptr;
  }
  recorded_call& operator=(recorded_call&&) = delete;
  ~recorded_call() {
    if (sequence_ != nullptr) sequence_->end_function();
  }

 private:
  function_sequence* sequence_;
};

/// Calls function_sequence::name_coroutine() if the thread is in a sequence.
inline void note_resumed_coroutine(const void* frame) noexcept {
  if (function_sequence* const sequence = function_sequence::here())
    sequence->name_coroutine(frame);
}
/// Calls function_sequence::rename_coroutine() if the thread is in a sequence. Not inlined into
/// coroutines: see function_sequence::here().
[[gnu::noinline]] inline void note_inner_coroutine(const void* frame) noexcept {
  if (function_sequence* const sequence = function_sequence::here())
    sequence->rename_coroutine(frame);
}

}  // namespace gyre::trace::detail
