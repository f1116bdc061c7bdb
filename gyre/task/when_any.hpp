// SPDX-License-Identifier: Apache-2.0
// when_any: a race of several awaitables, which returns the results of those that completed. If the
// first to end failed, its error is thrown and the results of the others are lost. If a failure
// should not end the race use first_success(); to lose no result in any case use when_all_ready().
//
//     auto first = co_await gyre::when_any(jobs.receive(), gyre::sleep_for(1s));
//     if (auto& job = std::get<0>(first.values)) handle(*job);  // even if the second ended first
#pragma once

#include <gyre/task/as_task.hpp>
#include <gyre/task/detail/cancelled.hpp>
#include <gyre/task/detail/child_group.hpp>
#include <gyre/task/detail/this_context.hpp>
#include <gyre/task/task.hpp>
#include <gyre/task/when_all.hpp>

#include <algorithm>
#include <coroutine>
#include <cstddef>
#include <exception>
#include <optional>
#include <stdexcept>
#include <tuple>
#include <utility>
#include <vector>

namespace gyre {

/// The result of when_any(): the index of the winner, and the results of all that completed.
///
/// Several awaitables may have completed, because a stop comes too late for a wait that is over.
/// Take values that must not be lost, such as received or read ones, from `values` for every index.
template <class... Ts>
struct when_any_result {
  std::size_t index = 0;
  /// The result of each awaitable: std::monostate for void, a std::reference_wrapper for a
  /// reference; nullopt for an awaitable that was stopped, failed or never started. The element at
  /// `index` has a value.
  std::tuple<std::optional<Ts>...> values;
};

/// The result of when_any() for a range, in the order of the range.
template <class T>
struct when_any_range_result {
  std::size_t index = 0;
  std::vector<std::optional<T>> values;
};

namespace detail {

/// Determines which child of a when_any() ended first.
class race {
 public:
  /// Adds a child that has ended. After the first one the other children are asked to stop.
  void add(const child_group::child& child, child_group& group) noexcept {
    if (first_ != nullptr) return;
    first_ = &child;
    was_stopped_ = group.stop_requested();
    group.request_stop();
  }

  /// Returns the index of the winner; sets `error` if the first child failed. `for_each` calls a
  /// function with each index and child. If the whole race was stopped and the first child was
  /// cancelled by that, another child that has a value wins, so that the value is not lost.
  template <class ForEach>
  std::size_t winner(const child_group& group, ForEach&& for_each,
                     std::exception_ptr& error) const {
    constexpr std::size_t none = ~std::size_t{0};
    std::size_t first = none;
    std::size_t completed = none;
    for_each([&](std::size_t index, auto& child) {
      if (&child == first_) {
        first = index;
        error = task_access::state(child.work).take_error();
      } else if (completed == none && has_value(child.work)) {
        completed = index;
      }
    });
    if (error == nullptr) [[likely]]
      return first;
    if (was_stopped_ && completed != none && is_cancelled(error)) {
      error = nullptr;
      return completed;
    }
    error = translate_child_error(group.parent(), std::move(error));
    return none;
  }

  /// Returns the result of a child that completed; nullopt for other children.
  template <class T>
  static std::optional<element_t<T>> take(task<T>& child) {
    if (!has_value(child)) return std::nullopt;
    return take_element(child);
  }

 private:
  // Returns whether `child` completed. Requires that all children have ended or never started, and
  // that an error is still in its task or was taken from it.
  template <class T>
  static bool has_value(task<T>& child) noexcept {
    const task_end& state = task_access::state(child);
    return !state.empty() && !state.failed() && !state.is_unawaited();
  }

  const child_group::child* first_ = nullptr;
  bool was_stopped_ = false;  // whether a stop was requested before the first child ended
};

template <class... Ts>
task<when_any_result<element_t<Ts>...>> when_any_of(task<Ts>... tasks) {
  child_group group;
  std::tuple<child_task<Ts>...> racers(child_task<Ts>(group, std::move(tasks))...);
  co_await group.adopt();
  std::apply(
      [&group](auto&... contenders) {
        // No further child starts once a child has ended.
        static_cast<void>(((contenders.start(), !group.has_ended()) && ...));
      },
      racers);
  race ends;
  while (group.running() > 0) {
    const child_group::child& child = co_await group.wait_for_end();
    ends.add(child, group);
  }

  const auto for_each = [&](auto&& function) {
    std::size_t index = 0;
    std::apply([&](auto&... racer) { (function(index++, racer), ...); }, racers);
  };
  std::exception_ptr error;
  const std::size_t winner = ends.winner(group, for_each, error);
  co_await fail_with(error);
  co_return std::apply(
      [winner](auto&... items) {
        return when_any_result<element_t<Ts>...>{winner, {race::take(items.work)...}};
      },
      racers);
}

template <class T>
task<when_any_range_result<element_t<T>>> when_any_tasks(std::vector<task<T>> tasks) {
  child_group group;
  std::vector<child_task<T>> racers;
  racers.reserve(tasks.size());
  for (task<T>& candidate : tasks) racers.emplace_back(group, std::move(candidate));
  when_any_range_result<element_t<T>> result;
  // The memory is reserved now, because a failure after the race would lose the values.
  result.values.reserve(tasks.size());
  co_await group.adopt();
  for (child_task<T>& racer : racers) {
    racer.start();
    if (group.has_ended()) break;
  }
  race ends;
  while (group.running() > 0) {
    const child_group::child& child = co_await group.wait_for_end();
    ends.add(child, group);
  }

  const auto for_each = [&](auto&& function) {
    for (std::size_t index = 0; index < racers.size(); ++index) function(index, racers[index]);
  };
  std::exception_ptr error;
  result.index = ends.winner(group, for_each, error);
  co_await fail_with(error);
  for (child_task<T>& racer : racers) result.values.push_back(race::take(racer.work));
  co_return result;
}

/// Throws if one of the tasks is empty, before any of them runs.
template <class... Ts>
auto when_any_valid(task<Ts>&&... tasks) {
  if (!(tasks.valid() && ...)) throw_empty_task();
  return when_any_of(std::move(tasks)...);
}

}  // namespace detail

/// Runs the awaitables concurrently until the first one ends, and returns a when_any_result: the
/// index of that winner, and the results of all awaitables that completed. The awaitables start in
/// order, each up to its first wait, until one has ended. The others are then asked to stop, and
/// awaited until they end: a loser that ignores stops, such as from_future(), delays the result.
///
/// | the first to end | when_any() | results of the others that completed |
/// |---|---|---|
/// | succeeded | returns | are in `values` |
/// | failed | throws its error | are lost |
/// | was stopped with the coroutine | returns, if any awaitable completed | are in `values` |
///
/// So an awaitable that removes a value from a shared object, such as a receive, must not race an
/// awaitable that may fail: wrap the latter in as_result(), which returns the error as a value.
///
/// Thread-safety: starts the awaitables and resumes on the coroutine's executor.
/// Lifetime: on an executor of one thread, the coroutine may be destroyed on that thread while it
/// waits, if no child is on another executor (asserted in debug builds).
/// Errors: the error of the first awaitable to end. Errors of awaitables that were asked to stop
/// are dropped. After a stop of the coroutine, an awaitable with a value wins even if a cancelled
/// one ended first; without a value, throws gyre::operation_cancelled. For an empty task throws
/// std::logic_error at once.
/// Complexity: a coroutine frame, and one for each awaitable that is not a task.
template <awaitable... Awaitables>
  requires(sizeof...(Awaitables) > 0)
[[nodiscard]] auto when_any(Awaitables... awaitables) {
  return detail::when_any_valid(as_task(std::move(awaitables))...);
}

/// Runs the awaitables of a range as when_any(awaitables…) does, and returns a
/// when_any_range_result. The range must not be empty (std::invalid_argument). Costs a frame, a
/// vector of the children and one of the results.
template <awaitable_range Range>
[[nodiscard]] auto when_any(Range&& range) {
  auto tasks = detail::vector_of_tasks(std::forward<Range>(range));
  if (tasks.empty()) throw std::invalid_argument("gyre::when_any: needs at least one awaitable");
  const auto is_valid = [](const auto& candidate) { return candidate.valid(); };
  if (!std::ranges::all_of(tasks, is_valid)) detail::throw_empty_task();
  return detail::when_any_tasks(std::move(tasks));
}

// This overload explains wrong arguments: see base/detail/misuse.hpp.
template <class... More>
std::suspend_never when_any(detail::misused_awaitable explained, More&&... awaitables);
template <awaitable First, class... More>
std::suspend_never when_any(First first, detail::misused_awaitable explained, More&&... awaitables);
template <awaitable First, awaitable Second, class... More>
std::suspend_never when_any(First first, Second second, detail::misused_awaitable explained,
                            More&&... awaitables);

}  // namespace gyre
