// SPDX-License-Identifier: Apache-2.0
// task_cell: a cell of a queue. A producer builds a callable in one or several consecutive cells,
// and the consumer runs it there.
#pragma once

#include <gyre/base/atomic.hpp>
#include <gyre/base/cache_line.hpp>
#include <gyre/base/detail/slab_object.hpp>
#include <gyre/base/operation.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

namespace gyre::inbox::detail {

/// Half a cache line: the address of the code that runs a task, and the first 24 bytes of its
/// callable, so that one line carries two tasks from core to core. A callable of up to 120 bytes
/// continues over the whole of the next cells, at most three. A callable that is larger, whose move
/// may throw, or whose alignment is stricter than a pointer's is built in a block of the slab
/// before cells are claimed; the cell then has the address of the block.
class alignas(cache_line_size / 2) task_cell {
 public:
  static constexpr std::size_t max_cells = 4;
  /// Returns the largest size of a callable in `cells` cells, in bytes.
  static constexpr std::size_t capacity(std::size_t cells) noexcept {
    return cells * sizeof(task_cell) - sizeof(thunk);
  }
  /// The number of cells that a callable of type `F` takes.
  template <class F>
  static constexpr std::size_t cells_for =
      (sizeof(F) + sizeof(void*) + cache_line_size / 2 - 1) / (cache_line_size / 2);
  /// Whether a callable of type `F` can be moved into `Cells` cells without throwing.
  template <class F, std::size_t Cells = max_cells>
  static constexpr bool holds =
      cells_for<std::decay_t<F>> <= Cells && alignof(std::decay_t<F>) <= alignof(void*) &&
      std::is_nothrow_move_constructible_v<std::decay_t<F>>;

  enum class action : unsigned char { run, drop, measure };
  /// Runs or drops a callable, destroys it and frees its cells after the first one. Returns the
  /// number of its cells; `measure` does nothing else.
  using thunk = std::size_t (*)(void* storage, action);
  /// A callable of a type that the producer does not know; `build` constructs it from `source`.
  struct erased_callable {
    struct functions {
      void (*build)(void* storage, void* source) noexcept;
      thunk call;
      std::size_t cells;
    };
    const functions* type;
    void* source;
  };
  /// Returns the number of cells that `callable` takes.
  template <class F>
    requires(!std::same_as<F, erased_callable>)
  static constexpr std::size_t cells_of(const F&) noexcept {
    return cells_for<std::decay_t<const F>>;
  }
  static std::size_t cells_of(const erased_callable& callable) noexcept {
    return callable.type->cells;
  }

  /// Is the thunk of a callable of type `F`.
  template <class F>
  static std::size_t run_or_drop(void* storage, action requested_action) {
    struct destroyed_at_end {
      F* callable;
      ~destroyed_at_end() {
        std::destroy_at(callable);
        for (std::size_t i = 1; i < cells_for<F>; ++i)
          std::construct_at(header(callable, i), nullptr);
      }
    };
    if (requested_action == action::run) [[likely]] {
      const destroyed_at_end guard{std::launder(static_cast<F*>(storage))};
      static_cast<void>((*guard.callable)());
    } else if (requested_action == action::drop) {
      const destroyed_at_end guard{std::launder(static_cast<F*>(storage))};
    }
    return cells_for<F>;
  }
  /// Builds a callable in the cells that begin with the one of `storage`.
  template <class F, class Source>
  static void build(void* storage, Source&& source) noexcept {
    // The callable also takes the memory of the next cells' headers, until run_or_drop() constructs
    // these again.
    for (std::size_t i = 1; i < cells_for<F>; ++i) std::destroy_at(header(storage, i));
    ::new (storage) F(std::forward<Source>(source));
  }

  /// Producer: builds the callable in this cell and the next ones, and publishes it to the
  /// consumer.
  template <class F>
    requires(holds<F> && std::is_nothrow_constructible_v<std::decay_t<F>, F> &&
             !std::same_as<std::decay_t<F>, erased_callable>)
  void emplace(F&& callable) noexcept {
    using callable_type = std::decay_t<F>;
    build<callable_type>(storage(), std::forward<F>(callable));
    // release: pairs with the acquire load in look(); the consumer sees the callable's bytes.
    thunk_.store(&run_or_drop<callable_type>, std::memory_order_release);
  }
  /// Producer: builds and publishes a callable of an erased type.
  void emplace(const erased_callable& callable) noexcept {
    callable.type->build(storage(), callable.source);
    // release: pairs with the acquire in look().
    thunk_.store(callable.type->call, std::memory_order_release);
  }
  /// Producer: marks the end of the segment, because the next callable needs more cells than
  /// remain.
  void mark_end() noexcept { thunk_.store(&end_of_segment, std::memory_order_release); }

  /// Consumer: returns the thunk of the published task, null if there is none yet. acquire: pairs
  /// with the release in emplace() and mark_end().
  thunk look() const noexcept { return thunk_.load(std::memory_order_acquire); }
  bool ready() const noexcept { return look() != nullptr; }
  /// Consumer: returns whether `task` is an end mark instead of a task.
  static bool is_end(thunk task) noexcept { return task == &end_of_segment; }
  /// Consumer: returns the address of the code of the task that look() returned: of the operation's
  /// function, if the task runs an operation.
  std::uint64_t code() const noexcept {
    using run_operation = gyre::detail::run_operation;
    const thunk task = look();
    if (task != &run_or_drop<run_operation>) return reinterpret_cast<std::uintptr_t>(task);
    const auto* const callable = std::launder(reinterpret_cast<const run_operation*>(storage_));
    return callable->op->code();
  }
  /// Consumer: removes the end mark.
  void clear_end() noexcept { thunk_.store(nullptr, std::memory_order_relaxed); }
  /// Consumer: runs the callable that look() returned, destroys it and frees its cells; returns
  /// their number. If the callable throws, its cells are freed as well; measure() returns their
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

  // Returns the header of the `i`th cell after the one of `storage`.
  static header_type* header(void* storage, std::size_t i) noexcept {
    return reinterpret_cast<header_type*>(static_cast<std::byte*>(storage) - sizeof(header_type) +
                                          i * (cache_line_size / 2));
  }
  static std::size_t end_of_segment(void*, action) { return 0; }

  // Marks the cell free. This is possible before the callable runs, because a cell is reused only
  // with its whole segment. relaxed: segment_pool publishes the store to the next producer.
  void free() noexcept { thunk_.store(nullptr, std::memory_order_relaxed); }

  // The address comes from `this` instead of `storage_`, because the callable may continue after
  // this cell.
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

/// Calls `claim_and_emplace` with an object that fits into `Cells` cells and moves without
/// throwing: `callable` itself, a copy of it, or a boxed_task.
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
