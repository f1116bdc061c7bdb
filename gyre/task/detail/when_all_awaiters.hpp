// SPDX-License-Identifier: Apache-2.0
// when_all_awaiter, when_all_into_awaiter, when_all_ready_awaiter: the awaitables of when_all() and
// its relatives, and the ranges of tasks that they hold.
#pragma once

#include <gyre/task/as_task.hpp>
#include <gyre/task/detail/cancelled.hpp>
#include <gyre/task/detail/fork_join.hpp>
#include <gyre/task/detail/join_awaiter.hpp>
#include <gyre/task/task.hpp>

#include <array>
#include <concepts>
#include <cstddef>
#include <exception>
#include <expected>
#include <iterator>
#include <ranges>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace gyre::detail {

/// Returns the result of a task that has not failed.
template <class T>
element_t<T> take_element(task<T>& child) {
  if constexpr (std::is_void_v<T>) {
    task_access::state(child).take_success();
    return {};
  } else {
    return task_access::state(child).take_success();
  }
}

template <class T>
std::expected<T, std::exception_ptr> take_outcome(task<T>& child, bool& is_cancelled) {
  if (std::exception_ptr error = task_access::state(child).take_error()) {
    is_cancelled = is_cancelled || error == cancellation();
    return std::unexpected(std::move(error));
  }
  try {
    if constexpr (std::is_void_v<T>) {
      task_access::state(child).take_result();
      return {};
    } else {
      return task_access::state(child).take_result();
    }
  } catch (...) {
    return std::unexpected(std::current_exception());
  }
}

/// Counts a cancellation of children, which their parent receives as a value and may ignore.
inline void count_cancelled_children(const task_context& parent) {
  if (parent.stop.stop_requested()) count_cancellation(parent);
}

/// Returns the results of `take` for each task, as a tuple, an array or a vector.
template <class... Ts, class Take>
auto results_of(std::tuple<task<Ts>...>& tasks, Take&& take) {
  return std::apply([&](auto&... one) { return std::tuple<decltype(take(one))...>{take(one)...}; },
                    tasks);
}
template <class T, class Take>
auto results_of(std::vector<task<T>>& tasks, Take&& take) {
  std::vector<decltype(take(tasks.front()))> results;
  results.reserve(tasks.size());
  for (task<T>& task_of_list : tasks) results.push_back(take(task_of_list));
  return results;
}

template <class T, std::size_t N, class Take>
auto results_of(std::array<task<T>, N>& tasks, Take&& take) {
  return std::apply(
      [&](auto&... task_of_list) {
        return std::array<decltype(take(tasks[0])), N>{take(task_of_list)...};
      },
      tasks);
}

template <class Tasks>
inline constexpr bool gives_nothing = false;
template <>
inline constexpr bool gives_nothing<std::vector<task<>>> = true;
template <std::size_t N>
inline constexpr bool gives_nothing<std::array<task<>, N>> = true;

/// The awaitable of when_all(). Its result is a tuple, an array or a vector, or nothing for a range
/// of task<>.
template <class Tasks>
class [[nodiscard]] when_all_awaiter
    : public join_awaiter<Tasks, fork_join::on_error::stop_others> {
  using join_awaiter<Tasks, fork_join::on_error::stop_others>::join_awaiter;

 public:
  auto await_resume() {
    if (!this->end_undisturbed()) [[unlikely]]
      throw_error_if_any();
    if constexpr (!gives_nothing<Tasks>) {
      return results_of(this->tasks_, [](auto& child) { return take_element(child); });
    }
  }

 private:
  [[gnu::noinline]] void throw_error_if_any() {
    this->join().check_started();
    if (this->join().failed() == nullptr) return;
    std::exception_ptr error;
    for (std::size_t i = 0; i < count_of(this->tasks_); ++i) {
      visit_task(this->tasks_, i, [&](auto& child) {
        auto& state = task_access::state(child);
        if (&state == this->join().failed())
          error = translate_child_error(this->join().parent_context(), state.take_error());
      });
    }
    std::rethrow_exception(std::move(error));
  }
};

/// The awaitable of when_all_into().
template <class T, class Make>
class [[nodiscard]] when_all_into_awaiter
    : public join_awaiter<made_tasks<T, Make>, fork_join::on_error::stop_others> {
 public:
  when_all_into_awaiter(std::span<T> results, Make&& make)
      : join_awaiter<made_tasks<T, Make>, fork_join::on_error::stop_others>(
            made_tasks<T, Make>{results, std::move(make)}) {}

  void await_resume() {
    if (!this->end_undisturbed()) [[unlikely]]
      take_kept_results();
  }

 private:
  [[gnu::noinline]] void take_kept_results() {
    this->join().check_started();
    const task_end* const failure = this->join().failed();
    std::exception_ptr error;
    this->join().for_each_kept_child([&](task<T>& child, T& result) {
      auto& state = task_access::state(child);
      if (failure == nullptr) {
        result = state.take_success();
      } else if (&state == failure) {
        error = translate_child_error(this->join().parent_context(), state.take_error());
      }
    });
    if (error) std::rethrow_exception(std::move(error));
  }
};

/// The awaitable of when_all_ready().
template <class Tasks>
class [[nodiscard]] when_all_ready_awaiter
    : public join_awaiter<Tasks, fork_join::on_error::wait_for_all> {
  using join_awaiter<Tasks, fork_join::on_error::wait_for_all>::join_awaiter;

 public:
  auto await_resume() {
    if (!this->end_undisturbed()) [[unlikely]]
      this->join().check_started();
    bool was_cancelled = false;
    auto outcomes =
        results_of(this->tasks_, [&](auto& child) { return take_outcome(child, was_cancelled); });
    if (was_cancelled) count_cancelled_children(this->join().parent_context());
    return outcomes;
  }
};

/// Returns the elements of a range as a vector of tasks.
template <class Range>
auto vector_of_tasks(Range&& range) {
  using reference = std::ranges::range_rvalue_reference_t<Range>;
  using result = task_result_t<std::remove_cvref_t<reference>>;
  if constexpr (std::same_as<std::remove_cvref_t<Range>, std::vector<task<result>>>) {
    return std::vector<task<result>>(std::forward<Range>(range));
  } else {
    std::vector<task<result>> tasks;
    if constexpr (std::ranges::sized_range<Range>) tasks.reserve(std::ranges::size(range));
    for (auto position = std::ranges::begin(range); position != std::ranges::end(range);
         ++position) {
      tasks.push_back(as_task(std::ranges::iter_move(position)));
    }
    return tasks;
  }
}

/// Returns the elements of a range as tasks, in an array if the range is an array, else in a
/// vector.
template <class Range>
auto tasks_of(Range&& range) {
  return vector_of_tasks(std::forward<Range>(range));
}

template <class Awaitable, std::size_t N>
auto tasks_of(std::array<Awaitable, N>&& range) {
  return std::apply(
      [](auto&... task_of_list) {
        return std::array<task<task_result_t<Awaitable>>, N>{as_task(std::move(task_of_list))...};
      },
      range);
}

template <class Range>
using tasks_of_t = decltype(tasks_of(std::declval<Range>()));

}  // namespace gyre::detail
