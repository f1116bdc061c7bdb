// SPDX-License-Identifier: Apache-2.0
// connection_closing: the part of a connection that holds its phase and ends it.
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
  /// Whether received bytes are delivered to the program.
  bool delivers() const noexcept { return phase_ <= connection_phase::failed; }
  bool is_closing() const noexcept { return is_open() && !delivers(); }
  connection_phase phase() const noexcept { return phase_; }
  /// Returns the error with which sending has failed, if it has.
  std::error_code failure() const noexcept;

  // tcp_connection documents the close functions below.
  void close() noexcept;
  void close(duration timeout) noexcept;
  void close(duration timeout, duration limit) noexcept;
  void close_when_sent() noexcept;
  void close_without_lingering() noexcept;
  void abort(std::error_code reason) noexcept { end(reason, connection_end::reset); }
  void set_idle_timeout(duration timeout);

  /// Closes the descriptor at once; the connection itself ends in a turn of its own.
  void end(std::error_code reason, connection_end kind) noexcept;
  /// Ends the connection as end() does, but returns the open descriptor for another owner.
  unique_fd leave(std::error_code reason) noexcept;
  /// Changes the phase from open to failed, in which only the peer's last bytes are awaited, or to
  /// ended if no bytes can come.
  void on_sending_failed(std::error_code reason) noexcept;
  /// Sends the FIN after all output, and closes the connection if the peer has ended, too.
  void end_sending() noexcept;
  /// Changes the phase from flushing to lingering, or to ended.
  void linger() noexcept;
  /// Ends the connection if it was idle for longer than the group's timeout. `idle_clock`: the
  /// value of the group's idle_clock().
  void end_if_idle(std::uint8_t idle_clock) noexcept;
  /// Whether the limits of closing begin only after all output is sent.
  bool is_limited_when_sent() const noexcept { return is_limited_when_sent_; }
  void start_timer(progress_timer& timer);
  void on_timer_expired();

 protected:
  explicit connection_closing(std::uint8_t idle_since) noexcept : idle_since_(idle_since) {}
  ~connection_closing() = default;

 private:
  void begin_flushing() noexcept;
  void limit_closing(duration timeout, duration limit);
  void on_closing_timer_expired();
  void stop_timers() noexcept;

  connection_phase phase_ : 4 = connection_phase::open;
  bool lingers_ : 1 = true;                // false after close_without_lingering()
  bool is_limited_when_sent_ : 1 = false;  // set by close_when_sent(), reset by close()
  bool has_own_idle_timeout_ : 1 = false;
  std::uint8_t idle_since_;  // the idle_clock() of the last check that has seen bytes move
};

}  // namespace gyre::net::detail
