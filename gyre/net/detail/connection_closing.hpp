// SPDX-License-Identifier: Apache-2.0
// connection_closing: the part of a connection that leads it through its phases to its end.
#pragma once

#include <gyre/base/duration.hpp>
#include <gyre/base/unique_fd.hpp>
#include <gyre/net/detail/connection_phase.hpp>

#include <cstdint>
#include <system_error>

namespace gyre::net::detail {

class connection_io;
class progress_timer;

/// The phase of a connection, its changes, and the timeouts that cause them. A base of
/// connection_io.
///
/// Thread-safety: none; belongs to the loop's thread.
class connection_closing {
 public:
  bool is_open() const noexcept { return phase_ != connection_phase::ended; }
  bool has_failed() const noexcept { return phase_ == connection_phase::failed; }
  /// Whether received bytes are the program's.
  bool delivers() const noexcept { return phase_ <= connection_phase::failed; }
  bool is_closing() const noexcept { return is_open() && !delivers(); }
  connection_phase phase() const noexcept { return phase_; }
  /// The error of sending, if that has failed.
  std::error_code failure() const noexcept;

  // tcp_connection documents these.
  void close() noexcept;
  void close(duration timeout) noexcept;
  void close(duration timeout, duration limit) noexcept;
  void close_when_sent() noexcept;
  void close_without_lingering() noexcept;
  void abort(std::error_code reason) noexcept { end(reason, connection_end::reset); }
  void set_idle_timeout(duration timeout);

  /// Closes the descriptor at once; the connection itself ends in a turn of its own.
  void end(std::error_code reason, connection_end kind) noexcept;
  /// As end(), but gives the descriptor to another owner.
  unique_fd leave(std::error_code reason) noexcept;
  /// Goes from open to failed: only the peer's last bytes are still awaited. Goes to ended where
  /// these cannot come.
  void sending_failed(std::error_code reason) noexcept;
  /// Sends the FIN after all output; what follows depends on the peer.
  void end_sending() noexcept;
  /// Goes from flushing to lingering, or to ended.
  void linger() noexcept;
  /// Ends a connection of an idle timeout of the group; `present` is the group's idle_clock().
  void end_if_idle(std::uint8_t present) noexcept;
  /// Whether the limits of closing begin only after all output is sent.
  bool is_limited_when_sent() const noexcept { return limited_when_sent_; }
  void start_timer(progress_timer& timer);
  void timer_expired();

 protected:
  explicit connection_closing(std::uint8_t idle_since) noexcept : idle_since_(idle_since) {}
  ~connection_closing() = default;

 private:
  void begin_flushing() noexcept;
  void limit_closing(duration timeout, duration limit);
  void closing_timer_expired();
  void stop_timers() noexcept;

  connection_phase phase_ : 4 = connection_phase::open;
  bool lingers_ : 1 = true;             // after its output: see close_without_lingering()
  bool limited_when_sent_ : 1 = false;  // see close_when_sent()
  bool has_own_idle_timeout_ : 1 = false;
  std::uint8_t idle_since_;  // the group's idle_clock() when end_if_idle() saw a change
};

}  // namespace gyre::net::detail
