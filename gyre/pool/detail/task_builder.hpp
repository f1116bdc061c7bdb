// SPDX-License-Identifier: Apache-2.0
// task_builder: a callable on its way into a pool, without its type.
#pragma once

#include <gyre/base/clock.hpp>
#include <gyre/base/detail/callable_source.hpp>
#include <gyre/exec/inbox/detail/task_cell.hpp>
#include <gyre/pool/detail/capacity.hpp>
#include <gyre/pool/detail/pool_task.hpp>
#include <gyre/pool/pool_options.hpp>

#include <array>
#include <concepts>
#include <cstddef>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

namespace gyre::detail {

class pool_core;
class pool_worker;

/// A callable without its type, which it does not own.
class callable_ref {
 public:
  template <class F>
  explicit callable_ref(F& callable) noexcept
      : callable_(&callable),
        call_([](void* object) { static_cast<void>((*static_cast<F*>(object))()); }) {}

  void operator()() const { call_(callable_); }

 private:
  void* callable_;
  void (*call_)(void*);
};

/// The items that a worker has taken from the submissions at once.
class drained_batch {
 public:
  static constexpr std::size_t max_items = 256;

  /// Becomes the calling thread's current_batch() until its end.
  explicit drained_batch(pool_core& pool) noexcept;
  drained_batch& operator=(drained_batch&&) = delete;
  ~drained_batch();

  void add(work_item item) noexcept { items_[size_++] = item; }
  std::size_t size() const noexcept { return size_; }
  work_item operator[](std::size_t index) const noexcept { return items_[index]; }
  /// Runs at once a task that has a slot, but for which there is no memory.
  void run_in_place(callable_ref callable) noexcept;

 private:
  pool_core& pool_;
  drained_batch* outer_;
  std::size_t size_ = 0;
  union {  // not set before it is used
    std::array<work_item, max_items> items_;
  };
};

/// The innermost batch of the calling thread, which exists.
drained_batch& current_batch() noexcept;

/// Calls a callable that its submitter runs; its exception goes to the pool's on_exception.
void run_by_submitter(pool_core& pool, callable_ref callable) noexcept;

/// Records in the calling worker's histograms how long a task waited, and the lifetime of this.
class task_timing {
 public:
  explicit task_timing(steady_time submitted) noexcept;
  task_timing& operator=(task_timing&&) = delete;
  ~task_timing();

 private:
  pool_worker* worker_;
  steady_time started_{};
};

template <class F>
struct timed_callable {
  F callable;
  steady_time submitted = monotonic_now();

  void operator()() {
    const task_timing timing(submitted);
    static_cast<void>(callable());
  }
};

/// A callable in a cell of the submissions. The worker that drains the cell makes it a task.
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

/// Refers to a callable that is copied or moved at most once, by one of the members; until then it
/// stays untouched. Members throw what that throws; those that make a task, bad_alloc.
class task_builder {
 public:
  /// Lifetime: `callable` must outlive this.
  template <class F>
    requires(!std::same_as<std::remove_cvref_t<F>, task_builder>)
  explicit task_builder(F&& callable) noexcept
      : source_(source_of(callable)), functions_(&functions_of<F>) {}

  bool fits_cell() const noexcept { return functions_->in_cell.call != nullptr; }
  /// For a cell of the submissions, if it fits.
  inbox::detail::task_cell::erased in_cell() const noexcept {
    return {&functions_->in_cell, source_};
  }
  pool_task& make(bool timed) const { return functions_->make(source_, timed); }
  /// Runs it on the calling thread, by run_by_submitter().
  void run(pool_core& pool) const { functions_->run(source_, pool); }

 private:
  using task_cell = inbox::detail::task_cell;

  struct functions {
    task_cell::erased::functions in_cell;
    pool_task& (*make)(void* source, bool timed);
    void (*run)(void* source, pool_core& pool);
  };

  // `F` as it is deduced for a forwarding reference.
  template <class F>
  struct erased_callable {
    using function = std::decay_t<F>;

    static void build(void* storage, void* source) noexcept {
      ::new (storage) queued_callable<function>{source_as<F>(source)};
    }
    static constexpr task_cell::erased::functions in_cell() noexcept {
      if constexpr (task_cell::holds<queued_callable<function>, 1> &&
                    std::is_nothrow_constructible_v<function, F>) {
        return {&build, &task_cell::run_or_drop<queued_callable<function>>, 1};
      } else {
        return {nullptr, nullptr, 0};
      }
    }
    static pool_task& make(void* source, bool timed) {
      if (timed) return make_pool_task(timed_callable<function>{source_as<F>(source)});
      return make_pool_task(source_as<F>(source));
    }
    static void run(void* source, pool_core& pool) {
      function callable(source_as<F>(source));
      run_by_submitter(pool, callable_ref(callable));
    }
  };
  // Hidden: of inline variables g++ makes one for the process, but each plug-in with gyre in it has
  // pools of its own.
  template <class F>
  [[gnu::visibility("hidden")]] static constexpr functions functions_of{
      erased_callable<F>::in_cell(), &erased_callable<F>::make, &erased_callable<F>::run};

  void* source_;
  const functions* functions_;
};

[[noreturn, gnu::cold]] void throw_refused(admission_result reason);

// As thread_pool's post(), try_post() and post_at(). Not inlined, as they use thread-locals.
void submit(pool_core& pool, task_builder builder, task_priority priority);
bool try_submit(pool_core& pool, task_builder builder, task_priority priority);
void submit_at(pool_core& pool, task_builder builder, steady_time when);

}  // namespace gyre::detail
