// SPDX-License-Identifier: Apache-2.0
// when_all: awaits several awaitables concurrently, and returns the results of all.
//
//     auto [user, orders] = co_await gyre::when_all(load_user(id), load_orders(id));
#pragma once

#include <gyre/base/detail/awaited_value.hpp>
#include <gyre/task/as_task.hpp>
#include <gyre/task/detail/when_all_awaiters.hpp>
#include <gyre/task/task.hpp>

#include <concepts>
#include <coroutine>
#include <cstddef>
#include <ranges>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>

namespace gyre {

/// An rvalue range of awaitables.
template <class T>
concept awaitable_range =
    std::ranges::input_range<T> && !std::is_lvalue_reference_v<T> && !detail::unsafe_temporary<T> &&
    awaitable<std::remove_cvref_t<std::ranges::range_rvalue_reference_t<T>>>;

/// Runs the awaitables concurrently and returns a tuple of their results: std::monostate for void,
/// std::reference_wrapper for references. On one thread the awaitables start in order, each up to
/// its first wait.
///
/// Thread-safety: on an executor that forks, such as a thread_pool that steals, other threads may
/// start children. The coroutine resumes on its own executor.
/// Lifetime: the coroutine must not be destroyed while other threads run or may steal children.
/// Errors: when an awaitable fails, the others are asked to stop; when all have ended, the first
/// error is thrown. An empty task counts as an awaitable that fails with std::logic_error.
/// Complexity: no allocation, but the frame of the awaiting coroutine is some 300 bytes larger; no
/// atomic operation for a child that ends at once on this thread.
template <awaitable... Awaitables>
  requires(sizeof...(Awaitables) > 0)
[[nodiscard]] auto when_all(Awaitables... awaitables) {
  return detail::when_all_awaiter<std::tuple<task<task_result_t<Awaitables>>...>>(
      as_task(std::move(awaitables))...);
}

/// Runs the awaitables of a range as when_all(awaitables…) does, and returns the results in the
/// order of the range: a std::array for a std::array, a std::vector for other ranges, nothing if
/// the results are void.
///
/// With GCC 12 a std::array is rejected, since a std::array that is made within the awaited
/// expression would be destroyed twice (docs/guide/coroutines.md, section 11): pass the awaitables
/// themselves, or a std::span of a variable.
template <awaitable_range Range>
[[nodiscard]] auto when_all(Range&& range) {
  return detail::when_all_awaiter<detail::tasks_of_t<Range>>(
      detail::tasks_of(std::forward<Range>(range)));
}

/// Runs the awaitables `make(0)` to `make(results.size() - 1)` as when_all() does, each made when
/// it starts, and moves their results to `results`: a loop that forks, without a vector.
///
///     std::array<std::uint64_t, 8> sums;
///     const auto sum_of_part = [&](std::size_t i) { return sum(parts[i]); };
///     co_await gyre::when_all_into(std::span(sums), sum_of_part);
///
/// Thread-safety: as when_all(). On an executor that forks, several threads may call `make` at
/// once.
/// Lifetime: as when_all(); `results`, and the objects to which `make` refers, must outlive the
/// await.
/// Errors: as when_all(). When `make` throws, no more children start, the others are asked to stop,
/// and the exception is thrown when they have ended. After an error some results are unchanged.
/// Complexity: no allocation but the children's frames; a thread has only one of them at a time
/// unless a child waits.
template <class T, std::size_t Extent, std::copy_constructible Make>
  requires std::is_nothrow_move_constructible_v<T> && std::is_nothrow_move_assignable_v<T> &&
           std::same_as<task_result_t<std::invoke_result_t<Make&, std::size_t>>, T>
[[nodiscard]] auto when_all_into(std::span<T, Extent> results, Make make) {
  return detail::when_all_into_awaiter<T, Make>(results, std::move(make));
}

/// Runs the awaitables as when_all() does, but stops no child when another one fails, and returns
/// each result or exception: a tuple of std::expected<T, std::exception_ptr>. T must not be a
/// reference. After a stop of the coroutine nothing is thrown, but the returned exceptions may be
/// gyre::operation_cancelled: a loop must end then.
template <awaitable... Awaitables>
  requires(sizeof...(Awaitables) > 0)
[[nodiscard]] auto when_all_ready(Awaitables... awaitables) {
  return detail::when_all_ready_awaiter<std::tuple<task<task_result_t<Awaitables>>...>>(
      as_task(std::move(awaitables))...);
}

/// Runs the awaitables of a range as when_all_ready(awaitables…) does, and returns std::expected<T,
/// std::exception_ptr> in the order of the range: a std::array for a std::array, a std::vector for
/// other ranges.
template <awaitable_range Range>
[[nodiscard]] auto when_all_ready(Range&& range) {
  return detail::when_all_ready_awaiter<detail::tasks_of_t<Range>>(
      detail::tasks_of(std::forward<Range>(range)));
}

// This overload explains wrong arguments: see base/detail/misuse.hpp.
template <class... More>
std::suspend_never when_all(detail::misused_awaitable explained, More&&... awaitables);
template <awaitable First, class... More>
std::suspend_never when_all(First first, detail::misused_awaitable explained, More&&... awaitables);
template <awaitable First, awaitable Second, class... More>
std::suspend_never when_all(First first, Second second, detail::misused_awaitable explained,
                            More&&... awaitables);
template <class... More>
std::suspend_never when_all_ready(detail::misused_awaitable explained, More&&... awaitables);
template <awaitable First, class... More>
std::suspend_never when_all_ready(First first, detail::misused_awaitable explained,
                                  More&&... awaitables);
template <awaitable First, awaitable Second, class... More>
std::suspend_never when_all_ready(First first, Second second, detail::misused_awaitable explained,
                                  More&&... awaitables);

}  // namespace gyre
