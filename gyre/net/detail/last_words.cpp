// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/detail/last_words.hpp>

#include <gyre/base/detail/retry_interrupted.hpp>
#include <gyre/io/detail/scratch_buffer.hpp>

#include <sys/socket.h>

#include <cstddef>
#include <exception>
#include <span>

namespace gyre::net::detail {

std::error_code last_words(int fd, transport_filter& filter,
                           std::error_code sending_failed) noexcept try {
  constexpr std::size_t received_at_once = std::size_t{16} << 10;
  constexpr int most_reads = 16;
  io::detail::scratch_buffer received;
  io::detail::scratch_buffer plain;
  io::buffer replies;
  ssize_t count = 0;
  for (int left = most_reads; left > 0 && count >= 0; --left) {
    const auto bytes = received->bytes().first(static_cast<std::size_t>(count));
    // A filter may hold bytes that came with the handshake.
    const std::error_code failed = filter.is_established() ? filter.open(bytes, *plain, replies)
                                   : bytes.empty()         ? std::error_code()
                                                           : filter.shake_hands(bytes, replies);
    if (failed) return failed;
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
