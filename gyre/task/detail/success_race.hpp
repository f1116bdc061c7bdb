// SPDX-License-Identifier: Apache-2.0
// success_race: children of a group of which the first that succeeds wins.
#pragma once

#include <gyre/task/detail/cancelled.hpp>
#include <gyre/task/detail/child_group.hpp>
#include <gyre/task/task.hpp>

#include <exception>
#include <utility>

namespace gyre::detail {

/// The race of the children of a group.
///
/// Thread-safety: belongs to the parent of the group.
template <class T>
class success_race {
 public:
  explicit success_race(child_group& group) noexcept : group_(group) {}

  /// Adds a child_task<T> that has ended. The first one with a result makes the others stop.
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
  /// Adds the error of a child that failed, or could not be started.
  void fail(std::exception_ptr error) noexcept {
    // The other children fail because the winner has stopped them.
    const bool is_stopped = error_ == cancellation() && group_.stop_requested();
    if (!is_stopped) error_ = std::move(error);
  }

  bool is_won() const noexcept { return winner_ != nullptr; }
  /// The error for the parent, which came last, if no child has won; else null. Called when all
  /// children have ended.
  std::exception_ptr take_error() noexcept {
    return is_won() ? nullptr : error_for(group_.parent(), std::move(error_));
  }
  /// The task that has won.
  task<T>& winner() noexcept { return winner_->work; }

 private:
  child_group& group_;
  child_task<T>* winner_ = nullptr;
  std::exception_ptr error_;
};

}  // namespace gyre::detail
