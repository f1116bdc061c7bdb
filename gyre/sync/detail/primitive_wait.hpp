// SPDX-License-Identifier: Apache-2.0
// primitive_wait: the awaiter of everything in sync/ that waits in a list of waiters.
#pragma once

#include <gyre/sync/detail/lock_wait_record.hpp>
#include <gyre/sync/detail/waiter.hpp>
#include <gyre/task/context.hpp>
#include <gyre/task/detail/cancelled.hpp>
#include <gyre/task/detail/stop_callback_slot.hpp>
#include <gyre/task/stop_token.hpp>

#include <cassert>
#include <coroutine>
#include <expected>
#include <system_error>
#include <type_traits>

namespace gyre::detail {

/// Returns the result for as_expected() of a wait that was cancelled in `context`.
inline std::unexpected<std::error_code> cancelled_result(const task_context& context) {
  return std::unexpected(
      failure_value(std::make_error_code(std::errc::operation_canceled), &context));
}

/// Waits in a `Primitive`, which outlives the wait and has
///
///     bool admit(Waiter&) noexcept;     // Without the lock: true if the waiter need not wait.
///     bool enlist(Waiter&) noexcept;    // With the lock: lets the waiter join() a list; the waiter
///                                       // may be gone after the unlocking. False if the waiter
///                                       // was completed instead, or is_cancelled().
///     bool withdraw(Waiter&) noexcept;  // With the lock: the result of Waiter::withdraw(). If
///                                       // true, also completes a waiter that had to wait only
///                                       // because of this one.
///     Result grant<Result>(const Waiter&) noexcept;  // The result, unless that is void.
///
/// Lifetime: may be destroyed while the coroutine waits, on a thread of the coroutine's executor.
/// Must not be destroyed between the wake-up and the resumption, when the executor's queue refers
/// to it.
template <class Result, class Primitive, class Waiter = waiter>
class [[nodiscard]] primitive_wait : Waiter,
                                     stop_callback_slot<primitive_wait<Result, Primitive, Waiter>> {
  using stop_slot = stop_callback_slot<primitive_wait>;

 public:
  template <class... Arguments>
  explicit primitive_wait(Primitive& primitive, Arguments... arguments) noexcept
      : Waiter(arguments...), primitive_(&primitive) {}
  // An awaiter is copied only before it is awaited.
  primitive_wait(const primitive_wait& other) noexcept
      : Waiter(other), stop_slot(), primitive_(other.primitive_) {}
  ~primitive_wait() {
    if (this->context() != nullptr) [[unlikely]]
      abandon();
  }

  static constexpr bool executor_affine = true;
  bool await_ready() noexcept { return primitive_->admit(static_cast<Waiter&>(*this)); }
  template <class Promise>
  bool await_suspend(std::coroutine_handle<Promise> coroutine) noexcept {
    const task_context& context = context_of(coroutine);
    const inplace_stop_token stop = context.stop;
    if constexpr (records_waits) wait_.begin(coroutine.address());
    this->begin_wait(coroutine, context, stop.stop_possible());
    if (stop.stop_possible()) this->add_stop_callback(stop);
    return primitive_->enlist(*this) || gives_way(context, coroutine);
  }
  Result await_resume() {
    if (const task_context* const context = finish()) throw_cancelled(*context);
    if constexpr (!std::is_void_v<Result>) return primitive_->template grant<Result>(*this);
  }
  /// Like await_resume(), but returns the error instead of throwing it.
  std::expected<Result, std::error_code> result() {
    if (const task_context* const context = finish()) return cancelled_result(*context);
    if constexpr (std::is_void_v<Result>) {
      return {};
    } else {
      return primitive_->template grant<Result>(*this);
    }
  }

 private:
  friend stop_slot;

  void stop() noexcept {
    if (primitive_->withdraw(*this)) this->wake();
  }

  // Ends the wait. Returns its context if the wait was cancelled; null if it was completed or never
  // began.
  const task_context* finish() noexcept {
    const task_context* const context = this->context();
    if (context == nullptr) return nullptr;
    if constexpr (records_waits) wait_.end();
    if (this->has_callback()) this->remove_stop_callback(context->stop);
    this->end_wait();
    return this->is_cancelled() ? context : nullptr;
  }

  void abandon() noexcept {
    if (this->has_callback()) this->remove_stop_callback(this->context()->stop);
    [[maybe_unused]] const bool has_waited = primitive_->withdraw(*this);
    assert(has_waited && "a coroutine was destroyed between its wake-up and its resumption");
  }

  // Whether waits are recorded. In primitives that wake many coroutines a second, such as channels,
  // recording would be a tenth of the cost.
  static constexpr bool records_waits = requires { Primitive::records_waits; };
  struct nothing {};

  Primitive* primitive_;
  [[no_unique_address]] std::conditional_t<records_waits, lock_wait_record, nothing> wait_;
};

}  // namespace gyre::detail
