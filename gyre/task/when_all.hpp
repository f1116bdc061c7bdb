// SPDX-License-Identifier: Apache-2.0
// when_all: awaits several awaitables concurrently, and gives the results of all.
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

/// Runs the awaitables concurrently and gives a tuple of their results: std::monostate for void,
/// std::reference_wrapper for references. On one thread they start in order, each to a first wait.
///
/// Thread-safety: on an executor that forks, such as a thread_pool that steals, other threads may
/// start children. The coroutine resumes on its own executor.
/// Lifetime: the coroutine must not be destroyed while other threads run or may steal children.
/// Errors: when one fails the others are asked to stop; when all have ended the first error is
/// thrown. An empty task counts as one that fails with std::logic_error.
/// Complexity: allocates nothing, but makes the frame of the coroutine that awaits it some 300
/// bytes larger; no atomic operation for a child that ends at once on this thread.
template <awaitable... Awaitables>
  requires(sizeof...(Awaitables) > 0)
[[nodiscard]] auto when_all(Awaitables... awaitables) {
  return detail::when_all_awaiter<std::tuple<task<task_result_t<Awaitables>>...>>(
      as_task(std::move(awaitables))...);
}

/// As when_all(awaitables…), for a range; gives the results in its order, or nothing if they are
/// void: a std::array for a std::array, a std::vector for other ranges.
///
/// With GCC 12 a std::array is refused, since one that is made within the awaited expression would
/// be destroyed twice (docs/guide/coroutines.md, section 11): pass the awaitables themselves, or a
/// std::span of a variable.
template <awaitable_range Range>
[[nodiscard]] auto when_all(Range&& range) {
  return detail::when_all_awaiter<detail::tasks_of_t<Range>>(
      detail::tasks_of(std::forward<Range>(range)));
}

/// As when_all() for the awaitables `make(0)` to `make(results.size() - 1)`, each made when it
/// starts, whose results are moved to `results`: a loop that forks, without a vector.
///
///     std::array<std::uint64_t, 8> sums;
///     const auto sum_of_part = [&](std::size_t i) { return sum(parts[i]); };
///     co_await gyre::when_all_into(std::span(sums), sum_of_part);
///
/// Thread-safety: as when_all(); so on an executor that forks several threads may call `make` at
/// once.
/// Lifetime: as when_all(); `results`, and what `make` refers to, must outlive the await.
/// Errors: as when_all(). When `make` throws no more children start, the others are asked to stop,
/// and the exception is thrown when they have ended. After an error some results are unchanged.
/// Complexity: allocates nothing but the frames, of which one thread has one at a time unless a
/// child waits.
template <class T, std::size_t Extent, std::copy_constructible Make>
  requires std::is_nothrow_move_constructible_v<T> && std::is_nothrow_move_assignable_v<T> &&
           std::same_as<task_result_t<std::invoke_result_t<Make&, std::size_t>>, T>
[[nodiscard]] auto when_all_into(std::span<T, Extent> results, Make make) {
  return detail::when_all_into_awaiter<T, Make>(results, std::move(make));
}

/// As when_all(), but stops no child, and gives each one's result or exception: a tuple of
/// std::expected<T, std::exception_ptr>. T must not be a reference. After a stop of the coroutine
/// nothing is thrown; the exceptions given may be gyre::operation_cancelled: a loop must end then.
template <awaitable... Awaitables>
  requires(sizeof...(Awaitables) > 0)
[[nodiscard]] auto when_all_ready(Awaitables... awaitables) {
  return detail::when_all_ready_awaiter<std::tuple<task<task_result_t<Awaitables>>...>>(
      as_task(std::move(awaitables))...);
}

/// As when_all_ready(awaitables…), for a range; gives a std::array of std::expected<T,
/// std::exception_ptr> for a std::array, a std::vector for others, in its order.
template <awaitable_range Range>
[[nodiscard]] auto when_all_ready(Range&& range) {
  return detail::when_all_ready_awaiter<detail::tasks_of_t<Range>>(
      detail::tasks_of(std::forward<Range>(range)));
}

// Explains wrong arguments: see base/detail/misuse.hpp.
template <class... More>
std::suspend_never when_all(detail::misused_awaitable explained, More&&... more);
template <awaitable First, class... More>
std::suspend_never when_all(First first, detail::misused_awaitable explained, More&&... more);
template <awaitable First, awaitable Second, class... More>
std::suspend_never when_all(First first, Second second, detail::misused_awaitable explained,
                            More&&... more);
template <class... More>
std::suspend_never when_all_ready(detail::misused_awaitable explained, More&&... more);
template <awaitable First, class... More>
std::suspend_never when_all_ready(First first, detail::misused_awaitable explained, More&&... more);
template <awaitable First, awaitable Second, class... More>
std::suspend_never when_all_ready(First first, Second second, detail::misused_awaitable explained,
                                  More&&... more);

}  // namespace gyre
