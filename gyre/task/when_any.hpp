// SPDX-License-Identifier: Apache-2.0
// Several awaitables at once, and on with the first that ends.
//
//     auto first = co_await gyre::when_any(receive(), gyre::sleep_for(1s));
//     if (first.index == 0) handle(std::get<0>(first.value));
#pragma once

#include <gyre/task/as_task.hpp>
#include <gyre/task/detail/child_group.hpp>
#include <gyre/task/task.hpp>
#include <gyre/task/when_all.hpp>

#include <concepts>
#include <cstddef>
#include <optional>
#include <stdexcept>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace gyre {

/// Which of several awaitables ended first, and what it gave: std::monostate for void, a
/// std::reference_wrapper for a reference. `value.index()` is `index`.
template <class... Ts>
struct when_any_result {
  std::size_t index;
  std::variant<Ts...> value;
};

/// The same for a range.
template <class T>
struct when_any_element {
  std::size_t index;
  T value;
};

namespace detail {

template <class... Ts>
task<when_any_result<element_t<Ts>...>> when_any_of(task<Ts>... given) {
  using result = when_any_result<element_t<Ts>...>;
  child_group group;
  std::tuple<child_task<Ts>...> racers(child_task<Ts>(group, std::move(given))...);
  co_await group.adopt();
  std::apply(
      [&group](auto&... each) {
        // Until one has ended.
        static_cast<void>(((group.start(each.context, each.work), !group.has_ended()) && ...));
      },
      racers);
  const child_group::child& winner = co_await group.ended();
  group.request_stop();
  while (group.running() > 0) co_await group.ended();

  co_return [&]<std::size_t... Index>(std::index_sequence<Index...>) {
    std::optional<result> first;
    const auto take_if_first = [&]<std::size_t I>(std::integral_constant<std::size_t, I>) {
      auto& racer = std::get<I>(racers);
      if (&racer.context != &winner) return;
      using value = decltype(result::value);
      first.emplace(I, value(std::in_place_index<I>, take_element(racer.work)));
    };
    (take_if_first(std::integral_constant<std::size_t, Index>()), ...);
    return std::move(*first);
  }(std::index_sequence_for<Ts...>());
}

template <class T>
task<when_any_element<element_t<T>>> when_any_tasks(std::vector<task<T>> given) {
  child_group group;
  std::vector<child_task<T>> racers;
  racers.reserve(given.size());
  for (task<T>& each : given) racers.emplace_back(group, std::move(each));
  co_await group.adopt();
  for (child_task<T>& each : racers) {
    group.start(each.context, each.work);
    if (group.has_ended()) break;
  }
  const child_group::child& winner = co_await group.ended();
  group.request_stop();
  while (group.running() > 0) co_await group.ended();

  std::size_t index = 0;
  while (&racers[index].context != &winner) ++index;
  co_return when_any_element<element_t<T>>{index, take_element(racers[index].work)};
}

/// Before any of them runs.
template <class T>
void require_valid(const task<T>& given) {
  if (!given.valid()) throw_empty_task();
}

template <class... Ts>
auto when_any_valid(task<Ts>&&... given) {
  (require_valid(given), ...);
  return when_any_of(std::move(given)...);
}

}  // namespace detail

/// Runs the awaitables beside each other, and gives the when_any_result of the one that ended
/// first, or throws what it threw. Takes them by value.
///
/// They start in the order given, each running to its first wait; once one has ended, those after
/// it do not start at all. The others are then asked to stop and awaited to their ends; their
/// results are dropped. So nothing is left running, and one that does not heed the request is
/// waited for. A stop that is requested of the coroutine reaches all of them.
///
/// The coroutine goes on, on its own executor. It may be destroyed while it waits, on that
/// executor, if no child is on another one (asserted). Throws std::logic_error at once if one is an
/// empty task. Costs a frame, and one for each awaitable that is not a task.
template <awaitable... Awaitables>
  requires(sizeof...(Awaitables) > 0)
[[nodiscard]] auto when_any(Awaitables... awaitables) {
  return detail::when_any_valid(as_task(std::move(awaitables))...);
}

/// The same for a range, which must not be empty (std::invalid_argument); gives a when_any_element.
/// Costs a frame and a vector of the children.
template <awaitable_range Range>
[[nodiscard]] auto when_any(Range&& range) {
  auto tasks = detail::tasks_of(std::forward<Range>(range));
  if (tasks.empty())
    throw std::invalid_argument("gyre::when_any: none of no awaitables ends first");
  for (const auto& each : tasks) detail::require_valid(each);
  return detail::when_any_tasks(std::move(tasks));
}

}  // namespace gyre
