// SPDX-License-Identifier: Apache-2.0
// join_tasks: access to the tasks of a join, which are a vector, an array or a tuple of tasks, or
// made_tasks, whose tasks are made one by one.
#pragma once

#include <gyre/task/task.hpp>

#include <cstddef>
#include <ranges>
#include <span>
#include <tuple>

namespace gyre::detail {

/// Returns the number of tasks of a join.
template <std::ranges::sized_range Range>
constexpr std::size_t count_of(const Range& tasks) noexcept {
  return std::ranges::size(tasks);
}
template <class... Ts>
constexpr std::size_t count_of(const std::tuple<task<Ts>...>&) noexcept {
  return sizeof...(Ts);
}
/// Calls `function` with the task at `index`.
template <std::ranges::random_access_range Range, class F>
auto visit_task(Range& tasks, std::size_t index, F&& function) {
  return function(tasks[index]);
}
template <std::size_t Begin, std::size_t End, class... Ts, class F>
auto visit_element(std::tuple<task<Ts>...>& tasks, std::size_t index, F& function) {
  if constexpr (End - Begin == 1) {
    return function(std::get<Begin>(tasks));
  } else {
    constexpr std::size_t middle = Begin + (End - Begin) / 2;
    return index < middle ? visit_element<Begin, middle>(tasks, index, function)
                          : visit_element<middle, End>(tasks, index, function);
  }
}
template <class... Ts, class F>
auto visit_task(std::tuple<task<Ts>...>& tasks, std::size_t index, F&& function) {
  return visit_element<0, sizeof...(Ts)>(tasks, index, function);
}

/// The tasks that results.size() calls of `make` return. Each task is made when it is started.
template <class T, class Make>
struct made_tasks {
  std::span<T> results;
  Make make;
};
template <class T, class Make>
std::size_t count_of(const made_tasks<T, Make>& tasks) noexcept {
  return tasks.results.size();
}

/// The data of a child besides its context: for made_tasks, the child's task and the place of its
/// result.
template <class Tasks>
struct child_slot {};
template <class T, class Make>
struct child_slot<made_tasks<T, Make>> {
  task<T> work;
  T* result = nullptr;
};
template <class Tasks>
inline constexpr bool makes_tasks = false;
template <class T, class Make>
inline constexpr bool makes_tasks<made_tasks<T, Make>> = true;

}  // namespace gyre::detail
