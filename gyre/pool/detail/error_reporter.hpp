// SPDX-License-Identifier: Apache-2.0
// error_reporter: passes the exceptions of posted tasks to thread_pool_options::on_exception.
#pragma once

#include <gyre/base/move_only_function.hpp>

#include <atomic>
#include <cstdint>
#include <exception>

namespace gyre::detail {

/// Thread-safety: all members may be called from any thread.
class error_reporter {
 public:
  using handler = move_only_function<void(std::exception_ptr)>;

  /// Lifetime: `on_exception` must outlive this.
  explicit error_reporter(handler& on_exception) noexcept : on_exception_(on_exception) {}

  /// Calls `function`, and the handler with its exception.
  template <class F>
  void guard(F&& function) noexcept {
    try {
      static_cast<void>(function());
    } catch (...) {
      // relaxed: a statistic.
      count_.fetch_add(1, std::memory_order_relaxed);
      on_exception_(std::current_exception());
    }
  }
  std::uint64_t count() const noexcept { return count_.load(std::memory_order_relaxed); }

 private:
  handler& on_exception_;
  std::atomic<std::uint64_t> count_{0};
};

}  // namespace gyre::detail
