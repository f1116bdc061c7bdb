// SPDX-License-Identifier: Apache-2.0
// Support for tests: the bytes of a peer that pretends to be a PostgreSQL server.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace gyre::test {

/// A message with its kind and length.
inline std::string server_bytes(char kind, std::string_view body = {}) {
  const auto length = static_cast<std::uint32_t>(body.size() + 4);
  std::string message(1, kind);
  for (int shift = 24; shift >= 0; shift -= 8) {
    message.push_back(static_cast<char>(length >> shift & 0xff));
  }
  return message.append(body);
}
/// ReadyForQuery.
inline std::string ready_bytes(char status = 'I') {
  return server_bytes('Z', std::string_view(&status, 1));
}
/// A login of a server that asks nothing, with the key for cancel requests.
inline std::string login_bytes() {
  return server_bytes('R', std::string_view("\0\0\0\0", 4)) +
         server_bytes('K', std::string_view("\0\0\0\1key!", 8)) + ready_bytes();
}
/// The replies to a statement that is prepared, without parameters and with one column.
inline std::string prepared_bytes() {
  return server_bytes('1') + server_bytes('t', std::string_view("\0\0", 2)) +
         server_bytes('T', std::string_view(
                               "\0\1a\0\0\0\0\0\0\0\0\0\0\x19\xff\xff\xff\xff\xff\xff\0\0", 22)) +
         ready_bytes();
}
inline std::string row_bytes(std::string_view value) {
  std::string body("\0\1\0\0\0", 5);
  body.push_back(static_cast<char>(value.size()));
  return server_bytes('D', body.append(value));
}
inline std::string tag_bytes(std::string_view tag) {
  return server_bytes('C', std::string(tag) + '\0');
}

}  // namespace gyre::test
