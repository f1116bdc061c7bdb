// SPDX-License-Identifier: Apache-2.0
// exception_guard: calls functions of the pool's user and passes their exceptions to on_exception.
#pragma once

#include <gyre/base/move_only_function.hpp>

#include <atomic>
#include <cstdint>
#include <exception>

namespace gyre::detail {

/// Thread-safety: all members may be called from any thread.
class exception_guard {
 public:
  using handler = move_only_function<void(std::exception_ptr)>;

  /// Lifetime: `on_exception`, which must not throw, must outlive the guard.
  explicit exception_guard(handler& on_exception) noexcept : on_exception_(on_exception) {}

  template <class F>
  void call(F&& function) noexcept {
    try {
      static_cast<void>(function());
    } catch (...) {
      exceptions_.fetch_add(1, std::memory_order_relaxed);  // relaxed: the counter is a statistic
      on_exception_(std::current_exception());
    }
  }
  std::uint64_t exceptions() const noexcept {
    return exceptions_.load(std::memory_order_relaxed);  // relaxed: the counter is a statistic
  }

 private:
  handler& on_exception_;
  std::atomic<std::uint64_t> exceptions_{0};
};

}  // namespace gyre::detail
