// SPDX-License-Identifier: Apache-2.0
// success_race: children of a group of which the first that succeeds wins.
#pragma once

#include <gyre/task/detail/cancelled.hpp>
#include <gyre/task/detail/child_group.hpp>
#include <gyre/task/task.hpp>

#include <exception>
#include <utility>

namespace gyre::detail {

/// Thread-safety: belongs to the parent of the group.
template <class T>
class success_race {
 public:
  explicit success_race(child_group& group) noexcept : group_(group) {}

  /// For each child_task<T> that has ended. The first one with a result makes the others stop.
  void add(child_group::child& ended) noexcept {
    if (winner_ != nullptr) return;
    auto& contender = static_cast<child_task<T>&>(ended);
    if (std::exception_ptr error = task_access::state(contender.work).take_error()) {
      fail(std::move(error));
    } else {
      winner_ = &contender;
      group_.request_stop();
    }
  }
  /// For a child that could not be started.
  void fail(std::exception_ptr error) noexcept {
    // The others fail because of the same stop.
    const bool is_stopped = error_ == cancellation() && group_.stop_requested();
    if (!is_stopped) error_ = std::move(error);
  }

  bool is_won() const noexcept { return winner_ != nullptr; }
  /// When all have ended: the error that came last if none has won, for the parent; else null.
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
