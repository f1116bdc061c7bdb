// SPDX-License-Identifier: Apache-2.0
// task_builder: a type-erased reference to a callable, from which it makes a task of a pool.
#pragma once

#include <gyre/base/detail/callable_source.hpp>
#include <gyre/exec/inbox/detail/task_cell.hpp>
#include <gyre/pool/detail/callable_ref.hpp>
#include <gyre/pool/detail/drained_batch.hpp>
#include <gyre/pool/detail/exception_guard.hpp>
#include <gyre/pool/detail/pool_task.hpp>
#include <gyre/pool/detail/task_timing.hpp>

#include <concepts>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

namespace gyre::detail {

/// A callable in a cell of the submissions. The worker that drains the cell makes a task from it.
template <class F>
struct queued_callable {
  F callable;

  void operator()() {
    drained_batch& batch = current_batch();
    try {
      pool_task& task = make_pool_task(std::move(callable));
      task.has_slot = true;
      batch.add(work_item(task));
    } catch (const std::bad_alloc&) {
      batch.run_in_place(callable_ref(callable));
    }
  }
};

/// Refers to a callable, which one of the functions copies or moves, at most once; until then the
/// callable is unmoved. The functions throw the exceptions of the copy or move; make() also throws
/// std::bad_alloc.
class task_builder {
 public:
  /// Lifetime: `callable` must outlive this object.
  template <class F>
    requires(!std::same_as<std::remove_cvref_t<F>, task_builder>)
  explicit task_builder(F&& callable) noexcept
      : source_(source_of(callable)), functions_(&functions_of<F>) {}

  bool fits_cell() const noexcept { return functions_->in_cell.call != nullptr; }
  /// The callable for a cell of the submissions; requires fits_cell().
  inbox::detail::task_cell::erased_callable in_cell() const noexcept {
    return {&functions_->in_cell, source_};
  }
  pool_task& make(bool records_times) const { return functions_->make(source_, records_times); }
  /// Calls the callable on the calling thread; passes an exception of the call to `guard`.
  void run(exception_guard& guard) const { functions_->run(source_, guard); }

 private:
  using task_cell = inbox::detail::task_cell;

  struct functions {
    task_cell::erased_callable::functions in_cell;
    pool_task& (*make)(void* source, bool records_times);
    void (*run)(void* source, exception_guard& guard);
  };

  // `F` is the type deduced for a forwarding reference.
  template <class F>
  struct erased_callable {
    using function = std::decay_t<F>;

    static void build(void* storage, void* source) noexcept {
      ::new (storage) queued_callable<function>{source_as<F>(source)};
    }
    static constexpr task_cell::erased_callable::functions in_cell() noexcept {
      if constexpr (task_cell::holds<queued_callable<function>, 1> &&
                    std::is_nothrow_constructible_v<function, F>) {
        return {&build, &task_cell::run_or_drop<queued_callable<function>>, 1};
      } else {
        return {nullptr, nullptr, 0};
      }
    }
    static pool_task& make(void* source, bool records_times) {
      if (records_times) return make_pool_task(timed_callable<function>{source_as<F>(source)});
      return make_pool_task(source_as<F>(source));
    }
    static void run(void* source, exception_guard& guard) {
      function callable(source_as<F>(source));
      guard.call(callable_ref(callable));
    }
  };
  // The variable is hidden, because g++ merges an inline variable over the whole process, but each
  // plug-in that contains gyre has pools of its own.
  template <class F>
  [[gnu::visibility("hidden")]] static constexpr functions functions_of{
      erased_callable<F>::in_cell(), &erased_callable<F>::make, &erased_callable<F>::run};

  void* source_;
  const functions* functions_;
};

}  // namespace gyre::detail
