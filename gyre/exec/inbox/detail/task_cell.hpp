// SPDX-License-Identifier: Apache-2.0
// task_cell: a cell of a queue. A producer builds a callable in one or several consecutive cells,
// and the consumer runs it there.
#pragma once

#include <gyre/base/atomic.hpp>
#include <gyre/base/cache_line.hpp>
#include <gyre/base/detail/slab_object.hpp>

#include <concepts>
#include <cstddef>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

namespace gyre::inbox::detail {

/// Half a cache line: the address of the code that runs a task, and the first 24 bytes of its
/// callable, so that one line carries two tasks from core to core. A callable of up to 120 bytes
/// continues over the whole of the next cells, at most three. A larger one, one whose move may
/// throw and one of stricter alignment than a pointer are built in a block of the slab before cells
/// are claimed, and the cell has its address.
class alignas(cache_line_size / 2) task_cell {
 public:
  static constexpr std::size_t max_cells = 4;
  /// The bytes that a callable in `cells` cells may have.
  static constexpr std::size_t capacity(std::size_t cells) noexcept {
    return cells * sizeof(task_cell) - sizeof(thunk);
  }
  /// The number of cells that a callable of type `F` takes.
  template <class F>
  static constexpr std::size_t cells_for =
      (sizeof(F) + sizeof(void*) + cache_line_size / 2 - 1) / (cache_line_size / 2);
  /// True when a callable of type `F`, once it is made, can be moved into `Cells` cells.
  template <class F, std::size_t Cells = max_cells>
  static constexpr bool holds =
      cells_for<std::decay_t<F>> <= Cells && alignof(std::decay_t<F>) <= alignof(void*) &&
      std::is_nothrow_move_constructible_v<std::decay_t<F>>;

  enum class action : unsigned char { run, drop, measure };
  /// Runs or drops a callable, destroys it and frees the cells after the first one. Returns the
  /// number of its cells, which is all that `measure` does.
  using thunk = std::size_t (*)(void* storage, action);
  /// A callable of a type that the producer does not know; `build` constructs it from `source`.
  struct erased {
    struct functions {
      void (*build)(void* storage, void* source) noexcept;
      thunk call;
      std::size_t cells;
    };
    const functions* type;
    void* source;
  };
  /// The number of cells that `callable` takes.
  template <class F>
    requires(!std::same_as<F, erased>)
  static constexpr std::size_t cells_of(const F&) noexcept {
    return cells_for<std::decay_t<const F>>;
  }
  static std::size_t cells_of(const erased& callable) noexcept { return callable.type->cells; }

  /// The thunk of a callable of type `F`.
  template <class F>
  static std::size_t run_or_drop(void* storage, action requested) {
    struct destroyed_at_end {
      F* callable;
      ~destroyed_at_end() {
        std::destroy_at(callable);
        for (std::size_t i = 1; i < cells_for<F>; ++i)
          std::construct_at(header(callable, i), nullptr);
      }
    };
    if (requested == action::run) [[likely]] {
      const destroyed_at_end guard{std::launder(static_cast<F*>(storage))};
      static_cast<void>((*guard.callable)());
    } else if (requested == action::drop) {
      const destroyed_at_end guard{std::launder(static_cast<F*>(storage))};
    }
    return cells_for<F>;
  }
  /// Builds a callable in the cells that begin with the one of `storage`.
  template <class F, class Source>
  static void build(void* storage, Source&& source) noexcept {
    // The memory of the next cells' atomics is the callable's until run_or_drop() constructs these
    // again.
    for (std::size_t i = 1; i < cells_for<F>; ++i) std::destroy_at(header(storage, i));
    ::new (storage) F(std::forward<Source>(source));
  }

  /// Producer: builds the callable in this cell and those after it, and hands it over.
  template <class F>
    requires(holds<F> && std::is_nothrow_constructible_v<std::decay_t<F>, F> &&
             !std::same_as<std::decay_t<F>, erased>)
  void emplace(F&& callable) noexcept {
    using callable_type = std::decay_t<F>;
    build<callable_type>(storage(), std::forward<F>(callable));
    // release: pairs with the acquire load in look(); the consumer sees the callable's bytes.
    thunk_.store(&run_or_drop<callable_type>, std::memory_order_release);
  }
  /// Producer: the same for a callable whose type it does not know.
  void emplace(const erased& callable) noexcept {
    callable.type->build(storage(), callable.source);
    thunk_.store(callable.type->call, std::memory_order_release);  // release: pairs with look()
  }
  /// Producer: says that the segment ends here, as the next callable needs more cells than are
  /// left.
  void mark_end() noexcept { thunk_.store(&end_of_segment, std::memory_order_release); }

  /// Consumer: the task that has been handed over, null if there is none yet.
  thunk look() const noexcept { return thunk_.load(std::memory_order_acquire); }
  bool ready() const noexcept { return look() != nullptr; }
  /// Consumer: whether `task` is the mark of an end, not a task.
  static bool is_end(thunk task) noexcept { return task == &end_of_segment; }
  /// Consumer: removes the mark of an end.
  void clear_end() noexcept { thunk_.store(nullptr, std::memory_order_relaxed); }
  /// Consumer: runs the callable that look() returned, destroys it and frees its cells; returns
  /// their number. If the callable throws, its cells are freed all the same; measure() tells their
  /// number.
  std::size_t run(thunk task) {
    free();
    return task(storage(), action::run);
  }
  /// Consumer: destroys the callable that look() returned without running it, and frees its cells.
  std::size_t drop(thunk task) noexcept {
    free();
    return task(storage(), action::drop);
  }
  static std::size_t measure(thunk task) noexcept { return task(nullptr, action::measure); }

 private:
  using header_type = gyre::detail::atomic<thunk>;

  // The address of the `i`th next cell's atomic.
  static header_type* header(void* storage, std::size_t i) noexcept {
    return reinterpret_cast<header_type*>(static_cast<std::byte*>(storage) - sizeof(header_type) +
                                          i * (cache_line_size / 2));
  }
  static std::size_t end_of_segment(void*, action) { return 0; }

  // The cell is not reused before its segment is, so it can be marked free before the callable
  // runs; the segment's hand-over to a producer publishes this (see segment.hpp).
  void free() noexcept { thunk_.store(nullptr, std::memory_order_relaxed); }

  // Not the address of `storage_`: the callable may continue after this cell.
  void* storage() noexcept { return reinterpret_cast<std::byte*>(this) + sizeof(header_type); }

  header_type thunk_{nullptr};
  [[maybe_unused]] alignas(void*) std::byte storage_[cache_line_size / 2 - sizeof(header_type)];
};

static_assert(sizeof(task_cell) == cache_line_size / 2);

/// A callable in a block of the slab, movable as one pointer.
template <class F>
class boxed_task {
 public:
  template <class G>
  explicit boxed_task(G&& callable)
      : box_(std::make_unique<gyre::detail::slab_box<F>>(std::forward<G>(callable))) {}

  void operator()() { box_->object(); }

 private:
  std::unique_ptr<gyre::detail::slab_box<F>> box_;
};

/// Calls `claim_and_emplace` with something to emplace without an exception in at most `Cells`
/// cells: `callable` itself, a copy of it that is then moved, or a box.
template <std::size_t Cells, class F, class Emplace>
void with_cell_sized(F&& callable, Emplace&& claim_and_emplace) {
  using callable_type = std::decay_t<F>;
  if constexpr (!task_cell::holds<F, Cells>) {
    claim_and_emplace(boxed_task<callable_type>(std::forward<F>(callable)));
  } else if constexpr (!std::is_nothrow_constructible_v<callable_type, F>) {
    claim_and_emplace(callable_type(std::forward<F>(callable)));
  } else {
    claim_and_emplace(std::forward<F>(callable));
  }
}

}  // namespace gyre::inbox::detail
