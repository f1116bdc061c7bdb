// SPDX-License-Identifier: Apache-2.0
// connection_layer: the layer of a callback connection, and the output that it has encoded.
#pragma once

#include <gyre/io/backend.hpp>
#include <gyre/io/buffer.hpp>
#include <gyre/net/detail/connection_backlog.hpp>
#include <gyre/net/layer.hpp>

#include <cstddef>
#include <memory>
#include <span>
#include <system_error>
#include <utility>

namespace gyre::net::detail {

/// Encodes a connection's output only when it can be sent: the order of the layer's records is that
/// of sending. Until then the output queue holds bytes that are not written to the layer.
class connection_layer {
 public:
  explicit connection_layer(std::unique_ptr<layer> protocol) noexcept
      : protocol_(std::move(protocol)) {}

  layer& protocol() const noexcept { return *protocol_; }
  /// Returns the layer, or null after take_protocol().
  layer* protocol_or_null() const noexcept { return protocol_.get(); }
  /// Returns the layer for the next owner of the socket.
  std::unique_ptr<layer> take_protocol() noexcept { return std::move(protocol_); }
  bool may_write() const noexcept { return protocol_->may_write() && !protocol_->why().code; }
  /// Encodes `plain_bytes`, and appends the bytes to be sent to `output`. Throws std::bad_alloc.
  std::error_code write(std::span<const std::byte> plain_bytes, io::buffer& output);
  /// Encodes the next output of `backlog` into `sealed_output`, which the kernel must not be
  /// reading; with `ends`, also the layer's end after all output. Sets `has_progressed` to whether
  /// there was anything to encode. Throws std::bad_alloc.
  std::error_code seal_next(connection_backlog& backlog, io::backend& io, bool ends,
                            bool& has_progressed);
  /// Returns the number of bytes that are encoded and not sent.
  std::size_t pending() const noexcept { return sealed_output.size() + replies.size(); }
  /// Returns the error for a peer whose bytes end while output waits for them.
  std::error_code cut_off() const noexcept;

  io::buffer sealed_output;  // encoded output, sent first; the kernel may be reading these bytes
  io::buffer replies;        // messages of the layer itself, sent after `sealed_output`

 private:
  std::error_code seal_file_part(attached_output& attachments, io::backend& io);

  std::unique_ptr<layer> protocol_;
};

}  // namespace gyre::net::detail
