// SPDX-License-Identifier: Apache-2.0
// erased_task: a type-erased callable, which an event_loop passes to an inbox whose type it does
// not know.
#pragma once

#include <gyre/base/detail/callable_source.hpp>
#include <gyre/base/move_only_function.hpp>
#include <gyre/exec/inbox/detail/task_cell.hpp>

#include <type_traits>
#include <utility>

namespace gyre::inbox::detail {

/// Refers to a callable that fits into the cells of an inbox. An inbox with cells builds the
/// callable there; other inboxes store a move_only_function of it.
class erased_task {
 public:
  /// `callable` is a deduced forwarding reference, and is moved from or copied at most once.
  template <class F>
    requires(task_cell::holds<F> && std::is_nothrow_constructible_v<std::decay_t<F>, F> &&
             !std::is_same_v<std::decay_t<F>, erased_task>)
  explicit erased_task(F&& callable) noexcept
      : functions_(&functions_of<F>), source_(gyre::detail::source_of(callable)) {}

  task_cell::erased_callable cell_callable() const noexcept {
    return {&functions_->cell_callable, source_};
  }
  std::size_t cells() const noexcept { return functions_->cell_callable.cells; }
  /// Returns a move_only_function of the callable. Throws std::bad_alloc.
  move_only_function<void()> function() const { return functions_->make_function(source_); }

 private:
  struct functions {
    task_cell::erased_callable::functions cell_callable;
    move_only_function<void()> (*make_function)(void* source);
  };

  template <class F>
  static void build(void* storage, void* source) noexcept {
    task_cell::build<std::decay_t<F>>(storage, gyre::detail::source_as<F>(source));
  }
  template <class F>
  static move_only_function<void()> make_function(void* source) {
    return move_only_function<void()>(gyre::detail::source_as<F>(source));
  }
  template <class F>
  static constexpr functions functions_of{
      {&build<F>, &task_cell::run_or_drop<std::decay_t<F>>, task_cell::cells_for<std::decay_t<F>>},
      &make_function<F>};

  const functions* functions_;
  void* source_;
};

/// Calls `claim_and_emplace` with the task or, if it needs more than `Cells` cells, with a function
/// that fits; see with_cell_sized() for callables.
template <std::size_t Cells, class Emplace>
void with_cell_sized(const erased_task& task, Emplace&& claim_and_emplace) {
  if (Cells < task_cell::max_cells && task.cells() > Cells) {
    with_cell_sized<Cells>(task.function(), claim_and_emplace);
  } else {
    claim_and_emplace(task.cell_callable());
  }
}

/// An inbox that builds an erased task in place.
template <class Inbox>
concept takes_erased_tasks =
    requires(Inbox& inbox, const erased_task& task) { inbox.push_erased(task); };

}  // namespace gyre::inbox::detail
