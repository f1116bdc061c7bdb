// SPDX-License-Identifier: Apache-2.0
// Steps of a layer without a connection: bytes that came in, and output for a buffer.
#pragma once

#include <gyre/io/buffer.hpp>
#include <gyre/net/layer.hpp>

#include <cstddef>
#include <span>
#include <system_error>

namespace gyre::test {

/// The layer's failure after an operation with this status, or no error.
inline std::error_code failure_of(const net::layer& protocol, net::layer::status now) {
  return now == net::layer::status::failed ? protocol.why().code : std::error_code();
}

inline std::error_code shake_hands(net::layer& protocol, std::span<const std::byte> received,
                                   io::buffer& output) {
  protocol.send_to(output);
  protocol.feed(received);
  const net::layer::status now = protocol.handshake();
  protocol.keep_unread();
  return failure_of(protocol, now);
}

inline std::error_code read_all(net::layer& protocol, std::span<const std::byte> received,
                                io::buffer& plain, io::buffer& output) {
  protocol.send_to(output);
  protocol.feed(received);
  const net::layer::status now = protocol.read_all(plain);
  protocol.keep_unread();
  return failure_of(protocol, now);
}

inline std::error_code write(net::layer& protocol, std::span<const std::byte> bytes,
                             io::buffer& output) {
  protocol.send_to(output);
  return failure_of(protocol, protocol.write(bytes));
}

}  // namespace gyre::test
