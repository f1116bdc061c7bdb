// SPDX-License-Identifier: Apache-2.0
// http2_test_support: frames of HTTP/2 as bytes, to write and to read, for tests.
#pragma once

#include <gyre/http/http2_options.hpp>

#include <nghttp2/nghttp2.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gyre::http::test {

inline constexpr std::string_view http2_preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

enum frame_type : std::uint8_t {
  data_frame = 0,
  headers_frame = 1,
  priority_frame = 2,
  reset_frame = 3,
  settings_frame = 4,
  ping_frame = 6,
  goaway_frame = 7,
  window_frame = 8,
  continuation_frame = 9,
};

inline constexpr std::uint8_t end_stream = 1;
inline constexpr std::uint8_t ack = 1;
inline constexpr std::uint8_t end_headers = 4;

inline std::string big_endian(std::uint32_t number, int bytes = 4) {
  std::string text;
  for (int i = bytes - 1; i >= 0; --i) {
    text += static_cast<char>((number >> (8U * static_cast<unsigned>(i))) & 0xffU);
  }
  return text;
}

inline std::uint32_t number_in(std::string_view bytes, std::size_t begin = 0,
                               std::size_t count = 4) {
  std::uint32_t number = 0;
  for (const char each : bytes.substr(begin, count)) {
    number = (number << 8U) | static_cast<unsigned char>(each);
  }
  return number;
}

inline std::string frame(std::uint8_t type, std::uint8_t flags, std::uint32_t stream,
                         std::string_view payload = {}) {
  std::string text = big_endian(static_cast<std::uint32_t>(payload.size()), 3);
  text += static_cast<char>(type);
  text += static_cast<char>(flags);
  text += big_endian(stream);
  return text.append(payload);
}

/// A field in HPACK: a literal that changes no table (RFC 7541, 6.2.2).
inline std::string literal(std::string_view name, std::string_view value) {
  const auto string = [](std::string_view text) {
    std::string coded;
    if (text.size() < 127) {
      coded += static_cast<char>(text.size());
    } else {
      coded += '\x7f';
      std::size_t rest = text.size() - 127;
      for (; rest >= 128; rest /= 128) coded += static_cast<char>(rest % 128 + 128);
      coded += static_cast<char>(rest);
    }
    return coded.append(text);
  };
  return std::string(1, '\0') + string(name) + string(value);
}

using field_texts = std::vector<std::pair<std::string, std::string>>;

inline std::string block_of(const field_texts& fields) {
  std::string block;
  for (const auto& [name, value] : fields) block += literal(name, value);
  return block;
}

inline field_texts request_fields(std::string_view method, std::string_view path,
                                  const field_texts& more = {}) {
  field_texts fields{{":method", std::string(method)},
                     {":scheme", "http"},
                     {":authority", "a"},
                     {":path", std::string(path)}};
  fields.insert(fields.end(), more.begin(), more.end());
  return fields;
}

/// The HEADERS frame of a request.
inline std::string request_frame(std::uint32_t stream, std::string_view method,
                                 std::string_view path, std::uint8_t flags = end_stream,
                                 const field_texts& more = {}) {
  return frame(headers_frame, static_cast<std::uint8_t>(flags | end_headers), stream,
               block_of(request_fields(method, path, more)));
}

/// The beginning of each connection: the preface and empty SETTINGS.
inline std::string client_hello() {
  return std::string(http2_preface) + frame(settings_frame, 0, 0);
}

inline std::string window_update(std::uint32_t stream, std::uint32_t count) {
  return frame(window_frame, 0, stream, big_endian(count));
}

struct received_frame {
  std::uint8_t type = 0;
  std::uint8_t flags = 0;
  std::uint32_t stream = 0;
  std::string payload = {};
};

/// Takes the first whole frame of `bytes`.
inline std::optional<received_frame> take_frame(std::string& bytes) {
  if (bytes.size() < 9) return std::nullopt;
  const std::size_t size = number_in(bytes, 0, 3);
  if (bytes.size() < 9 + size) return std::nullopt;
  received_frame result{.type = static_cast<std::uint8_t>(bytes[3]),
                        .flags = static_cast<std::uint8_t>(bytes[4]),
                        .stream = number_in(bytes, 5),
                        .payload = bytes.substr(9, size)};
  bytes.erase(0, 9 + size);
  return result;
}

inline std::vector<received_frame> take_frames(std::string& bytes) {
  std::vector<received_frame> frames;
  while (auto next = take_frame(bytes)) frames.push_back(std::move(*next));
  return frames;
}

/// Decodes the header blocks of one connection, which depend on each other.
class block_decoder {
 public:
  block_decoder() { nghttp2_hd_inflate_new(&inflater_); }
  block_decoder(const block_decoder&) = delete;
  block_decoder& operator=(const block_decoder&) = delete;
  ~block_decoder() { nghttp2_hd_inflate_del(inflater_); }

  /// Returns "name: value\n" for each field of a block; the date's value as "…".
  std::string decode(std::string_view block) {
    std::string text;
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(block.data());
    std::size_t size = block.size();
    for (;;) {
      nghttp2_nv field{};
      int flags = 0;
      const ssize_t count =
          nghttp2_hd_inflate_hd2(inflater_, &field, &flags, bytes, size, /*in_final=*/1);
      if (count < 0) return text + "(malformed)";
      bytes += count;
      size -= static_cast<std::size_t>(count);
      if ((flags & NGHTTP2_HD_INFLATE_EMIT) != 0) {
        const std::string name(reinterpret_cast<const char*>(field.name), field.namelen);
        const std::string value(reinterpret_cast<const char*>(field.value), field.valuelen);
        text += name + ": " + (name == "date" ? "…" : value) + '\n';
      }
      if ((flags & NGHTTP2_HD_INFLATE_FINAL) != 0) break;
    }
    nghttp2_hd_inflate_end_headers(inflater_);
    return text;
  }

 private:
  nghttp2_hd_inflater* inflater_ = nullptr;
};

/// Frames as lines, such as "HEADERS 1 end :status: 200; server: a" or "DATA 1 end hello". A head
/// of several frames is one line.
class frame_printer {
 public:
  std::string print(const received_frame& frame) {
    if (frame.type == headers_frame || frame.type == continuation_frame) return print_head(frame);
    const bool ends = (frame.flags & end_stream) != 0;
    const std::string stream = std::to_string(frame.stream) + (ends ? " end" : "");
    switch (frame.type) {
      case data_frame:
        return "DATA " + stream + ' ' +
               (frame.payload.size() > 100 ? std::to_string(frame.payload.size()) + " bytes"
                                           : frame.payload) +
               '\n';
      case reset_frame:
        return "RST_STREAM " + stream + ' ' + std::to_string(number_in(frame.payload)) + '\n';
      case settings_frame: return ends ? "SETTINGS ack\n" : "SETTINGS\n";
      case ping_frame: return ends ? "PING ack\n" : "PING\n";
      case goaway_frame:
        return "GOAWAY last " + std::to_string(number_in(frame.payload)) + " error " +
               std::to_string(number_in(frame.payload, 4)) + '\n';
      case window_frame:
        return "WINDOW_UPDATE " + std::to_string(frame.stream) + ' ' +
               std::to_string(number_in(frame.payload)) + '\n';
      default: return "frame of type " + std::to_string(frame.type) + '\n';
    }
  }
  std::string print(std::string& bytes) {
    std::string text;
    while (const auto next = take_frame(bytes)) text += print(*next);
    return text;
  }

 private:
  std::string print_head(const received_frame& frame) {
    if (frame.type == headers_frame) head_ = {.flags = frame.flags, .stream = frame.stream};
    head_.payload += frame.payload;
    if ((frame.flags & end_headers) == 0) return "";
    std::string fields = decoder_.decode(head_.payload);
    for (char& each : fields) {
      if (each == '\n') each = ';';
    }
    return "HEADERS " + std::to_string(head_.stream) +
           ((head_.flags & end_stream) != 0 ? " end " : " ") + fields + '\n';
  }

  block_decoder decoder_;
  received_frame head_;  // a head whose CONTINUATION frames have yet to come
};

/// The frames of a head whose block is longer than a frame.
inline std::string long_head(std::uint32_t stream, std::uint8_t flags, std::string_view block) {
  constexpr std::size_t max_frame = 16'384;
  std::string frames;
  for (std::size_t begin = 0; begin < block.size(); begin += max_frame) {
    const bool is_last = block.size() - begin <= max_frame;
    frames += frame(begin == 0 ? headers_frame : continuation_frame,
                    static_cast<std::uint8_t>((begin == 0 ? flags : 0) |
                                              (is_last ? end_headers : std::uint8_t{0})),
                    stream, block.substr(begin, max_frame));
  }
  return frames;
}

}  // namespace gyre::http::test
