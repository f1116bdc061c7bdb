// SPDX-License-Identifier: Apache-2.0
// task_cell: a cell of a queue. A producer builds a callable in it, and the consumer runs it there.
#pragma once

#include <gyre/base/atomic.hpp>
#include <gyre/base/cache_line.hpp>
#include <gyre/base/detail/slab_object.hpp>

#include <cstddef>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

namespace gyre::inbox::detail {

/// Half a cache line. A callable of up to 24 bytes lives in the cell itself, so that one line
/// carries two tasks from core to core; a larger one, or one whose construction or move may throw,
/// is built in a block of the slab before a cell is claimed.
class alignas(cache_line_size / 2) task_cell {
 public:
  static constexpr std::size_t capacity = 24;
  /// True when a callable of type `F` is built in the cell itself.
  template <class F>
  static constexpr bool holds =
      sizeof(std::decay_t<F>) <= capacity && alignof(std::decay_t<F>) <= alignof(void*) &&
      std::is_nothrow_constructible_v<std::decay_t<F>, F> &&
      std::is_nothrow_move_constructible_v<std::decay_t<F>>;

  enum class action : bool { drop, run };
  using thunk = void (*)(void* storage, action);
  /// A callable of a type that the producer does not know; `build` constructs it from `source`.
  struct erased {
    struct functions {
      void (*build)(void* storage, void* source) noexcept;
      thunk call;
    };
    const functions* type;
    void* source;
  };
  /// Runs or drops a callable of type `F` in a cell, and destroys it.
  template <class F>
  static void run_or_drop(void* storage, action requested) {
    struct destroyed_at_end {
      F* callable;
      ~destroyed_at_end() { std::destroy_at(callable); }
    } const guard{std::launder(static_cast<F*>(storage))};
    if (requested == action::run) (*guard.callable)();
  }
  /// Producer: builds the callable and hands it over.
  template <class F>
    requires(holds<F> && !std::is_same_v<std::decay_t<F>, erased>)
  void emplace(F&& callable) noexcept {
    using callable_type = std::decay_t<F>;
    ::new (storage()) callable_type(std::forward<F>(callable));
    // release: pairs with the acquire load in ready(); the consumer sees the callable's bytes.
    thunk_.store(&run_or_drop<callable_type>, std::memory_order_release);
  }
  /// Producer: the same for a callable whose type it does not know.
  void emplace(const erased& callable) noexcept {
    callable.type->build(storage(), callable.source);
    thunk_.store(callable.type->call, std::memory_order_release);  // release: as above
  }
  /// Consumer: whether a callable has been handed over.
  bool ready() const noexcept { return thunk_.load(std::memory_order_acquire) != nullptr; }
  /// Consumer, when ready(): runs the callable, destroys it and frees the cell. If it throws, it is
  /// destroyed and the cell freed all the same.
  void run() { take()(storage(), action::run); }
  /// Consumer, when ready(): destroys the callable without running it and frees the cell.
  void drop() noexcept { take()(storage(), action::drop); }

 private:
  // The cell is not reused before its segment is, so it can be marked free before the callable
  // runs; the segment's hand-over to a producer publishes this (see segment.hpp).
  thunk take() noexcept {
    const thunk call = thunk_.load(std::memory_order_relaxed);
    thunk_.store(nullptr, std::memory_order_relaxed);
    return call;
  }

  void* storage() noexcept { return storage_; }

  gyre::detail::atomic<thunk> thunk_{nullptr};
  alignas(void*) std::byte storage_[capacity];
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

/// Calls `claim_and_emplace` with `callable` itself when a cell can hold it, else with a box of it.
template <class F, class Emplace>
void with_cell_sized(F&& callable, Emplace&& claim_and_emplace) {
  if constexpr (task_cell::holds<F>) {
    claim_and_emplace(std::forward<F>(callable));
  } else {
    claim_and_emplace(boxed_task<std::decay_t<F>>(std::forward<F>(callable)));
  }
}

}  // namespace gyre::inbox::detail
