// SPDX-License-Identifier: Apache-2.0
// when_all: awaits several awaitables concurrently, and gives the results of all.
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
#include <iterator>
#include <ranges>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace gyre {
namespace detail {

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

/// Counts the cancellation of children, which their parent gets as a value and may ignore.
inline void count_cancelled_children(const task_context& parent) {
  if (parent.stop.stop_requested()) count_cancellation(parent);
}

template <class Tasks>
struct forked {
  fork_join join;
  Tasks tasks;  // refer to contexts of the join

  template <class... Sources>
  explicit forked(fork_join::on_error policy, Sources&&... sources)
      : join(policy), tasks(std::forward<Sources>(sources)...) {}
};

/// The function of the tasks from `first` on that a join_awaiter needs.
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
    const auto start_next = [&](auto& one) {
      return i++ < first || start(task_access::state(one));
    };
    std::apply([&](auto&... one) { static_cast<void>((start_next(one) && ...)); }, tasks);
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
    std::vector<task<T>> tasks) {
  forked<std::vector<task<T>>> fork(fork_join::on_error::stop_others, std::move(tasks));
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
    std::vector<task<T>> tasks) {
  forked<std::vector<task<T>>> fork(fork_join::on_error::wait_for_all, std::move(tasks));
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
task<std::tuple<element_t<Ts>...>> when_all_of(task<Ts>... tasks) {
  forked<std::tuple<task<Ts>...>> fork(fork_join::on_error::stop_others, std::move(tasks)...);
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
task<std::tuple<std::expected<Ts, std::exception_ptr>...>> when_all_ready_of(task<Ts>... tasks) {
  forked<std::tuple<task<Ts>...>> fork(fork_join::on_error::wait_for_all, std::move(tasks)...);
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

/// The elements of a range as tasks.
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

/// An rvalue range of awaitables.
template <class T>
concept awaitable_range = std::ranges::input_range<T> && !std::is_lvalue_reference_v<T> &&
                          awaitable<std::remove_cvref_t<std::ranges::range_rvalue_reference_t<T>>>;

/// Runs the awaitables concurrently and gives a tuple of their results: std::monostate for void,
/// std::reference_wrapper for references. On one thread they start in order, each to a first wait.
///
/// Thread-safety: on an executor that forks, such as a thread_pool that steals, other threads may
/// start children. The coroutine resumes on its own executor.
/// Lifetime: the coroutine must not be destroyed while other threads run or may steal children.
/// Errors: when one fails the others are asked to stop; when all have ended the first error is
/// thrown. An empty task counts as one that fails with std::logic_error.
/// Complexity: a coroutine frame; no atomic operation for a child that ends at once on this thread.
template <awaitable... Awaitables>
  requires(sizeof...(Awaitables) > 0)
[[nodiscard]] auto when_all(Awaitables... awaitables) {
  return detail::when_all_of(as_task(std::move(awaitables))...);
}

/// The same for a range; gives a std::vector of the results in its order, nothing if they are void.
template <awaitable_range Range>
[[nodiscard]] auto when_all(Range&& range) {
  return detail::when_all_tasks(detail::tasks_of(std::forward<Range>(range)));
}

/// As when_all(), but stops no child, and gives each one's result or exception: a tuple of
/// std::expected<T, std::exception_ptr>. T must not be a reference. After a stop of the coroutine
/// nothing is thrown; the exceptions given may be gyre::operation_cancelled: a loop must end then.
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
