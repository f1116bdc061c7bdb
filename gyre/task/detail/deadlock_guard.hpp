// SPDX-License-Identifier: Apache-2.0
// deadlock_guard: ends a sync_wait() all of whose coroutines wait while the program has no other
// thread to wake one. Empty where backtraces are off.
#pragma once

#include <gyre/task/context.hpp>
#include <gyre/task/stop_token.hpp>

#include <optional>
#include <type_traits>
#include <utility>

namespace gyre::detail {

class blocking_executor;

/// The guard of builds that record backtraces.
class reporting_deadlock_guard {
 public:
  /// The token of the coroutines of `context`, which the guard can stop; it follows `outer`.
  inplace_stop_token follow(inplace_stop_token outer, task_context& context);
  /// Stops following, before `context` ends. Whether context.finished() was called to announce
  /// that end.
  bool take_announcement(task_context& context) noexcept {
    if (!std::exchange(context.announces_end, false)) return false;
    unfollow();
    return true;
  }
  void unfollow() noexcept { on_stop_.reset(); }
  /// Reports the deadlock of the coroutines of `root`, ends them as far as it may, and throws
  /// std::system_error (std::errc::resource_deadlock_would_occur).
  [[noreturn]] void end(task_context& root, task_end& work, blocking_executor& executor,
                        const bool& done);
  /// Whether end() has left coroutines suspended for ever.
  bool has_suspended() const noexcept { return has_suspended_; }

 private:
  inplace_stop_source end_all_;
  std::optional<inplace_stop_callback<request_stop_of>> on_stop_;  // until the sync_wait() ends
  bool has_suspended_ = false;
};

/// The guard of other builds, where a deadlocked sync_wait() waits for ever.
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
