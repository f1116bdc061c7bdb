// SPDX-License-Identifier: Apache-2.0
// join_tasks: the tasks that a join runs, which are a vector, an array or a tuple of tasks, or
// made_tasks, which are made one by one.
#pragma once

#include <gyre/task/task.hpp>

#include <cstddef>
#include <ranges>
#include <span>
#include <tuple>

namespace gyre::detail {

/// The number of the tasks of a join.
template <std::ranges::sized_range Range>
constexpr std::size_t count_of(const Range& tasks) noexcept {
  return std::ranges::size(tasks);
}
template <class... Ts>
constexpr std::size_t count_of(const std::tuple<task<Ts>...>&) noexcept {
  return sizeof...(Ts);
}
/// Calls function(task) with the task of an index.
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

/// The tasks that results.size() calls of `make` give; each is made when it starts.
template <class T, class Make>
struct made_tasks {
  std::span<T> results;
  Make make;
};
template <class T, class Make>
std::size_t count_of(const made_tasks<T, Make>& tasks) noexcept {
  return tasks.results.size();
}

/// The part of a child beside its context: the task, if a call of `make` gives it.
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
