// SPDX-License-Identifier: Apache-2.0
// first_success: a race of several awaitables that returns the result of the first one that
// succeeds.
//
//     std::string page = co_await gyre::first_success(fetch(mirror), fetch(other_mirror));
#pragma once

#include <gyre/task/as_task.hpp>
#include <gyre/task/detail/child_group.hpp>
#include <gyre/task/detail/success_race.hpp>
#include <gyre/task/detail/this_context.hpp>
#include <gyre/task/task.hpp>
#include <gyre/task/when_all.hpp>

#include <algorithm>
#include <array>
#include <concepts>
#include <coroutine>
#include <cstddef>
#include <exception>
#include <ranges>
#include <stdexcept>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace gyre {
namespace detail {

template <class T, class Tasks>
task<T> valid_first_success_of(Tasks tasks);

}  // namespace detail

/// Runs awaitables of one result type concurrently until one succeeds, and returns its result;
/// earlier failures are dropped. The awaitables start in order, each up to its first wait, until
/// one has succeeded. The others are then asked to stop, and awaited until they end; results that
/// they still return are destroyed. To get the results of all that completed use when_any(), which
/// also ends with the first failure; to start one awaitable after the other use hedge().
///
/// Thread-safety, Lifetime: as when_any().
/// Errors: if all awaitables fail, the error of the one that failed last. After a stop of the
/// coroutine an awaitable that succeeds still wins; otherwise throws gyre::operation_cancelled. For
/// an empty task throws std::logic_error at once.
/// Complexity: a coroutine frame, and one for each awaitable that is not a task.
template <awaitable First, awaitable... Others>
  requires(std::same_as<task_result_t<First>, task_result_t<Others>> && ...)
[[nodiscard]] auto first_success(First first, Others... rest) {
  using result = task_result_t<First>;
  return detail::valid_first_success_of<result>(std::array<task<result>, 1 + sizeof...(Others)>{
      as_task(std::move(first)), as_task(std::move(rest))...});
}

/// Does the same as first_success(first, others…) for a range, which must not be empty
/// (std::invalid_argument). Costs a frame and a vector of the children.
template <awaitable_range Range>
[[nodiscard]] auto first_success(Range&& range) {
  using element = std::remove_cvref_t<std::ranges::range_rvalue_reference_t<Range>>;
  auto tasks = detail::tasks_of(std::forward<Range>(range));
  if (tasks.empty())
    throw std::invalid_argument("gyre::first_success: needs at least one awaitable");
  return detail::valid_first_success_of<task_result_t<element>>(std::move(tasks));
}
// This overload explains wrong arguments: see base/detail/misuse.hpp.
template <class... More>
std::suspend_never first_success(detail::misused_awaitable explained, More&&... awaitables);
template <awaitable First, class... More>
std::suspend_never first_success(First first, detail::misused_awaitable explained,
                                 More&&... awaitables);

namespace detail {

template <class T>
std::vector<child_task<T>> children_of(child_group& group, std::vector<task<T>>& tasks) {
  std::vector<child_task<T>> children;
  children.reserve(tasks.size());
  for (task<T>& task : tasks) children.emplace_back(group, std::move(task));
  return children;
}
template <class T, std::size_t N>
std::array<child_task<T>, N> children_of(child_group& group, std::array<task<T>, N>& tasks) {
  return std::apply(
      [&group](auto&... children) {
        return std::array<child_task<T>, N>{child_task<T>(group, std::move(children))...};
      },
      tasks);
}

template <class T, class Tasks>
task<T> first_success_of(Tasks tasks) {
  child_group group;
  auto contenders = children_of(group, tasks);
  success_race<T> race(group);
  co_await group.adopt();
  for (child_task<T>& contender : contenders) {
    contender.start();
    while (group.has_ended()) {
      child_group::child& child = co_await group.wait_for_end();
      race.add(child);
    }
    if (race.is_won()) break;
  }
  while (group.running() > 0) {
    child_group::child& child = co_await group.wait_for_end();
    race.add(child);
  }
  std::exception_ptr error = race.take_error();
  co_await fail_with(error);
  co_return co_await take_result(race.winner());
}

template <class T, class Tasks>
task<T> valid_first_success_of(Tasks tasks) {
  const auto is_valid = [](const task<T>& candidate) { return candidate.valid(); };
  if (!std::ranges::all_of(tasks, is_valid)) throw_empty_task();
  return first_success_of<T>(std::move(tasks));
}

}  // namespace detail
}  // namespace gyre
