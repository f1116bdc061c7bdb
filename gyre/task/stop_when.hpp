// SPDX-License-Identifier: Apache-2.0
// stop_when: awaits an operation that a second stop token can stop, too.
//
//     co_await gyre::stop_when(serve(), shutdown.get_token());
#pragma once

#include <gyre/task/as_task.hpp>
#include <gyre/task/detail/this_context.hpp>
#include <gyre/task/stop_token.hpp>
#include <gyre/task/task.hpp>

#include <coroutine>
#include <exception>
#include <optional>
#include <utility>

namespace gyre {
namespace detail {

/// Combines two tokens into one that stops when either of them does. Costs nothing if one of them
/// can never stop.
class either_stop {
 public:
  either_stop(inplace_stop_token first, inplace_stop_token second) noexcept
      : token_(first.stop_possible() ? first : second) {
    if (!first.stop_possible() || !second.stop_possible() || first == second) return;
    token_ = source_.emplace(first).get_token();
    link_.emplace(second, request_stop_of{&*source_});
  }

  inplace_stop_token get_token() const noexcept { return token_; }

 private:
  std::optional<linked_stop_source> source_;
  std::optional<inplace_stop_callback<request_stop_of>> link_;
  inplace_stop_token token_;
};

}  // namespace detail

/// Awaits `awaitable`, and asks it to stop when a stop of `token` or of the awaiting coroutine is
/// requested. A value that `awaitable` returns in spite of the stop is returned.
///
/// Lifetime: the source of `token` must outlive the wait, so `awaitable` must not be its last
/// owner. The coroutine may be destroyed while it waits if `awaitable` allows that.
/// Errors: those of `awaitable`; std::system_error (std::errc::operation_canceled) if only `token`
/// ended it; throws gyre::operation_cancelled if the coroutine was asked to stop.
/// Complexity: a coroutine frame, and a callback for each token that can stop.
template <awaitable Awaitable>
task<task_result_t<Awaitable>> stop_when(Awaitable awaitable, inplace_stop_token token) {
  task_context& context = co_await detail::this_context();
  const detail::either_stop combined_stop(context.stop, token);
  std::exception_ptr error;
  try {
    const detail::stopped_by token_scope(context, combined_stop.get_token());
    // The local variable is destroyed before the stop source; a parameter would outlive it.
    Awaitable work(std::move(awaitable));
    co_return co_await std::move(work);
  } catch (const operation_cancelled&) {
    error = detail::cancellation_in(context);
  }
  co_await detail::fail_with(error);
  std::unreachable();
}
// This overload explains wrong arguments: see base/detail/misuse.hpp.
std::suspend_never stop_when(detail::misused_awaitable explained, inplace_stop_token token);

}  // namespace gyre
