// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/detail/last_words.hpp>

#include <gyre/base/detail/retry_interrupted.hpp>
#include <gyre/io/detail/scratch_buffer.hpp>

#include <sys/socket.h>

#include <cstddef>
#include <exception>
#include <span>

namespace gyre::net::detail {

std::error_code last_words(int fd, layer& protocol, std::error_code sending_failed) noexcept try {
  constexpr std::size_t received_at_once = std::size_t{16} << 10;
  constexpr int most_reads = 16;
  io::detail::scratch_buffer received;
  io::detail::scratch_buffer plain;
  io::buffer replies;
  ssize_t count = 0;
  for (int left = most_reads; left > 0 && count >= 0; --left) {
    const auto bytes = received->bytes().first(static_cast<std::size_t>(count));
    // The layer may have kept bytes that came with the handshake.
    protocol.send_to(replies);
    protocol.feed(bytes);
    const layer::status now = protocol.is_established() ? protocol.read_all(*plain)
                              : bytes.empty()           ? layer::status::wants_input
                                                        : protocol.handshake();
    if (now == layer::status::failed) return protocol.error();
    protocol.keep_unread();
    for (io::buffer* const each : {&*received, &*plain, &replies}) each->consume_all();
    const std::span<std::byte> room = received->prepare(received_at_once);
    count = gyre::detail::retry_interrupted(
        [&] { return ::recv(fd, room.data(), room.size(), MSG_DONTWAIT); });
    if (count == 0) break;
    if (count > 0) received->commit(static_cast<std::size_t>(count));
  }
  return sending_failed;
} catch (const std::exception&) {
  return sending_failed;
}

}  // namespace gyre::net::detail
