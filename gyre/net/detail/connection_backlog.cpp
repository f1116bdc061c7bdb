// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/detail/connection_backlog.hpp>

#include <gyre/net/detail/from_loop.hpp>

namespace gyre::net::detail {
namespace {

// Returns the pieces that hold the first `bytes` bytes; cuts the last piece.
std::span<iovec> first_bytes(std::span<iovec> pieces, std::size_t bytes) noexcept {
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    iovec& piece = pieces[i];
    if (piece.iov_len >= bytes) {
      piece.iov_len = bytes;
      return pieces.first(i + 1);
    }
    bytes -= piece.iov_len;
  }
  return pieces;
}

}  // namespace

connection_backlog::connection_backlog(connection_io& owner) noexcept
    : writing(owner, {}, &on_done<&connection_output::on_written>),
      timer(owner, &on_expired<&connection_closing::on_timer_expired>),
      message_timer(owner, &on_expired<&connection_input::on_message_timer_expired>),
      write_timer(owner, &on_expired<&connection_output::on_write_timer_expired>) {}

std::span<iovec> connection_backlog::next_output() noexcept {
  const std::span<iovec> vectors = std::span(pieces).first(output.gather(pieces));
  return attachments == nullptr ? vectors : first_bytes(vectors, attachments->next_bytes());
}

}  // namespace gyre::net::detail
