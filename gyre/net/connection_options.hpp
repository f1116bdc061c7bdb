// SPDX-License-Identifier: Apache-2.0
// connection_options: limits and timeouts of a tcp_connection.
#pragma once

#include <gyre/base/duration.hpp>

#include <chrono>
#include <cstddef>
#include <optional>

namespace gyre::net {

/// Limits and timeouts of a connection. A connection that exceeds a limit or timeout ends: its
/// waiting output is dropped, on_close gets the error, and the peer a reset (only a FIN after
/// `idle_timeout` and `message_timeout`). A timeout may expire late by up to a quarter of its
/// length. A timeout of zero never expires, except `close_timeout` and `close_limit`.
struct connection_options {
  /// Water marks of the output, in bytes: on_high_water is called when `high_water` bytes wait to
  /// be sent, and then on_low_water when no more than `low_water` bytes wait. `low_water` must be
  /// less than `high_water`; by default it is a quarter of `high_water`. Without on_high_water a
  /// server applies back-pressure: it does not read from the connection between the two calls. With
  /// on_high_water, and in a client, the program itself must pause_reading().
  std::size_t high_water = std::size_t{1} << 20;
  std::optional<std::size_t> low_water = std::nullopt;
  /// The maximum size of the waiting output, in bytes. A send() that exceeds it ends the connection
  /// with io::errc::output_limit (std::errc::no_buffer_space).
  std::size_t output_limit = std::size_t{4} << 20;
  /// The maximum number of bytes that on_message may leave unconsumed. A connection with more ends
  /// with io::errc::input_limit (std::errc::no_buffer_space).
  std::size_t input_limit = std::size_t{4} << 20;
  /// The maximum size of one receive, in bytes; up to 8192 bytes may come at once anyway. After
  /// each receive the peer's kernel has more room, so that small ones keep both sides busy; large
  /// ones need fewer system calls. The default is what a loop receives at most.
  std::size_t receive_size = std::size_t{1} << 20;
  /// The maximum number of received descriptors that a Unix connection holds until take_fds() takes
  /// them, or until the connection ends and closes them. A connection with more ends with
  /// io::errc::fd_limit (std::errc::too_many_files_open). With zero, the connection receives no
  /// descriptors.
  std::size_t fd_limit = 0;
  /// The time for which no byte may move in either direction; the error is io::errc::idle_timeout.
  /// By default ten minutes in a server, because connections hold descriptors, and unlimited in a
  /// client.
  std::optional<duration> idle_timeout = std::nullopt;
  /// The time for which a message may be incomplete, however many of its bytes come meanwhile; the
  /// error is io::errc::message_timeout. The time begins when on_message leaves bytes, and ends
  /// when on_message consumes some; a pause of reading restarts it.
  duration message_timeout = std::chrono::minutes{1};
  /// The time for which the peer may take none of the waiting output, whatever the peer sends
  /// meanwhile; the error is io::errc::write_timeout. Bytes are taken when the peer's kernel has
  /// acknowledged them; on a Unix socket, when the peer has read the whole kernel buffer that they
  /// are in, of up to 40,000 bytes. So a Unix peer that reads less than a whole buffer in that time
  /// counts as one that takes nothing.
  duration write_timeout = std::chrono::minutes{1};
  /// The time for which close() waits without progress: while the peer takes no byte of the output,
  /// as for `write_timeout`, and then until the FIN of the peer. Also the time for which a
  /// connection receives after sending has failed. With zero, close() does not wait. A reset is
  /// sent only if output waits; the error: see tcp_connection::close().
  duration close_timeout = std::chrono::seconds{5};
  /// The total time of close(), however much the peer still takes. With zero, close() does not
  /// wait. In tcp_connection::close_when_sent() both times begin later.
  duration close_limit = std::chrono::minutes{5};
  /// TCP_NODELAY: the kernel sends small pieces at once.
  bool no_delay = true;
  /// SO_KEEPALIVE, with the system's times: keepalive probes find out that the peer is gone.
  bool keep_alive = false;
};

}  // namespace gyre::net
