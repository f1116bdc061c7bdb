// SPDX-License-Identifier: Apache-2.0
// deadlock_guard: reports and ends a sync_wait() whose coroutines all wait while the program has no
// other thread that could wake one. Empty where backtraces are off.
#pragma once

#include <gyre/task/context.hpp>
#include <gyre/task/stop_token.hpp>

#include <optional>
#include <type_traits>
#include <utility>

namespace gyre::detail {

class blocking_executor;

/// The deadlock_guard of builds that record backtraces.
class reporting_deadlock_guard {
 public:
  /// Returns a stop token for the coroutines of `context`. The guard can request its stop; a stop
  /// of `outer` is passed on to it.
  inplace_stop_token follow(inplace_stop_token outer, task_context& context);
  /// Detaches the guard from the outer stop token if the current call of context.finished()
  /// announces the end of `context` (see task_context::announces_end). Returns whether it does.
  bool take_announcement(task_context& context) noexcept {
    if (!std::exchange(context.announces_end, false)) return false;
    unfollow();
    return true;
  }
  void unfollow() noexcept { on_stop_.reset(); }
  /// Reports the deadlock of the coroutines of `root`, ends those coroutines that can be ended, and
  /// throws std::system_error (std::errc::resource_deadlock_would_occur).
  [[noreturn]] void end(task_context& root, task_end& work, blocking_executor& executor,
                        const bool& is_done);
  /// Returns whether end() has left coroutines suspended for ever.
  bool has_suspended() const noexcept { return has_suspended_; }

 private:
  inplace_stop_source end_all_;
  // Passes on the stop of the outer token, until the sync_wait() ends.
  std::optional<inplace_stop_callback<request_stop_of>> on_stop_;
  bool has_suspended_ = false;
};

/// The deadlock_guard of builds without backtraces, where a deadlocked sync_wait() waits for ever.
class no_deadlock_guard {
 public:
  static inplace_stop_token follow(inplace_stop_token outer, task_context&) noexcept {
    return outer;
  }
  static constexpr bool take_announcement(task_context&) noexcept { return false; }
  static constexpr void unfollow() noexcept {}
  [[noreturn]] static void end(task_context&, task_end&, blocking_executor&, const bool&) noexcept {
    std::unreachable();
  }
  static constexpr bool has_suspended() noexcept { return false; }
};

using deadlock_guard =
    std::conditional_t<records_backtraces, reporting_deadlock_guard, no_deadlock_guard>;

}  // namespace gyre::detail
