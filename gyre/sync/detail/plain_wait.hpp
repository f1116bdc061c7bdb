// SPDX-License-Identifier: Apache-2.0
// The awaiter of waits that give nothing but their end.
#pragma once

#include <gyre/sync/detail/waiter.hpp>
#include <gyre/task/detail/cancelled.hpp>

#include <expected>
#include <system_error>

namespace gyre::detail {

/// The result for as_expected() of a wait that was cancelled in `context`.
inline std::unexpected<std::error_code> cancelled_result(const task_context& context) {
  return std::unexpected(
      failure_value(std::make_error_code(std::errc::operation_canceled), &context));
}

/// Waits in a `Place`, see wait_operation, which also has
///
///     bool admit(Waiter&) noexcept;  // Whether it need not wait, at a glance.
template <class Place, class Waiter = waiter>
class [[nodiscard]] plain_wait : wait_operation<Place, Waiter> {
  using base = wait_operation<Place, Waiter>;

 public:
  template <class... Arguments>
  explicit plain_wait(Place& place, Arguments... arguments) noexcept : base(place, arguments...) {}

  static constexpr bool executor_affine = true;
  bool await_ready() noexcept { return this->place().admit(static_cast<Waiter&>(*this)); }
  using base::await_suspend;
  void await_resume() {
    if (const task_context* const context = this->finish()) throw_cancelled(*context);
  }
  /// As await_resume(), but an error is a value.
  std::expected<void, std::error_code> result() {
    if (const task_context* const context = this->finish()) return cancelled_result(*context);
    return {};
  }
};

}  // namespace gyre::detail
