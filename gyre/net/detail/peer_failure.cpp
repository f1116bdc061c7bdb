// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/detail/peer_failure.hpp>

#include <gyre/io/detail/scratch_buffer.hpp>
#include <gyre/net/detail/system_sockets.hpp>

#include <cstddef>
#include <exception>

namespace gyre::net::detail {

std::error_code read_peer_failure(int fd, layer& protocol, std::error_code sending_error) noexcept
    try {
  constexpr std::size_t received_at_once = std::size_t{16} << 10;
  constexpr int max_reads = 16;
  io::detail::scratch_buffer input;
  io::detail::scratch_buffer plain_bytes;
  io::buffer replies;
  for (int reads = 0; reads < max_reads; ++reads) {
    const auto bytes = input->bytes();
    // The first round has no new bytes: the layer may have kept some that came with the handshake.
    protocol.send_to(replies);
    protocol.feed(bytes);
    const layer::status outcome = protocol.is_established() ? protocol.read_all(*plain_bytes)
                                  : bytes.empty()           ? layer::status::wants_input
                                                            : protocol.handshake();
    if (outcome == layer::status::failed) return protocol.error();
    protocol.keep_unread();
    for (io::buffer* const buffer : {&*input, &*plain_bytes, &replies}) buffer->consume_all();
    const io::result count = system::receive_without_waiting(fd, input->prepare(received_at_once));
    if (!count || count.count() == 0) break;
    input->commit(count.count());
  }
  return sending_error;
} catch (const std::exception&) {
  return sending_error;
}

}  // namespace gyre::net::detail
