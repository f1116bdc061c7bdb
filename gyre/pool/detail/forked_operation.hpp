// SPDX-License-Identifier: Apache-2.0
// forked_operation: a part of a fork, which another thread may steal before its owner takes it
// back.
#pragma once

#include <gyre/base/atomic.hpp>
#include <gyre/base/clock.hpp>
#include <gyre/base/operation.hpp>

#include <cstdint>
#include <exception>
#include <utility>

namespace gyre::detail {

/// The operation is on the stack of the thread that offers or posts it. That thread takes the
/// operation back, or waits for its end.
class forked_operation : public operation {
 public:
  /// Whether a thread has begun to run the operation. A hint that costs one load.
  bool is_taken() const noexcept { return word_.load(std::memory_order_relaxed) != 0; }

  /// Waits until the operation has run, and runs other work meanwhile. Called by the thread that
  /// offered the operation, unless it has taken the operation back. The run happens before the
  /// return.
  void wait() noexcept;

 protected:
  using operation::operation;
  ~forked_operation() = default;

  /// The operation's function must call finish() last, and begin() first if is_taken() matters.
  void begin() noexcept {
    word_.fetch_or(taken_bit, std::memory_order_relaxed);  // relaxed: is_taken() is a hint
  }
  void finish() noexcept;

 private:
  static constexpr std::uint32_t taken_bit = 1;
  static constexpr std::uint32_t finished_bit = 2;
  static constexpr std::uint32_t sleeping_bit = 4;

  bool is_finished() const noexcept {
    // acquire: pairs with the release in finish().
    return (word_.load(std::memory_order_acquire) & finished_bit) != 0;
  }
  void sleep_until(steady_time deadline) noexcept;

  atomic<std::uint32_t> word_{0};
};

/// A call as a forked operation; stores the exception of the call.
template <class F>
class forked_call final : public forked_operation {
 public:
  explicit forked_call(F& callable) noexcept : forked_operation(&run), callable_(callable) {}

  /// Waits for the end of the call, and throws its exception.
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
    call.finish();
  }

  F& callable_;
  std::exception_ptr error_;
};

}  // namespace gyre::detail
