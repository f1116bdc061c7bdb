// SPDX-License-Identifier: Apache-2.0
// drained_batch: the items that a thread takes from a pool's submissions in one batch.
#pragma once

#include <gyre/pool/detail/callable_ref.hpp>
#include <gyre/pool/detail/pool_task.hpp>

#include <array>
#include <cstddef>

namespace gyre::detail {

/// Runs a callable that has a slot on the current thread, because there is no memory for a task.
class in_place_runner {
 public:
  virtual void run_in_place(callable_ref callable) noexcept = 0;

 protected:
  ~in_place_runner() = default;
};

/// The list to which the cells of the submissions append their tasks when they are "run".
///
/// Thread-safety: belongs to the thread that constructed it.
class drained_batch {
 public:
  static constexpr std::size_t max_items = 256;

  /// Makes this batch the calling thread's current_batch() for its lifetime.
  explicit drained_batch(in_place_runner& runner) noexcept;
  drained_batch& operator=(drained_batch&&) = delete;
  ~drained_batch();

  void add(work_item item) noexcept { items_[size_++] = item; }
  std::size_t size() const noexcept { return size_; }
  work_item operator[](std::size_t index) const noexcept { return items_[index]; }
  void run_in_place(callable_ref callable) noexcept { runner_.run_in_place(callable); }

 private:
  in_place_runner& runner_;
  drained_batch* outer_;
  std::size_t size_ = 0;
  union {  // a union leaves the items uninitialised
    std::array<work_item, max_items> items_;
  };
};

/// Returns the innermost batch of the calling thread, which must have one.
drained_batch& current_batch() noexcept;

}  // namespace gyre::detail
