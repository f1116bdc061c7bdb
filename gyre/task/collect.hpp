// SPDX-License-Identifier: Apache-2.0
// collect: awaits the awaitables of a range, a limited number at a time.
//
//     auto pages = co_await gyre::collect(urls | std::views::transform(fetch), 10);
#pragma once

#include <gyre/task/as_task.hpp>
#include <gyre/task/detail/cancelled.hpp>
#include <gyre/task/detail/child_group.hpp>
#include <gyre/task/detail/this_context.hpp>
#include <gyre/task/task.hpp>
#include <gyre/task/when_all.hpp>

#include <concepts>
#include <coroutine>
#include <cstddef>
#include <deque>
#include <exception>
#include <optional>
#include <ranges>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

namespace gyre {

/// Awaits the awaitables of a range, at most `limit` at a time, and returns a std::vector of their
/// results in the order of the range; no vector if they are void, std::reference_wrapper for
/// references. The next awaitable starts as soon as one has ended. `range` is moved in and read one
/// element at a time, so it may be a view that makes tasks.
///
/// Thread-safety: reads the range, starts the children and resumes on the coroutine's executor.
/// Lifetime: the objects that a view refers to must outlive the await. A coroutine that waits may
/// be destroyed as in when_any().
/// Errors: std::invalid_argument at once for a limit of zero. When a child fails, `range` throws or
/// the coroutine is asked to stop, no more children start and the others are asked to stop; when
/// all children have ended, the first error is thrown. An empty task fails with std::logic_error.
/// Complexity: memory for the results and `limit` children; a frame for each element that is not a
/// task.
template <awaitable_range Range>
[[nodiscard]] auto collect(Range&& range, std::size_t limit);
// This overload explains wrong arguments: see base/detail/misuse.hpp.
std::suspend_never collect(detail::misused_awaitable explained, std::size_t limit);

/// Awaits the awaitables `make(0)` to `make(count - 1)`, each made when it starts, as
/// collect(range, limit) does. `make` exists until all awaitables have ended.
template <std::copy_constructible Make>
  requires awaitable<std::invoke_result_t<Make&, std::size_t>>
[[nodiscard]] auto collect(std::size_t count, Make make, std::size_t limit);

namespace detail {

/// The results of a collect(), which arrive in any order.
template <class T>
class collected_results {
 public:
  using type = std::vector<element_t<T>>;

  void expect(std::size_t count) { slots_.reserve(count); }
  void add() { slots_.emplace_back(); }
  void take(std::size_t index, task<T>& child) { slots_[index] = take_element(child); }
  type release() {
    if constexpr (in_place) {
      return std::move(slots_);
    } else {
      type results;
      results.reserve(slots_.size());
      for (auto& child_slot : slots_) results.push_back(std::move(*child_slot));
      return results;
    }
  }

 private:
  static constexpr bool in_place =
      std::default_initializable<element_t<T>> && std::is_move_assignable_v<element_t<T>>;
  std::vector<std::conditional_t<in_place, element_t<T>, std::optional<element_t<T>>>> slots_;
};

template <>
class collected_results<void> {
 public:
  using type = void;

  void expect(std::size_t) noexcept {}
  void add() noexcept {}
  void take(std::size_t, task<>& child) { task_access::state(child).take_result(); }
  void release() noexcept {}
};

/// A range that is being collected, with its children and their results.
template <class T, class Range>
class collection {
 public:
  collection(child_group& group, Range&& range)
      : group_(group), range_(std::move(range)), position_(std::ranges::begin(range_)) {
    if constexpr (std::ranges::sized_range<Range>) results_.expect(std::ranges::size(range_));
  }

  /// Starts the next child if fewer than `limit` run. Returns false if none was started.
  bool start_next(std::size_t limit) noexcept {
    if (group_.running() >= limit || error_ != nullptr) return false;
    try {
      if (position_ == std::ranges::end(range_)) return false;
      if (group_.stop_requested()) {
        fail(cancellation());
        return false;
      }
      start(as_task(std::ranges::iter_move(position_)));
      ++position_;
      return true;
    } catch (...) {
      fail(caught_error());
      return false;
    }
  }
  /// Stores the result of a child that has ended, and frees the child's slot for another child.
  void finish(child_group::child& child) noexcept {
    auto& child_slot = static_cast<slot&>(child);
    if (std::exception_ptr error = task_access::state(child_slot.work).take_error()) {
      fail(std::move(error));
    } else {
      try {
        results_.take(child_slot.index, child_slot.work);
      } catch (...) {
        fail(std::current_exception());
      }
    }
    child_slot.next = std::exchange(free_child_, &child_slot);
  }
  /// Returns the first error, or null. Called when all children have ended.
  std::exception_ptr take_error() noexcept {
    return translate_child_error(group_.parent(), std::move(error_));
  }
  auto release() { return results_.release(); }

 private:
  struct slot : child_task<T> {
    using child_task<T>::child_task;
    std::size_t index = 0;
  };

  void start(task<T> work) {
    results_.add();
    if (free_child_ == nullptr) free_child_ = &all_slots_.emplace_back(group_);
    auto& child_slot = static_cast<slot&>(*std::exchange(free_child_, free_child_->next));
    child_slot.index = started_count_++;
    child_slot.work = std::move(work);
    child_slot.start();
  }
  void fail(std::exception_ptr error) noexcept {
    if (error_ != nullptr) return;
    error_ = std::move(error);
    group_.request_stop();
  }

  child_group& group_;
  Range range_;
  std::ranges::iterator_t<Range> position_;
  std::size_t started_count_ = 0;
  collected_results<T> results_;
  std::exception_ptr error_;
  std::deque<slot> all_slots_;
  child_group::child* free_child_ = nullptr;
};

template <class T, class Range>
task<typename collected_results<T>::type> collect_range(Range range, std::size_t limit) {
  child_group group;
  co_await group.adopt();
  collection<T, Range> work(group, std::move(range));
  for (;;) {
    // A child that need not wait has ended when start_next() returns; its slot is used again.
    while (!group.has_ended() && work.start_next(limit)) {
    }
    if (group.running() == 0) break;
    child_group::child& child = co_await group.wait_for_end();
    work.finish(child);
  }
  std::exception_ptr error = work.take_error();
  co_await fail_with(error);
  co_return work.release();
}

}  // namespace detail

template <awaitable_range Range>
auto collect(Range&& range, std::size_t limit) {
  using element = std::remove_cvref_t<std::ranges::range_rvalue_reference_t<Range>>;
  if (limit == 0)
    throw std::invalid_argument("gyre::collect: the limit is zero; it must be at least 1");
  return detail::collect_range<task_result_t<element>, std::remove_cvref_t<Range>>(
      std::forward<Range>(range), limit);
}
template <std::copy_constructible Make>
  requires awaitable<std::invoke_result_t<Make&, std::size_t>>
auto collect(std::size_t count, Make make, std::size_t limit) {
  return collect(std::views::iota(std::size_t{0}, count) | std::views::transform(std::move(make)),
                 limit);
}

}  // namespace gyre
