// SPDX-License-Identifier: Apache-2.0
// success_race: a race between the children of a group, which the first child that succeeds wins.
#pragma once

#include <gyre/task/detail/cancelled.hpp>
#include <gyre/task/detail/child_group.hpp>
#include <gyre/task/task.hpp>

#include <exception>
#include <utility>

namespace gyre::detail {

/// A race between the children of a child_group.
///
/// Thread-safety: used only by the parent of the group.
template <class T>
class success_race {
 public:
  explicit success_race(child_group& group) noexcept : group_(group) {}

  /// Adds a child_task<T> that has ended. The first child with a result wins, and the others are
  /// asked to stop.
  void add(child_group::child& child) noexcept {
    if (winner_ != nullptr) return;
    auto& contender = static_cast<child_task<T>&>(child);
    if (std::exception_ptr error = task_access::state(contender.work).take_error()) {
      fail(std::move(error));
    } else {
      winner_ = &contender;
      group_.request_stop();
    }
  }
  /// Adds the error of a child that failed or could not be started.
  void fail(std::exception_ptr error) noexcept {
    // A stored cancellation stays the error once the group was asked to stop: errors that come
    // later are only consequences of the stop.
    const bool is_stopped = error_ == cancellation() && group_.stop_requested();
    if (!is_stopped) error_ = std::move(error);
  }

  bool is_won() const noexcept { return winner_ != nullptr; }
  /// Returns the last error (see fail()), for the parent, if no child has won; else null. Called
  /// when all children have ended.
  std::exception_ptr take_error() noexcept {
    return is_won() ? nullptr : translate_child_error(group_.parent(), std::move(error_));
  }
  /// Returns the task that has won. Requires is_won().
  task<T>& winner() noexcept { return winner_->work; }

 private:
  child_group& group_;
  child_task<T>* winner_ = nullptr;
  std::exception_ptr error_;
};

}  // namespace gyre::detail
