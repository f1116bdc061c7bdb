// SPDX-License-Identifier: Apache-2.0
// websocket_clock: the time limit that applies to a WebSocket at a time.
#pragma once

#include <gyre/base/clock.hpp>
#include <gyre/base/duration.hpp>
#include <gyre/http/detail/websocket_settings.hpp>

#include <chrono>
#include <cstdint>

namespace gyre::http::detail {

/// | phase | begins | lasts at most | and then |
/// |---|---|---|---|
/// | idle | with a byte, and at the end of a message | timeouts.keep_alive | a ping is sent |
/// | pinged | with a ping | timeouts.pong, unless a byte comes | silent_peer |
/// | message | with the first byte of a message | timeouts.message | Close 1008, message_timeout |
/// | closing | when this side has sent Close | timeouts.close | the socket ends |
///
/// Thread-safety: none.
/// Complexity: 8 bytes, as each idle socket has one: the time is kept in units of 4 ns, with the
/// phase in the lowest two bits.
class websocket_clock {
 public:
  explicit websocket_clock(steady_time now) noexcept { begin(phase::idle, now); }

  /// Notes that bytes of the peer have come, so that the peer is alive.
  void note_input(steady_time now) noexcept {
    if (current() <= phase::pinged) begin(phase::idle, now);
  }
  /// Called when a message has come in part. Does nothing if it has begun before.
  void begin_message(steady_time now) noexcept {
    if (current() <= phase::pinged) begin(phase::message, now);
  }
  void end_message(steady_time now) noexcept {
    if (current() == phase::message) begin(phase::idle, now);
  }
  void note_ping(steady_time now) noexcept {
    if (current() == phase::idle) begin(phase::pinged, now);
  }
  void note_close(steady_time now) noexcept {
    if (current() != phase::closing) begin(phase::closing, now);
  }
  bool awaits_pong() const noexcept { return current() == phase::pinged; }
  /// Returns the end of the phase; max() if nothing limits it.
  steady_time deadline(const websocket_settings& settings) const noexcept {
    const duration limit = limit_of(settings.timeouts);
    if (limit.count() == 0) return steady_time::max();
    return gyre::detail::later(steady_time(std::chrono::nanoseconds(begin_ & ~phase_bits)), limit);
  }

 private:
  enum class phase : std::uint8_t { idle, pinged, message, closing };
  static constexpr std::int64_t phase_bits = 3;

  phase current() const noexcept { return static_cast<phase>(begin_ & phase_bits); }
  void begin(phase next, steady_time now) noexcept {
    begin_ = (now.time_since_epoch().count() & ~phase_bits) | static_cast<std::int64_t>(next);
  }
  duration limit_of(const websocket_timeouts& timeouts) const noexcept {
    switch (current()) {
      case phase::idle: return timeouts.keep_alive;
      case phase::pinged: return timeouts.pong;
      case phase::message: return timeouts.message;
      case phase::closing: break;
    }
    return timeouts.close;
  }

  std::int64_t begin_;  // nanoseconds of steady_time, and the phase
};

}  // namespace gyre::http::detail
