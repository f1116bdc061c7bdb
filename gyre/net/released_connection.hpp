// SPDX-License-Identifier: Apache-2.0
// released_connection: a connection without a loop, on its way from one owner to the next.
//
//     server.on_message([&](gyre::net::tcp_connection& peer, gyre::io::input& input) {
//       gyre::net::released_connection taken = peer.release(input.bytes());
//       gyre::spawn(loop, serve_taken(loop, std::move(taken)));  // by a coroutine from now on
//     });
#pragma once

#include <gyre/base/unique_fd.hpp>
#include <gyre/io/buffer.hpp>
#include <gyre/net/endpoint.hpp>
#include <gyre/net/layer.hpp>

#include <memory>

namespace gyre::net {

/// A connection without an owner. Made by tcp_connection::release() and layered_stream::release(),
/// or from the parts of any stream. Pass it to tcp_server::adopt() or a layered_stream; without a
/// layer, its socket also to the constructor of a stream.
///
/// Thread-safety: none; may be moved to another thread. The destructor closes the connection.
struct released_connection {
  unique_fd socket = {};  ///< connected, and non-blocking
  endpoint peer = {};     ///< none: the peer of the socket
  /// The connection's end of its protocol, established; null for plain bytes. The layer has the
  /// bytes of the network that it has not read yet.
  std::unique_ptr<net::layer> layer = nullptr;
  /// Bytes for the program that were received and not consumed; they come before all others.
  io::buffer received = {};
};

}  // namespace gyre::net
