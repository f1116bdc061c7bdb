// SPDX-License-Identifier: Apache-2.0
// The awaiter of locks: waits, then owns.
#pragma once

#include <gyre/sync/detail/plain_wait.hpp>
#include <gyre/sync/detail/waiter.hpp>
#include <gyre/task/detail/cancelled.hpp>

#include <expected>
#include <mutex>
#include <system_error>

namespace gyre::detail {

/// As plain_wait, and gives a `Guard` of the place.
template <class Guard, class Place, class Waiter = waiter>
class [[nodiscard]] guard_wait : wait_operation<Place, Waiter> {
  using base = wait_operation<Place, Waiter>;

 public:
  template <class... Arguments>
  explicit guard_wait(Place& place, Arguments... arguments) noexcept : base(place, arguments...) {}

  static constexpr bool executor_affine = true;
  bool await_ready() noexcept { return this->place().admit(static_cast<Waiter&>(*this)); }
  using base::await_suspend;
  Guard await_resume() {
    if (const task_context* const context = this->finish()) throw_cancelled(*context);
    return Guard(this->place(), std::adopt_lock);
  }
  /// As await_resume(), but an error is a value.
  std::expected<Guard, std::error_code> result() {
    if (const task_context* const context = this->finish()) return cancelled_result(*context);
    return Guard(this->place(), std::adopt_lock);
  }
};

}  // namespace gyre::detail
