// SPDX-License-Identifier: Apache-2.0
// timer_operation: an intrusive timer, which its owner embeds, like an operation.
#pragma once

#include <gyre/base/timer_wheel.hpp>

#include <cstdint>

namespace gyre {

/// A timer that an executor's timer_service starts (task/executor.hpp), and the function to call
/// when it expires. Derive from it; starting and cancelling allocate nothing.
///
/// Thread-safety: that of timer_service.
/// Lifetime: must stay alive and in place while it is started and, if it expires on another thread,
/// until its function is called (linked() turns false earlier), which may destroy or restart it.
class timer_operation : public detail::timer_node {
 public:
  using function = void (*)(timer_operation&);
  explicit timer_operation(function run) noexcept : expire_(run) {}
  /// Calls the function. Called by the timer_service.
  void expire() { expire_(*this); }
  /// Returns the address of the code that expire() calls, for reports.
  std::uintptr_t code() const noexcept { return reinterpret_cast<std::uintptr_t>(expire_); }

 private:
  function expire_;
};

}  // namespace gyre
