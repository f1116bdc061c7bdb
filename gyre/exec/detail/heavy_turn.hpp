// SPDX-License-Identifier: Apache-2.0
// heavy_turn: suspends a coroutine that is about to compute for long until its turn among the
// loop's heavy operations.
//
//     co_await gyre::detail::heavy_turn(loop);
#pragma once

#include <gyre/exec/detail/heavy_queue.hpp>
#include <gyre/exec/event_loop.hpp>
#include <gyre/task/context.hpp>
#include <gyre/task/detail/cancelled.hpp>
#include <gyre/task/detail/stoppable_wait.hpp>

#include <coroutine>
#include <system_error>

namespace gyre::detail {

/// The wait for a turn among the heavy operations of a loop, on whose thread it is awaited; see
/// event_loop::defer_heavy(). A stop ends the wait at once, with gyre::operation_cancelled. It
/// allocates nothing.
class heavy_turn final : stoppable_wait, heavy_operation {
 public:
  explicit heavy_turn(event_loop& loop) noexcept
      : heavy_operation([](heavy_operation& op) { static_cast<heavy_turn&>(op).complete_event(); }),
        loop_(loop) {}
  ~heavy_turn() {
    if (abandon()) [[unlikely]]
      cancel();
  }

  static constexpr bool executor_affine = true;
  static constexpr bool await_ready() noexcept { return false; }
  template <class Promise>
  bool await_suspend(std::coroutine_handle<Promise> coroutine) noexcept {
    const task_context& context = context_of(coroutine);
    set_context(context);
    is_stopped_ = context.stop.stop_requested();
    return (!is_stopped_ && begin(*context.where, coroutine, context)) ||
           gives_way(context, coroutine);
  }
  void await_resume() {
    end();
    if (is_stopped_) {
      throw_failure(std::make_error_code(std::errc::operation_canceled), this->context());
    }
  }

 private:
  bool start() noexcept override {
    loop_.defer_heavy(*this);
    return false;
  }
  bool cancel() noexcept override {
    is_stopped_ = true;
    const bool is_in_time = is_linked();
    unlink();
    return is_in_time;
  }

  event_loop& loop_;
  bool is_stopped_ = false;
};

}  // namespace gyre::detail
