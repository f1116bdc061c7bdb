// SPDX-License-Identifier: Apache-2.0
// frame_budget: a token bucket that limits how often a peer does something that is allowed, but
// costs the server more than the peer.
#pragma once

#include <gyre/base/clock.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace gyre::http::detail {

/// Thread-safety: none.
class frame_budget {
 public:
  /// `burst`: the tokens at the beginning, and their maximum. `per_second`: those that come back.
  frame_budget(std::uint32_t burst, std::uint32_t per_second, steady_time time) noexcept
      : burst_(burst), per_second_(per_second), tokens_(burst), refilled_(time) {}

  /// Takes a token. Returns false if there is none.
  [[nodiscard]] bool take(steady_time time) noexcept {
    if (tokens_ == 0) refill(time);
    if (tokens_ == 0) return false;
    --tokens_;
    return true;
  }
  /// Returns tokens, because the peer has done something useful.
  void give(std::uint32_t count) noexcept {
    tokens_ = std::min<std::uint64_t>(burst_, tokens_ + count);
  }

 private:
  void refill(steady_time time) noexcept {
    const auto elapsed = std::chrono::duration_cast<std::chrono::seconds>(time - refilled_).count();
    if (elapsed <= 0) return;
    refilled_ = time;
    const std::uint64_t seconds =
        std::min<std::uint64_t>(static_cast<std::uint64_t>(elapsed), 3600);
    tokens_ = std::min<std::uint64_t>(burst_, seconds * per_second_);
  }

  std::uint64_t burst_;
  std::uint64_t per_second_;
  std::uint64_t tokens_;
  steady_time refilled_;
};

}  // namespace gyre::http::detail
