// SPDX-License-Identifier: Apache-2.0
// layer_limits: the sizes in which connections read from their layers and write to them.
#pragma once

#include <gyre/io/backend.hpp>
#include <gyre/io/buffer.hpp>

#include <sys/uio.h>

#include <algorithm>
#include <cstddef>
#include <span>

namespace gyre::net::detail {

/// Plain bytes are read in parts of this size. Smaller pieces of output share a write().
inline constexpr std::size_t record_size = std::size_t{16} << 10;
/// The maximum number of bytes that are written to a layer before its output is sent.
inline constexpr std::size_t max_written_at_once = std::size_t{256} << 10;
/// The maximum number of bytes of a file that are read before they are written.
inline constexpr std::size_t max_file_part_size = std::size_t{64} << 10;
/// The maximum number of bytes of replies that a peer causes and does not read.
inline constexpr std::size_t max_reply_bytes = std::size_t{64} << 10;

/// Returns how many bytes to write to a layer before sending: more than the socket may still send
/// in this turn would only wait.
inline std::size_t writable_at_once(const io::backend& io) noexcept {
  return std::clamp(io.share_left(io::direction::write), record_size, max_written_at_once);
}

/// Divides pieces of output into parts, one for each write() to a layer: small pieces that follow
/// each other share a part, a large one is a part by itself.
class record_parts {
 public:
  /// Divides at most `limit` bytes of `pieces`. `buffer` must be empty; small pieces are copied to
  /// it.
  record_parts(std::span<const iovec> pieces, io::buffer& buffer,
               std::size_t limit = std::size_t(-1)) noexcept
      : pieces_(pieces), buffer_(buffer), rest_(limit) {}

  /// Returns the next part, which is valid until the next call; empty after the last part. Throws
  /// std::bad_alloc.
  std::span<const std::byte> next() {
    buffer_.consume_all();
    for (; !pieces_.empty() && rest_ > 0; pieces_ = pieces_.subspan(1)) {
      const iovec& piece = pieces_.front();
      const std::span<const std::byte> bytes(static_cast<const std::byte*>(piece.iov_base),
                                             std::min(piece.iov_len, rest_));
      const bool has_room = buffer_.size() + bytes.size() <= record_size;
      if (!has_room && !buffer_.empty()) break;
      rest_ -= bytes.size();
      if (!has_room) {
        pieces_ = pieces_.subspan(1);
        return bytes;
      }
      buffer_.append(bytes);
    }
    return buffer_.bytes();
  }

 private:
  std::span<const iovec> pieces_;
  io::buffer& buffer_;
  std::size_t rest_;
};

}  // namespace gyre::net::detail
