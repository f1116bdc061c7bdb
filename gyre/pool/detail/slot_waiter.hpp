// SPDX-License-Identifier: Apache-2.0
// slot_waiter: a thread or a coroutine in the queue for a slot of a pool's capacity.
#pragma once

#include <gyre/base/intrusive_list.hpp>

#include <cstddef>
#include <cstdint>

namespace gyre::detail {

/// The answer to a request for a slot.
enum class admission_result : std::uint8_t {
  granted,
  must_wait,  ///< no slot is free, and the caller is to queue for one
  full,       ///< no slot is free, and the caller does not wait
  timed_out,  ///< no slot became free before the deadline
  closed,     ///< the pool accepts no more tasks
};

/// A node of the queue. Stays where it is until its wait is over.
class slot_waiter : public intrusive_list_node {
 public:
  using function = void (*)(slot_waiter&) noexcept;

  /// Takes up to `most` slots where many are free. `wake` is called once, without a lock, at the
  /// end of a wait that was not cancelled; from then on the waiter may be gone.
  explicit slot_waiter(function wake, std::size_t most = 1) noexcept : wake_(wake), most_(most) {}

  /// After the wait: how many slots the waiter has; none if it was closed or cancelled.
  [[nodiscard]] std::size_t granted() const noexcept { return granted_; }
  /// After the wait.
  [[nodiscard]] bool is_cancelled() const noexcept { return stage_ == stage::cancelled; }

 private:
  template <typename>
  friend class basic_capacity;
  enum class stage : std::uint8_t { idle, queued, done, cancelled };

  const function wake_;
  const std::size_t most_;
  // By the lock of the capacity, until the wait is over.
  std::size_t granted_ = 0;
  stage stage_ = stage::idle;
};

}  // namespace gyre::detail
