// SPDX-License-Identifier: Apache-2.0
// body_clock: the time limit of a request's body.
#pragma once

#include <gyre/base/clock.hpp>
#include <gyre/http/server_options.hpp>

#include <chrono>
#include <cstdint>
#include <optional>
#include <utility>

namespace gyre::http::detail {

/// Counts the time in which the client may send the body. The time in which the handler does not
/// wait for bytes does not count.
///
/// Thread-safety: none.
class body_clock {
 public:
  void begin(steady_time time) noexcept { begin_ = time; }
  bool is_paused() const noexcept { return paused_at_.has_value(); }
  void pause(steady_time time) noexcept { paused_at_ = time; }
  /// Continues. Requires is_paused().
  void resume(steady_time time) noexcept {
    begin_ += time - *std::exchange(paused_at_, std::nullopt);
  }
  /// Returns when the time limit expires after `received_bytes` bytes, if there is one.
  std::optional<steady_time> deadline(const server_timeouts& limits,
                                      std::uint64_t received_bytes) const noexcept {
    if (limits.body.count() == 0) return std::nullopt;
    const steady_time deadline = gyre::detail::later(begin_, limits.body);
    if (limits.body_rate == 0) return deadline;
    const std::chrono::duration<std::uint64_t> extension(
        received_bytes / static_cast<std::uint64_t>(limits.body_rate));
    return gyre::detail::later(deadline, extension);
  }

 private:
  steady_time begin_{};
  std::optional<steady_time> paused_at_;
};

}  // namespace gyre::http::detail
