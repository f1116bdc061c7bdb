// SPDX-License-Identifier: Apache-2.0
// connection_handlers: callbacks of a tcp_connection, and their setters in servers and clients.
#pragma once

#include <gyre/base/detail/misuse.hpp>
#include <gyre/base/move_only_function.hpp>
#include <gyre/io/input.hpp>

#include <cstddef>
#include <system_error>
#include <utility>

namespace gyre::net {

class tcp_connection;

/// Callbacks of connections. Set them by the functions of tcp_server and tcp_client, which the
/// members' comments name. A callback may do anything, even destroy the server or client.
///
/// Thread-safety: called on the connection's loop, from its turns only, never within a member
/// function of a connection. The loops of a server call the same functions at the same time.
/// Errors: an exception aborts the connection (on_close gets io::errc::aborted), and goes to the
/// loop's on_exception; from on_close it only goes there. std::bad_alloc, and a lack of memory for
/// received bytes, ends the connection with std::errc::not_enough_memory instead.
struct connection_handlers {
  /// on_connection: the connection has begun.
  move_only_function<void(tcp_connection&)> connected;
  /// on_message: bytes were received. Bytes that the function does not consume are kept, and
  /// precede the new bytes in the next call: when more bytes are received, or after pause_reading()
  /// and resume_reading().
  move_only_function<void(tcp_connection&, io::input&)> message;
  /// on_write_complete: the kernel has taken all output. Called in a later turn, never within
  /// send(), and once for several sends; not after close().
  move_only_function<void(tcp_connection&)> write_complete;
  /// on_high_water, on_low_water: the output has reached a water mark; `bytes` of it wait. The
  /// two are called in turn. A rise that is over before the loop's next turn is not reported.
  move_only_function<void(tcp_connection&, std::size_t bytes)> high_water;
  move_only_function<void(tcp_connection&)> low_water;
  /// on_peer_ended: the peer has sent its FIN, but may still receive. The connection stays until
  /// close() or its own FIN (shutdown_send()). Without this function, the FIN works like close().
  move_only_function<void(tcp_connection&)> peer_ended;
  /// on_close: the last call for the connection; `reason` is not an error after a graceful close by
  /// either end. The reference is valid until the function returns.
  move_only_function<void(tcp_connection&, std::error_code reason)> closed;
};

namespace detail {

GYRE_MISUSED_CALLBACK(misused_connection_callback,
                      "the callback takes (gyre::net::tcp_connection&)", void(tcp_connection&));
GYRE_MISUSED_CALLBACK(misused_message_callback,
                      "the callback takes (gyre::net::tcp_connection&, gyre::io::input&)",
                      void(tcp_connection&, io::input&));
GYRE_MISUSED_CALLBACK(misused_mark_callback,
                      "the callback takes (gyre::net::tcp_connection&, std::size_t)",
                      void(tcp_connection&, std::size_t));
GYRE_MISUSED_CALLBACK(misused_close_callback,
                      "the callback takes (gyre::net::tcp_connection&, std::error_code)",
                      void(tcp_connection&, std::error_code));
GYRE_MISUSED_CALLBACK(misused_error_callback, "the callback takes (std::error_code)",
                      void(std::error_code));
GYRE_MISUSED_CALLBACK(misused_attempt_callback,
                      "the callback takes (std::error_code, std::size_t attempts, bool last)",
                      void(std::error_code, std::size_t, bool));

}  // namespace detail

/// CRTP base of tcp_server and tcp_client: setters of their connection_handlers, which return the
/// owner for chaining. Errors: std::logic_error after start(), or after the first connect().
template <class Owner>
class connection_handler_setters {
 public:
  /// Sets connection_handlers::connected: a connection has begun.
  Owner& on_connection(move_only_function<void(tcp_connection&)> callback) {
    return set(&connection_handlers::connected, std::move(callback));
  }
  /// Sets connection_handlers::message: bytes were received.
  Owner& on_message(move_only_function<void(tcp_connection&, io::input&)> callback) {
    return set(&connection_handlers::message, std::move(callback));
  }
  /// Sets connection_handlers::write_complete: the kernel has taken all output.
  Owner& on_write_complete(move_only_function<void(tcp_connection&)> callback) {
    return set(&connection_handlers::write_complete, std::move(callback));
  }
  /// Sets connection_handlers::high_water: much output waits.
  Owner& on_high_water(move_only_function<void(tcp_connection&, std::size_t)> callback) {
    return set(&connection_handlers::high_water, std::move(callback));
  }
  /// Sets connection_handlers::low_water: the output has shrunk again.
  Owner& on_low_water(move_only_function<void(tcp_connection&)> callback) {
    return set(&connection_handlers::low_water, std::move(callback));
  }
  /// Sets connection_handlers::peer_ended: the peer sends no more.
  Owner& on_peer_ended(move_only_function<void(tcp_connection&)> callback) {
    return set(&connection_handlers::peer_ended, std::move(callback));
  }
  /// Sets connection_handlers::closed: the last call for a connection.
  Owner& on_close(move_only_function<void(tcp_connection&, std::error_code)> callback) {
    return set(&connection_handlers::closed, std::move(callback));
  }

  // This overload explains wrong arguments: see base/detail/misuse.hpp.
  Owner& on_connection(detail::misused_connection_callback explained);
  Owner& on_message(detail::misused_message_callback explained);
  Owner& on_write_complete(detail::misused_connection_callback explained);
  Owner& on_high_water(detail::misused_mark_callback explained);
  Owner& on_low_water(detail::misused_connection_callback explained);
  Owner& on_peer_ended(detail::misused_connection_callback explained);
  Owner& on_close(detail::misused_close_callback explained);

 private:
  friend Owner;
  connection_handler_setters() = default;
  template <class Handler>
  Owner& set(Handler connection_handlers::* handler, Handler callback) {
    auto& owner = static_cast<Owner&>(*this);
    owner.settable_handlers().*handler = std::move(callback);
    return owner;
  }
};

}  // namespace gyre::net
