// SPDX-License-Identifier: Apache-2.0
// websocket_test_support: frames of WebSocket as bytes, for tests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace gyre::http::test {

inline constexpr unsigned fin = 0x80;
inline constexpr std::string_view websocket_fields =
    "Connection: keep-alive, Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";  // the example of RFC 6455

/// Returns a frame, written by the tables of RFC 6455. `first`: the first byte.
inline std::string frame(unsigned first, std::string_view payload, bool is_masked = true) {
  std::string text(1, static_cast<char>(first));
  const unsigned mask_bit = is_masked ? 0x80 : 0;
  const std::size_t size = payload.size();
  const auto add = [&](std::uint64_t number, int count) {
    for (int i = count - 1; i >= 0; --i) text += static_cast<char>(number >> (8 * i));
  };
  if (size < 126) {
    add(mask_bit | size, 1);
  } else if (size < 65536) {
    add(mask_bit | 126, 1);
    add(size, 2);
  } else {
    add(mask_bit | 127, 1);
    add(size, 8);
  }
  if (!is_masked) return text.append(payload);
  const std::string_view mask = "\x37\xfa\x21\x3d";
  text += mask;
  for (std::size_t i = 0; i < size; ++i) text += static_cast<char>(payload[i] ^ mask[i % 4]);
  return text;
}

/// Returns the payload of a Close frame.
inline std::string close_payload(unsigned code, std::string_view reason = "") {
  return std::string{static_cast<char>(code >> 8), static_cast<char>(code)}.append(reason);
}

}  // namespace gyre::http::test
