// SPDX-License-Identifier: Apache-2.0
// connection_options: limits and timeouts of a tcp_connection.
#pragma once

#include <gyre/base/duration.hpp>

#include <chrono>
#include <cstddef>
#include <optional>

namespace gyre::net {

/// Limits and timeouts of a connection. A connection that exceeds one ends: its waiting output is
/// dropped, on_close gets the error, and the peer a reset (only a FIN after `idle_timeout` and
/// `message_timeout`). A timeout may expire late by up to a quarter of its length. Zero: never, but
/// see `close_timeout`.
struct connection_options {
  /// Water marks of the output, in bytes: on_high_water is called when `high_water` bytes wait to
  /// be sent, and then on_low_water when no more than `low_water` do, which must be below it (by
  /// default a quarter of it). Without on_high_water a server applies back-pressure: it does not
  /// read from the connection between the two calls. With on_high_water, and in a client, the
  /// program itself must pause_reading().
  std::size_t high_water = std::size_t{1} << 20;
  std::optional<std::size_t> low_water = std::nullopt;
  /// Bytes of output that may wait. A send() above that ends the connection with
  /// io::errc::output_limit (std::errc::no_buffer_space).
  std::size_t output_limit = std::size_t{4} << 20;
  /// Bytes that on_message may leave unconsumed. More end the connection with io::errc::input_limit
  /// (std::errc::no_buffer_space).
  std::size_t input_limit = std::size_t{4} << 20;
  /// Received descriptors that a Unix connection holds until take_fds(), or else closes at its end.
  /// More end it with io::errc::fd_limit (std::errc::too_many_files_open). Zero: it receives none.
  std::size_t fd_limit = 0;
  /// Time in which no byte has moved in either direction; the error is io::errc::idle_timeout.
  /// Default: ten minutes in a server, as connections hold descriptors, and never in a client.
  std::optional<duration> idle_timeout = std::nullopt;
  /// Time for which a message may be incomplete, however many of its bytes come meanwhile; the
  /// error is io::errc::message_timeout. It runs from when on_message leaves bytes until it
  /// consumes some; a pause of reading restarts it.
  duration message_timeout = std::chrono::minutes{1};
  /// Time in which output waits and the peer takes none of it, whatever the peer sends meanwhile;
  /// the error is io::errc::write_timeout. Bytes are taken when the peer's kernel has acknowledged
  /// them; on a Unix socket, when the peer has read the whole kernel buffer that they are in, of up
  /// to 40,000 bytes. So a Unix peer that reads less than that counts as one that takes none.
  duration write_timeout = std::chrono::minutes{1};
  /// Time without progress in close(): while the peer takes no byte of the output (as above), and
  /// then until its FIN. Also the time for which a connection receives after sending has failed.
  /// Zero: no wait. A reset is sent only if output waits; the error: see tcp_connection::close().
  duration close_timeout = std::chrono::seconds{5};
  /// Time of close() in all, however much the peer still takes. Zero: no wait. Both begin later in
  /// tcp_connection::close_when_sent().
  duration close_limit = std::chrono::minutes{5};
  /// TCP_NODELAY: the kernel sends small pieces at once.
  bool no_delay = true;
  /// SO_KEEPALIVE, with the system's times: keepalive probes find out that the peer is gone.
  bool keep_alive = false;
};

}  // namespace gyre::net
