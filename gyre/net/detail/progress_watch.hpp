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
    last_count_ = count;
    unchanged_ = 0;
  }
  /// From now on no longer than that.
  void shorten(std::chrono::nanoseconds timeout) noexcept {
    quarter_ = std::min(quarter_, timeout / quarters + std::chrono::nanoseconds{1});
  }
  std::chrono::nanoseconds quarter() const noexcept { return quarter_; }
  /// To be called once in a quarter: whether `count` has not changed for the whole time.
  bool stalled(std::uint64_t count) noexcept {
    unchanged_ = count == last_count_ ? unchanged_ + 1 : 0;
    last_count_ = count;
    return unchanged_ >= quarters;
  }

 private:
  static constexpr unsigned quarters = 4;

  std::chrono::nanoseconds quarter_{0};
  std::uint64_t last_count_ = 0;
  unsigned unchanged_ = 0;
};

}  // namespace gyre::net::detail
