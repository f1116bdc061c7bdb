// SPDX-License-Identifier: Apache-2.0
// progress_timer: detects that a count of bytes has not changed for a whole timeout.
#pragma once

#include <gyre/base/timer_operation.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace gyre::net::detail {

class connection_io;

/// Samples a count once in a quarter() of a timeout, so that progress costs only its counting, and
/// a stall is detected up to a quarter late.
class progress_timer final : public timer_operation {
 public:
  progress_timer(connection_io& connection, function on_expiry) noexcept
      : timer_operation(on_expiry), owner(&connection) {}

  /// Restarts the timeout: `count` must change within `timeout`.
  void watch(std::chrono::nanoseconds timeout, std::uint64_t count) noexcept {
    quarter_of_timeout_ = timeout / quarters + std::chrono::nanoseconds{1};
    last_count_ = count;
    unchanged_checks_ = 0;
  }
  /// Reduces the timeout that is being watched, if `timeout` is shorter.
  void shorten(std::chrono::nanoseconds timeout) noexcept {
    quarter_of_timeout_ =
        std::min(quarter_of_timeout_, timeout / quarters + std::chrono::nanoseconds{1});
  }
  std::chrono::nanoseconds quarter() const noexcept { return quarter_of_timeout_; }
  /// Returns whether `count` has not changed for the whole timeout. Must be called once in a
  /// quarter().
  bool stalled(std::uint64_t count) noexcept {
    unchanged_checks_ = count == last_count_ ? unchanged_checks_ + 1 : 0;
    last_count_ = count;
    return unchanged_checks_ >= quarters;
  }

  connection_io* const owner;

 private:
  static constexpr unsigned quarters = 4;

  std::chrono::nanoseconds quarter_of_timeout_{0};
  std::uint64_t last_count_ = 0;
  unsigned unchanged_checks_ = 0;
};

}  // namespace gyre::net::detail
