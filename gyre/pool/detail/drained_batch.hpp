// SPDX-License-Identifier: Apache-2.0
// drained_batch: the items that a worker has taken from the submissions at once.
#pragma once

#include <gyre/pool/detail/pool_task.hpp>

#include <array>
#include <cstddef>

namespace gyre::detail {

class pool_core;

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

class drained_batch {
 public:
  static constexpr std::size_t max_items = 256;

  /// Becomes the calling thread's current_batch() until its end.
  explicit drained_batch(pool_core& pool) noexcept;
  drained_batch(const drained_batch&) = delete;
  drained_batch& operator=(const drained_batch&) = delete;
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

}  // namespace gyre::detail
