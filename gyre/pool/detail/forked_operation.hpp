// SPDX-License-Identifier: Apache-2.0
// What one thread puts on offer and another may have taken when the first wants it back.
#pragma once

#include <gyre/base/atomic.hpp>
#include <gyre/base/clock.hpp>
#include <gyre/base/operation.hpp>

#include <cstdint>
#include <exception>
#include <utility>

namespace gyre::detail {

/// An operation on the stack of the thread that offers it, or posts it, which then waits for its
/// end unless it takes it back.
class forked_operation : public operation {
 public:
  /// Whether somebody has begun to run it. A hint; one load.
  bool taken() const noexcept { return word_.load(std::memory_order_relaxed) != 0; }

  /// Returns when it has been run, and runs other things meanwhile, if the thread has any; then
  /// what the operation did happens before the return. The offering thread, which has not got it
  /// back.
  void wait() noexcept;

 protected:
  using operation::operation;
  ~forked_operation() = default;

  /// For the function of the operation: at its begin, if anybody asks for taken(), and as the last
  /// thing it does.
  void begin() noexcept {
    word_.fetch_or(is_taken, std::memory_order_relaxed);  // relaxed: a hint
  }
  void settle() noexcept;

 private:
  static constexpr std::uint32_t is_taken = 1;
  static constexpr std::uint32_t is_settled = 2;
  static constexpr std::uint32_t sleeps = 4;

  bool settled() const noexcept {
    // acquire: pairs with the release in settle().
    return (word_.load(std::memory_order_acquire) & is_settled) != 0;
  }
  void sleep_until(steady_time deadline) noexcept;

  atomic<std::uint32_t> word_{0};
};

/// A call as such an operation; keeps the exception.
template <class F>
class forked_call final : public forked_operation {
 public:
  explicit forked_call(F& callable) noexcept : forked_operation(&run), callable_(callable) {}

  /// Waits, and throws what it threw.
  void join() {
    wait();
    if (error_) std::rethrow_exception(std::move(error_));
  }

 private:
  static void run(operation& self) noexcept {
    auto& call = static_cast<forked_call&>(self);
    try {
      call.callable_();
    } catch (...) {
      call.error_ = std::current_exception();
    }
    call.settle();
  }

  F& callable_;
  std::exception_ptr error_;
};

}  // namespace gyre::detail
