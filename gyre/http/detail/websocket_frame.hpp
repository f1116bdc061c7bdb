// SPDX-License-Identifier: Apache-2.0
// websocket_frame: headers of WebSocket frames (RFC 6455, 5.2), and masking.
#pragma once

#include <gyre/base/endian.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace gyre::http::detail {

enum class websocket_opcode : std::uint8_t {
  continuation = 0,
  text = 1,
  binary = 2,
  close = 8,
  ping = 9,
  pong = 10,
};

constexpr bool is_control(websocket_opcode opcode) noexcept {
  return (static_cast<unsigned>(opcode) & 8U) != 0;
}

using websocket_mask = std::array<std::byte, 4>;

struct websocket_header {
  static constexpr std::size_t max_size = 14;
  static constexpr std::uint64_t max_control = 125;  ///< bytes of a control frame

  bool is_final = true;
  std::uint8_t reserved = 0;  ///< RSV1 (4), RSV2 (2) and RSV3 (1)
  websocket_opcode opcode = websocket_opcode::binary;
  bool is_masked = false;
  std::uint64_t length = 0;
  websocket_mask mask{};

  /// Returns the size of the header that begins with these two bytes.
  static constexpr std::size_t size_of(std::byte, std::byte second) noexcept {
    const auto length_code = std::to_integer<unsigned>(second & std::byte{0x7f});
    const std::size_t extra = length_code == 127 ? 8 : (length_code == 126 ? 2 : 0);
    return 2 + extra + ((second & std::byte{0x80}) != std::byte{} ? 4 : 0);
  }
  /// Whether the length is written in the fewest bytes, and is no negative number.
  bool has_valid_length = true;

  /// Reads a whole header of size_of() bytes.
  void read(const std::byte* bytes) noexcept {
    const auto first = std::to_integer<unsigned>(bytes[0]);
    const auto second = std::to_integer<unsigned>(bytes[1]);
    is_final = (first & 0x80U) != 0;
    reserved = static_cast<std::uint8_t>(first >> 4 & 7U);
    opcode = static_cast<websocket_opcode>(first & 15U);
    is_masked = (second & 0x80U) != 0;
    length = second & 0x7fU;
    has_valid_length = true;
    bytes += 2;
    if (length == 126) {
      length = load_be<std::uint16_t>(bytes);
      has_valid_length = length >= 126;
      bytes += 2;
    } else if (length == 127) {
      length = load_be<std::uint64_t>(bytes);
      has_valid_length = length > 0xffff && length >> 63 == 0;
      bytes += 8;
    }
    if (is_masked) std::memcpy(mask.data(), bytes, mask.size());
  }

  /// Writes the header, and returns its size.
  std::size_t write(std::span<std::byte, max_size> target) const noexcept {
    const unsigned first = (is_final ? 0x80U : 0U) | static_cast<unsigned>(reserved) << 4 |
                           static_cast<unsigned>(opcode);
    const unsigned mask_bit = is_masked ? 0x80U : 0U;
    target[0] = static_cast<std::byte>(first);
    std::size_t size = 2;
    if (length <= max_control) {
      target[1] = static_cast<std::byte>(mask_bit | static_cast<unsigned>(length));
    } else if (length <= 0xffff) {
      target[1] = static_cast<std::byte>(mask_bit | 126U);
      store_be(target.data() + 2, static_cast<std::uint16_t>(length));
      size += 2;
    } else {
      target[1] = static_cast<std::byte>(mask_bit | 127U);
      store_be(target.data() + 2, length);
      size += 8;
    }
    if (is_masked) {
      std::memcpy(target.data() + size, mask.data(), mask.size());
      size += mask.size();
    }
    return size;
  }
};

/// Copies `source` to `target`, masked or unmasked. `phase`: the position of the first byte in the
/// payload. `target` may be the memory of `source`.
inline void copy_masked(std::span<const std::byte> source, std::byte* target,
                        const websocket_mask& mask, std::uint64_t phase) noexcept {
  // The mask from `phase` on, twice.
  std::array<std::byte, 8> repeated;
  std::memcpy(repeated.data(), mask.data(), mask.size());
  std::memcpy(repeated.data() + mask.size(), mask.data(), mask.size());
  std::uint32_t half;
  std::memcpy(&half, repeated.data() + phase % mask.size(), sizeof(half));
  const std::uint64_t key = half | std::uint64_t{half} << 32;
  const std::byte* masked = source.data();
  std::size_t count = source.size();
  // The compilers make vector instructions of this loop.
  std::array<std::uint64_t, 8> words;
  for (; count >= sizeof(words); count -= sizeof(words)) {
    std::memcpy(words.data(), masked, sizeof(words));
    for (std::uint64_t& each : words) each ^= key;
    std::memcpy(target, words.data(), sizeof(words));
    masked += sizeof(words);
    target += sizeof(words);
  }
  for (; count >= sizeof(key); count -= sizeof(key)) {
    std::uint64_t word;
    std::memcpy(&word, masked, sizeof(word));
    word ^= key;
    std::memcpy(target, &word, sizeof(word));
    masked += sizeof(key);
    target += sizeof(key);
  }
  std::memcpy(repeated.data(), &key, sizeof(key));
  for (std::size_t i = 0; i < count; ++i) target[i] = masked[i] ^ repeated[i];
}

}  // namespace gyre::http::detail
