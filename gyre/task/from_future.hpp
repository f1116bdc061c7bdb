// SPDX-License-Identifier: Apache-2.0
// from_future: awaits a std::future. To make a std::future of an awaitable use spawn_future() of
// spawn.hpp.
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

template <class Future>
class future_awaiter;

}  // namespace detail

/// Awaited, returns the value of `future` or throws its exception. If `future` is not ready, a
/// thread of `blocking_executor` waits for it, or runs its deferred function; the executor must be
/// a pool for blocking calls, not a loop. A stop does not end the wait.
///
/// Thread-safety: resumes on the coroutine's executor; a coroutine without an executor resumes on
/// the thread that waited.
/// Lifetime: `blocking_executor` must outlive the wait, during which the coroutine must not be
/// destroyed.
/// Errors: std::future_error (std::future_errc::no_state) if `future` is empty.
/// Complexity: no allocation.
template <class T>
[[nodiscard]] auto from_future(std::future<T> future, executor& blocking_executor) noexcept {
  return detail::future_awaiter<std::future<T>>(std::move(future), blocking_executor);
}
/// Awaits a std::shared_future, as from_future() does a std::future. Returns a reference, valid as
/// long as any copy of `future`.
template <class T>
[[nodiscard]] auto from_future(std::shared_future<T> future, executor& blocking_executor) noexcept {
  return detail::future_awaiter<std::shared_future<T>>(std::move(future), blocking_executor);
}

namespace detail {

/// An awaiter that waits in an operation on one executor, and resumes the coroutine on another.
template <class Future>
class future_awaiter : operation {
 public:
  future_awaiter(Future&& future, executor& blocking_executor) noexcept
      : operation(&wait), future_(std::move(future)), blocking_(&blocking_executor) {}
  // An awaiter moves only before it is awaited.
  future_awaiter(future_awaiter&& other) noexcept
      : future_awaiter(std::move(other.future_), *other.blocking_) {}

  static constexpr bool executor_affine = true;
  bool await_ready() const {
    if (!future_.valid()) throw std::future_error(std::future_errc::no_state);
    return future_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  }
  template <class Promise>
  void await_suspend(std::coroutine_handle<Promise> coroutine) noexcept {
    resumption_.waiting = coroutine;
    resume_executor_ = context_of(coroutine).where;
    set_holder(coroutine, *blocking_);
    blocking_->post(*this);
  }
  decltype(auto) await_resume() { return future_.get(); }

 private:
  static void wait(operation& self) {
    auto& awaiter = static_cast<future_awaiter&>(self);
    awaiter.future_.wait();
    awaiter.resume_executor_->post(awaiter.resumption_);
  }

  Future future_;
  resumption resumption_;
  executor* blocking_;
  executor* resume_executor_ = nullptr;
};

}  // namespace detail
}  // namespace gyre
