// SPDX-License-Identifier: Apache-2.0
// connection_options: limits and time-outs of a tcp_connection.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>

namespace gyre::net {

/// Limits and time-outs of a connection.
struct connection_options {
  /// Water marks of the output, in bytes: on_high_water is called when `high_water` bytes wait to
  /// be sent, and then on_low_water when no more than `low_water` do. `low_water` must be below
  /// `high_water`; by default it is a quarter of it. A server without on_high_water does not read
  /// from the connection in between, so that a peer that takes no answers sends no further
  /// questions; a client reads on.
  std::size_t high_water = std::size_t{1} << 20;
  std::optional<std::size_t> low_water = std::nullopt;
  /// Bytes of output that may wait. A send() above that ends the connection with
  /// std::errc::no_buffer_space.
  std::size_t output_limit = std::size_t{4} << 20;
  /// Bytes that on_message may leave unconsumed. More end the connection with the same error.
  std::size_t input_limit = std::size_t{4} << 20;
  /// Descriptors that a Unix connection holds until take_fds(). More of them end it with
  /// std::errc::too_many_files_open. The connection closes the ones that are left when it ends.
  /// Zero: it receives none, and the kernel closes them.
  std::size_t fd_limit = 0;
  /// Ends a connection with io::errc::idle_timeout when no byte has moved in either direction for
  /// this time (up to a quarter more). Zero: never. By default ten minutes for a server, as
  /// connections hold descriptors, never for a client. Costs no memory, and nothing per message.
  std::optional<std::chrono::nanoseconds> idle_timeout = std::nullopt;
  /// Ends a connection with std::errc::timed_out when a message has been incomplete for this time
  /// (up to a quarter more), however many of its bytes come meanwhile. The time runs from when
  /// on_message leaves bytes until it consumes some; a pause of reading restarts it. Zero: never.
  std::chrono::nanoseconds message_timeout = std::chrono::minutes{1};
  /// Ends a connection with std::errc::timed_out when output waits and the peer has taken none of
  /// it for this time (up to a quarter more), however little that is and whatever the peer sends
  /// meanwhile. Bytes count as taken when the peer's kernel has acknowledged them; on a Unix
  /// socket, when the peer has read a whole piece as it was sent, at most 40,000 bytes. A Unix peer
  /// that reads fewer in that time counts as one that reads nothing. close() has times of its own,
  /// in which bytes count in the same way. Zero: never.
  std::chrono::nanoseconds write_timeout = std::chrono::minutes{1};
  /// How long close() waits (up to a quarter more) while the peer takes no byte of the output, and
  /// then for the peer's end; and how long a connection on which sending has failed goes on
  /// receiving. A slow peer gets everything, unless that takes longer than `close_limit`.
  std::chrono::nanoseconds close_timeout = std::chrono::seconds{5};
  /// How long close() waits in all, however much the peer still takes.
  std::chrono::nanoseconds close_limit = std::chrono::minutes{5};
  /// TCP_NODELAY: the kernel sends small pieces at once.
  bool no_delay = true;
  /// SO_KEEPALIVE: the kernel finds out when the peer's machine is gone.
  bool keep_alive = false;
};

}  // namespace gyre::net
