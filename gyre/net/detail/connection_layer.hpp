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

/// Encodes a connection's output when it can be sent: the queue of output holds bytes that are not
/// written to the layer yet, because the order of their records is that of sending.
class connection_layer {
 public:
  explicit connection_layer(std::unique_ptr<layer> protocol) noexcept
      : protocol_(std::move(protocol)) {}

  layer& protocol() const noexcept { return *protocol_; }
  /// Null after take_protocol().
  layer* protocol_or_null() const noexcept { return protocol_.get(); }
  /// For another owner of the connection, which this one has left.
  std::unique_ptr<layer> take_protocol() noexcept { return std::move(protocol_); }
  bool may_write() const noexcept { return protocol_->may_write() && !protocol_->why().code; }
  /// Appends to `output` what is to be sent for these bytes. Throws std::bad_alloc.
  std::error_code write(std::span<const std::byte> plain, io::buffer& output);
  /// Encodes into `sealed`, which the kernel does not read at present, what is to be sent next of
  /// the output of `backlog`; with `ends`, the layer's end after all of it. Returns whether there
  /// was anything in `has_progressed`. Throws std::bad_alloc.
  std::error_code seal_next(connection_backlog& backlog, io::backend& io, bool ends,
                            bool& has_progressed);
  /// Bytes that are encoded and have not been sent.
  std::size_t pending() const noexcept { return sealed.size() + replies.size(); }
  /// The error if the peer's bytes end while output waits for them.
  std::error_code cut_off() const noexcept;

  io::buffer sealed;   // the first to be sent; the kernel may be reading it
  io::buffer replies;  // of the layer itself, to be sent after that

 private:
  std::error_code seal_file_part(attached_output& attached, io::backend& io);

  std::unique_ptr<layer> protocol_;
};

}  // namespace gyre::net::detail
