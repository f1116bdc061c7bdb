// SPDX-License-Identifier: Apache-2.0
// Awaiting a std::future. The other way round is spawn_future() of spawn.hpp.
//
//     auto answer = co_await gyre::from_future(std::move(future), blocking_pool);
#pragma once

#include <gyre/base/operation.hpp>
#include <gyre/task/context.hpp>
#include <gyre/task/detail/resumption.hpp>
#include <gyre/task/executor.hpp>

#include <chrono>
#include <coroutine>
#include <future>
#include <utility>

namespace gyre {

namespace detail {

/// Waits in an operation on one executor, and resumes the coroutine on another.
template <class Future>
class future_awaiter : operation {
 public:
  future_awaiter(Future&& future, executor& waits_here) noexcept
      : operation(&wait), future_(std::move(future)), waits_here_(&waits_here) {}
  // Before it is awaited.
  future_awaiter(future_awaiter&& other) noexcept
      : future_awaiter(std::move(other.future_), *other.waits_here_) {}

  static constexpr bool executor_affine = true;
  bool await_ready() const {
    if (!future_.valid()) throw std::future_error(std::future_errc::no_state);
    return future_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  }
  template <class Promise>
  void await_suspend(std::coroutine_handle<Promise> awaiting) noexcept {
    back_.waiting = awaiting;
    goes_on_ = context_of(awaiting).where;
    set_holder(awaiting, *waits_here_);
    waits_here_->post(*this);
  }
  decltype(auto) await_resume() { return future_.get(); }

 private:
  static void wait(operation& self) {
    auto& awaiter = static_cast<future_awaiter&>(self);
    awaiter.future_.wait();
    awaiter.goes_on_->post(awaiter.back_);
  }

  Future future_;
  resumption back_;
  executor* waits_here_;
  executor* goes_on_ = nullptr;
};

}  // namespace detail

/// Awaited, gives the value of `future` or throws its exception. If it is not ready, a thread of
/// `waits_here` blocks until it is (and runs it, if it is deferred): name a pool for blocking
/// calls, not a loop. The coroutine then goes on on its own executor; with the inline executor,
/// which is nowhere, that is the thread which waited.
///
/// Waiting for a std::future cannot be cancelled, and the coroutine must not be destroyed
/// meanwhile. `waits_here` must outlive the wait. Throws std::future_error
/// (std::future_errc::no_state) if `future` is empty. Allocates nothing.
template <class T>
[[nodiscard]] auto from_future(std::future<T> future, executor& waits_here) noexcept {
  return detail::future_awaiter<std::future<T>>(std::move(future), waits_here);
}
/// The same with a copy of a std::shared_future; gives a reference, which lives as long as any
/// copy.
template <class T>
[[nodiscard]] auto from_future(std::shared_future<T> future, executor& waits_here) noexcept {
  return detail::future_awaiter<std::shared_future<T>>(std::move(future), waits_here);
}

}  // namespace gyre
