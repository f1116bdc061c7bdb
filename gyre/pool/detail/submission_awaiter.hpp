// SPDX-License-Identifier: Apache-2.0
// How a coroutine submits to a pool: it waits in line for a place, like a blocked thread, but without
// one.
#pragma once

#include <cassert>
#include <coroutine>
#include <optional>
#include <type_traits>
#include <utility>
#include <variant>

#include <gyre/pool/detail/places.hpp>
#include <gyre/pool/detail/pool_core.hpp>
#include <gyre/pool/pool_options.hpp>
#include <gyre/task/context.hpp>
#include <gyre/task/detail/cancelled.hpp>
#include <gyre/task/detail/resumption.hpp>
#include <gyre/task/executor.hpp>
#include <gyre/task/stop_token.hpp>

namespace gyre::detail {

/// A coroutine in the line for a place of a pool. Must not be destroyed between its wake-up and its
/// resumption.
class place_awaiter : resumption, place_waiter {
 public:
  explicit place_awaiter(pool_core& pool) noexcept : place_waiter(&wake), pool_(&pool) {}
  // Before it is awaited.
  place_awaiter(place_awaiter&& other) noexcept : place_awaiter(*other.pool_) {}
  place_awaiter& operator=(place_awaiter&&) = delete;
  ~place_awaiter() {
    if (context_ != nullptr) [[unlikely]]
      abandon();
  }

 protected:
  pool_core& pool() const noexcept { return *pool_; }

  /// False if there is nothing to wait for.
  bool wait(std::coroutine_handle<> awaiting, const task_context& context) noexcept {
    waiting = awaiting;
    context_ = &context;
    if (context.stop.stop_possible()) on_stop_.emplace(context.stop, cancel{this});
    pool_->reclaim();
    const places::entry became = pool_->line().enter(*this);
    if (became == places::entry::closed) pool_->refuse(admission::closed);
    return became == places::entry::waits || gives_way(context, awaiting);
  }
  /// After the wait: returns with a place, or throws. In the latter case the pool may be gone.
  void finish() {
    on_stop_.reset();
    const task_context* const context = std::exchange(context_, nullptr);
    if (has_left()) throw_cancelled(*context);
    if (granted() == 0) throw_refused(admission::closed);
  }

 private:
  struct cancel {
    place_awaiter* self;
    void operator()() const noexcept {
      if (self->pool_->line().leave(*self)) self->context_->where->post(*self);
    }
  };

  static void wake(place_waiter& served) noexcept {
    auto& self = static_cast<place_awaiter&>(served);
    if (self.granted() == 0) self.pool_->refuse(admission::closed);
    self.context_->where->post(self);
  }
  void abandon() noexcept {
    on_stop_.reset();
    [[maybe_unused]] const bool waited = pool_->line().leave(*this);
    assert(waited && "a coroutine was destroyed between its wake-up and its resumption");
  }

  pool_core* pool_;
  const task_context* context_ = nullptr;  // null unless it waits
  std::optional<inplace_stop_callback<cancel>> on_stop_;
};

/// Awaited, submits a callable, and gives a Result that was made before.
template <class F, class Result = void>
class [[nodiscard]] submission_awaiter : place_awaiter {
  using stored = std::conditional_t<std::is_void_v<Result>, std::monostate, Result>;

 public:
  template <class From>
  submission_awaiter(pool_core& pool, From&& callable, task_priority priority, stored result = {})
      : place_awaiter(pool),
        callable_(std::forward<From>(callable)),
        result_(std::move(result)),
        priority_(priority) {}

  static constexpr bool executor_affine = true;
  bool await_ready() {
    became_ = pool().submit_now(std::move(callable_), priority_);
    return became_.has_value();
  }
  template <class Promise>
  bool await_suspend(std::coroutine_handle<Promise> awaiting) noexcept {
    return wait(awaiting, context_of(awaiting));
  }
  Result await_resume() {
    if (!became_) {
      finish();
      became_ = pool().submit_placed(std::move(callable_), priority_);
    }
    throw_if_refused(*became_);
    if constexpr (!std::is_void_v<Result>) return std::move(result_);
  }

 private:
  F callable_;  // moved from once it is submitted
  [[no_unique_address]] stored result_;
  task_priority priority_;
  std::optional<admission> became_;
};

}  // namespace gyre::detail
