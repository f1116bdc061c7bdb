// SPDX-License-Identifier: Apache-2.0
// progress_watch: detects that a count has not moved for a time, by four samples within it.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace gyre::net::detail {

/// Sampled by a timer that expires once in a quarter(): so progress costs nothing but its counting,
/// and a standstill is noticed up to a quarter late.
class progress_watch {
 public:
  /// Begins anew: `count` is to change within `timeout`.
  void start(std::chrono::nanoseconds timeout, std::uint64_t count) noexcept {
    quarter_ = timeout / quarters + std::chrono::nanoseconds{1};
    seen_ = count;
    quiet_ = 0;
  }
  /// From now on no longer than that.
  void shorten(std::chrono::nanoseconds timeout) noexcept {
    quarter_ = std::min(quarter_, timeout / quarters + std::chrono::nanoseconds{1});
  }
  std::chrono::nanoseconds quarter() const noexcept { return quarter_; }
  /// To be called once in a quarter: whether `count` has not changed for the whole time.
  bool stalled(std::uint64_t count) noexcept {
    quiet_ = count == seen_ ? quiet_ + 1 : 0;
    seen_ = count;
    return quiet_ >= quarters;
  }

 private:
  static constexpr unsigned quarters = 4;

  std::chrono::nanoseconds quarter_{0};
  std::uint64_t seen_ = 0;
  unsigned quiet_ = 0;
};

}  // namespace gyre::net::detail
