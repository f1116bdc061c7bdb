// SPDX-License-Identifier: Apache-2.0
// io::errc: the errors of reading and writing that gyre itself reports, besides the system's.
//
//     auto read = co_await gyre::as_expected(stream.read_exactly(header));
//     if (!read && read.error() == gyre::io::errc::unexpected_end) co_return;  // the peer hung up
#pragma once

#include <system_error>
#include <type_traits>

namespace gyre::io {

/// Errors of streams, sockets and connections that no system call reported. Their messages describe
/// what happened, and name the setting that decided. Most are also equal to the std::errc in the
/// comment, for code that does not distinguish them from the system's errors.
enum class errc {
  /// The stream ended before all requested bytes had come.
  unexpected_end = 1,
  /// The delimiter does not appear within the limit, or the frame is longer than the limit.
  limit_exceeded = 2,
  /// A connection moved no byte for its idle_timeout; std::errc::timed_out.
  idle_timeout = 3,

  // The next codes are errors of operations of coroutines.

  /// The handshake of a net::layer did not end in time; std::errc::timed_out.
  operation_timeout = 4,
  /// The stream, socket or listener was closed, released or destroyed while the operation waited;
  /// std::errc::operation_canceled.
  closed = 5,
  /// The stream was closed, or moved from, before the operation; std::errc::bad_file_descriptor.
  not_open = 6,
  /// Another coroutine already reads (writes, accepts); std::errc::operation_in_progress.
  busy = 7,
  /// The operation began on another thread than its loop's; std::errc::operation_not_permitted.
  wrong_thread = 8,

  // The next codes are errors of connections of tcp_server and tcp_client: see
  // net::connection_options and the other options.

  message_timeout = 9,   ///< message_timeout; std::errc::timed_out
  write_timeout = 10,    ///< write_timeout; std::errc::timed_out
  close_timeout = 11,    ///< close_timeout or close_limit of close(); std::errc::timed_out
  connect_timeout = 12,  ///< connect_timeout of a client or a pool; std::errc::timed_out
  output_limit = 13,     ///< output_limit; std::errc::no_buffer_space
  input_limit = 14,      ///< input_limit; std::errc::no_buffer_space
  memory_limit = 15,     ///< tcp_server_options::memory_limit; std::errc::no_buffer_space
  fd_limit = 16,         ///< fd_limit; std::errc::too_many_files_open
  /// abort() was called, or a handler threw an exception; std::errc::connection_aborted.
  aborted = 17,
  /// The kernel connected a socket to itself; std::errc::connection_refused.
  connected_to_itself = 18,

  // The next codes are errors of messages in a stream.

  frame_too_long = 19,    ///< the maximum size of the framing; std::errc::message_size
  bad_frame_length = 20,  ///< a length that counts itself is too small; std::errc::bad_message
  wrong_frame_size = 21,  ///< another size than that of fixed frames; std::errc::message_size
  bad_proxy_header = 22,  ///< no header of the PROXY protocol; std::errc::protocol_error
  /// proxy_protocol_options::limit; std::errc::message_size.
  proxy_header_too_long = 23,

  // The next codes are errors of clients of coroutines.

  /// max_waiting of a connection_pool or a reconnecting_client;
  /// std::errc::resource_unavailable_try_again.
  waiting_limit = 24,

  // The next codes are errors of files.

  /// All inotify watches of the user are in use; std::errc::no_space_on_device.
  watch_limit = 25,
  /// The path of a recursive watch leads elsewhere: its directory, or one above it, was renamed.
  watch_moved = 26,
};

/// Returns the category of errc, "gyre.io". Any thread.
const std::error_category& error_category() noexcept;

inline std::error_code make_error_code(errc error) noexcept {
  return {static_cast<int>(error), error_category()};
}

}  // namespace gyre::io

template <>
struct std::is_error_code_enum<gyre::io::errc> : std::true_type {};
