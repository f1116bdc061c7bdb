// SPDX-License-Identifier: Apache-2.0
// Several awaitables at once, and on with all their results.
//
//     auto [user, orders] = co_await gyre::when_all(load_user(id), load_orders(id));
#pragma once

#include <gyre/task/as_task.hpp>
#include <gyre/task/detail/fork_join.hpp>
#include <gyre/task/detail/this_context.hpp>
#include <gyre/task/task.hpp>

#include <concepts>
#include <cstddef>
#include <exception>
#include <expected>
#include <functional>
#include <iterator>
#include <ranges>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace gyre {

namespace detail {

/// A result as an element of a tuple or vector.
template <class T>
struct element {
  using type = T;
};
template <class T>
struct element<T&> {
  using type = std::reference_wrapper<T>;
};
template <>
struct element<void> {
  using type = std::monostate;
};
template <class T>
using element_t = typename element<T>::type;

template <class T>
element_t<T> take_element(task<T>& finished) {
  if constexpr (std::is_void_v<T>) {
    task_access::state(finished).take_result();
    return {};
  } else {
    return task_access::state(finished).take_result();
  }
}

template <class T>
std::expected<T, std::exception_ptr> take_outcome(task<T>& finished, bool& cancelled) {
  if (std::exception_ptr error = task_access::state(finished).take_error()) {
    cancelled = cancelled || error == cancellation();
    return std::unexpected(std::move(error));
  }
  try {
    if constexpr (std::is_void_v<T>) {
      task_access::state(finished).take_result();
      return {};
    } else {
      return task_access::state(finished).take_result();
    }
  } catch (...) {
    return std::unexpected(std::current_exception());
  }
}
/// Counts for the coroutine that its children were cancelled, if it was asked to stop: it is told
/// so by values, which it may overlook for ever.
inline void count_cancelled_children(const task_context& parent) {
  if (parent.stop.stop_requested()) count_cancellation(parent);
}

// In this order: the join holds the contexts that tasks refer to until they are gone.
template <class T>
struct forked_range {
  fork_join join;
  std::vector<task<T>> tasks;

  forked_range(fork_join::on_error policy, std::vector<task<T>>&& given)
      : join(policy), tasks(std::move(given)) {}
};
template <class... Ts>
struct forked_tuple {
  fork_join join;
  std::tuple<task<Ts>...> tasks;

  forked_tuple(fork_join::on_error policy, task<Ts>&&... given)
      : join(policy), tasks(std::move(given)...) {}
};

/// The tasks from `first` on as a join_awaiter asks for them.
template <class T>
auto in_turn(std::vector<task<T>>& tasks) noexcept {
  return [&tasks](std::size_t first, auto&& start) {
    for (std::size_t i = first; i < tasks.size(); ++i) {
      if (!start(task_access::state(tasks[i]))) return;
    }
  };
}
template <class... Ts>
auto in_turn(std::tuple<task<Ts>...>& tasks) noexcept {
  return [&tasks](std::size_t first, auto&& start) {
    std::size_t i = 0;
    const auto go_on = [&](auto& one) { return i++ < first || start(task_access::state(one)); };
    std::apply([&](auto&... one) { static_cast<void>((go_on(one) && ...)); }, tasks);
  };
}

/// Takes the error of `finished` if that is the child that failed first.
template <class T>
void take_first_error(task<T>& finished, const fork_join& join, std::exception_ptr& error) {
  task_state<T>& state = task_access::state(finished);
  if (&state == join.failed()) error = error_for(join.parent_context(), state.take_error());
}

template <class T>
task<std::conditional_t<std::is_void_v<T>, void, std::vector<element_t<T>>>> when_all_tasks(
    std::vector<task<T>> given) {
  forked_range<T> fork(fork_join::on_error::stop_others, std::move(given));
  auto each = in_turn(fork.tasks);
  join_awaiter joined(fork.join, fork.tasks.size(), each);
  co_await joined;
  if (fork.join.failed() != nullptr) [[unlikely]] {
    std::exception_ptr error;
    for (task<T>& one : fork.tasks) take_first_error(one, fork.join, error);
    co_await fail_with(error);
  }
  if constexpr (!std::is_void_v<T>) {
    std::vector<element_t<T>> results;
    results.reserve(fork.tasks.size());
    for (task<T>& one : fork.tasks) results.push_back(take_element(one));
    co_return results;
  }
}

template <class T>
task<std::vector<std::expected<T, std::exception_ptr>>> when_all_ready_tasks(
    std::vector<task<T>> given) {
  forked_range<T> fork(fork_join::on_error::go_on, std::move(given));
  auto each = in_turn(fork.tasks);
  join_awaiter joined(fork.join, fork.tasks.size(), each);
  co_await joined;
  std::vector<std::expected<T, std::exception_ptr>> outcomes;
  outcomes.reserve(fork.tasks.size());
  bool cancelled = false;
  for (task<T>& one : fork.tasks) outcomes.push_back(take_outcome(one, cancelled));
  if (cancelled) count_cancelled_children(fork.join.parent_context());
  co_return outcomes;
}

template <class... Ts>
task<std::tuple<element_t<Ts>...>> when_all_of(task<Ts>... given) {
  forked_tuple<Ts...> fork(fork_join::on_error::stop_others, std::move(given)...);
  auto each = in_turn(fork.tasks);
  join_awaiter joined(fork.join, sizeof...(Ts), each);
  co_await joined;
  if (fork.join.failed() != nullptr) [[unlikely]] {
    std::exception_ptr error;
    std::apply([&](auto&... one) { (take_first_error(one, fork.join, error), ...); }, fork.tasks);
    co_await fail_with(error);
  }
  co_return std::apply(
      [](auto&... one) { return std::tuple<element_t<Ts>...>(take_element(one)...); }, fork.tasks);
}

template <class... Ts>
task<std::tuple<std::expected<Ts, std::exception_ptr>...>> when_all_ready_of(task<Ts>... given) {
  forked_tuple<Ts...> fork(fork_join::on_error::go_on, std::move(given)...);
  auto each = in_turn(fork.tasks);
  join_awaiter joined(fork.join, sizeof...(Ts), each);
  co_await joined;
  bool cancelled = false;
  auto outcomes = std::apply(
      [&](auto&... one) {
        return std::tuple<std::expected<Ts, std::exception_ptr>...>(
            take_outcome(one, cancelled)...);
      },
      fork.tasks);
  if (cancelled) count_cancelled_children(fork.join.parent_context());
  co_return outcomes;
}

/// The tasks of a range that is handed over.
template <class Range>
auto tasks_of(Range&& range) {
  using reference = std::ranges::range_rvalue_reference_t<Range>;
  using result = task_result_t<std::remove_cvref_t<reference>>;
  if constexpr (std::same_as<std::remove_cvref_t<Range>, std::vector<task<result>>>) {
    return std::vector<task<result>>(std::forward<Range>(range));
  } else {
    std::vector<task<result>> tasks;
    if constexpr (std::ranges::sized_range<Range>) tasks.reserve(std::ranges::size(range));
    for (auto it = std::ranges::begin(range); it != std::ranges::end(range); ++it) {
      tasks.push_back(as_task(std::ranges::iter_move(it)));
    }
    return tasks;
  }
}

}  // namespace detail

/// Ranges that a combinator takes: handed over as an rvalue, of awaitables.
template <class T>
concept awaitable_range = std::ranges::input_range<T> && !std::is_lvalue_reference_v<T> &&
                          awaitable<std::remove_cvref_t<std::ranges::range_rvalue_reference_t<T>>>;

/// Runs the awaitables beside each other, each from its start to its first wait in the order given,
/// and gives a tuple of their results: std::monostate for void, std::reference_wrapper for
/// references. Takes them by value.
///
/// On an executor that forks, such as a thread_pool that steals, this thread goes into one child
/// after the other while the children behind it are on offer to idle threads, which may then run
/// beside it in the literal sense. Elsewhere they take turns on one thread.
///
/// When one fails the others are asked to stop; when all have ended, the error that came first is
/// thrown. The coroutine goes on, on its own executor. It must not be destroyed while children run
/// on other threads or are on offer to them. Costs a frame; a child that need not wait and that no
/// other thread took costs no atomic operation here.
template <awaitable... Awaitables>
  requires(sizeof...(Awaitables) > 0)
[[nodiscard]] auto when_all(Awaitables... awaitables) {
  return detail::when_all_of(as_task(std::move(awaitables))...);
}

/// The same for a range; gives a std::vector of the results in its order, or nothing if they are
/// void. Costs a frame, and memory for the tasks and the results.
template <awaitable_range Range>
[[nodiscard]] auto when_all(Range&& range) {
  return detail::when_all_tasks(detail::tasks_of(std::forward<Range>(range)));
}

/// As when_all(), but lets all of them end by themselves and gives each one's result or exception:
/// a tuple of std::expected<T, std::exception_ptr>. T must not be a reference. After a stop of the
/// coroutine those exceptions may be operation_cancelled; look whether a loop has to end.
template <awaitable... Awaitables>
  requires(sizeof...(Awaitables) > 0)
[[nodiscard]] auto when_all_ready(Awaitables... awaitables) {
  return detail::when_all_ready_of(as_task(std::move(awaitables))...);
}

/// The same for a range; gives a std::vector of std::expected<T, std::exception_ptr> in its order.
template <awaitable_range Range>
[[nodiscard]] auto when_all_ready(Range&& range) {
  return detail::when_all_ready_tasks(detail::tasks_of(std::forward<Range>(range)));
}

}  // namespace gyre
