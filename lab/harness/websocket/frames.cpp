// SPDX-License-Identifier: Apache-2.0
#include <lab/harness/websocket/frames.hpp>

#include <zlib.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace lab::websocket {
namespace {

// The key of the example in RFC 6455, and the value with which a server accepts it.
constexpr std::string_view key = "dGhlIHNhbXBsZSBub25jZQ==";
constexpr std::string_view accept_value = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";

constexpr std::string_view mask = "\x37\xFA\x21\x3D";
constexpr std::string_view sync_end{"\x00\x00\xFF\xFF", 4};  // bytes that RFC 7692 leaves out
constexpr int raw_window = -15;

constexpr unsigned char final_bit = 0x80;
constexpr unsigned char packed_bit = 0x40;
constexpr unsigned char opcode_binary = 2;
constexpr unsigned char opcode_close = 8;
constexpr unsigned char opcode_ping = 9;
constexpr unsigned char opcode_pong = 10;

unsigned char byte_of(char each) { return static_cast<unsigned char>(each); }

std::string masked_frame(unsigned char first, std::string_view payload) {
  constexpr unsigned char mask_bit = 0x80;
  std::string frame(1, static_cast<char>(first));
  std::size_t length_bytes = 0;
  if (payload.size() < 126) {
    frame += static_cast<char>(mask_bit | payload.size());
  } else {
    length_bytes = payload.size() <= 0xFFFF ? 2 : 8;
    frame += static_cast<char>(mask_bit | (length_bytes == 2 ? 126U : 127U));
  }
  for (std::size_t i = length_bytes; i-- > 0;) {
    frame += static_cast<char>((std::uint64_t{payload.size()} >> (8 * i)) & 0xFFU);
  }
  frame += mask;
  for (std::size_t i = 0; i < payload.size(); ++i) {
    frame += static_cast<char>(byte_of(payload[i]) ^ byte_of(mask[i % mask.size()]));
  }
  return frame;
}

// Whether a message without context unpacks to `expected`.
bool unpacks_to(const std::string& packed, std::string_view expected) {
  z_stream stream{};
  if (inflateInit2(&stream, raw_window) != Z_OK) throw std::runtime_error("inflateInit2");
  std::string whole = packed;
  whole += sync_end;
  std::string unpacked(expected.size() + 1, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(whole.data());
  stream.avail_in = static_cast<uInt>(whole.size());
  stream.next_out = reinterpret_cast<Bytef*>(unpacked.data());
  stream.avail_out = static_cast<uInt>(unpacked.size());
  const int status = inflate(&stream, Z_SYNC_FLUSH);
  const std::size_t size = unpacked.size() - stream.avail_out;
  const bool is_whole = stream.avail_in == 0 && (status == Z_OK || status == Z_STREAM_END);
  inflateEnd(&stream);
  return is_whole && std::string_view(unpacked).substr(0, size) == expected;
}

std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& each : lower) each = static_cast<char>(std::tolower(byte_of(each)));
  return lower;
}

}  // namespace

std::string client_frame(std::string_view payload, bool is_packed) {
  return masked_frame(final_bit | (is_packed ? packed_bit : 0U) | opcode_binary, payload);
}

std::string close_frame() {
  return masked_frame(final_bit | opcode_close, std::string_view("\x03\xE8", 2));
}

std::string pong_frame(std::string_view payload) {
  return masked_frame(final_bit | opcode_pong, payload);
}

std::string packed(std::string_view message) {
  constexpr int level = 6;
  constexpr int memory_level = 8;
  z_stream stream{};
  if (deflateInit2(&stream, level, Z_DEFLATED, raw_window, memory_level, Z_DEFAULT_STRATEGY) !=
      Z_OK) {
    throw std::runtime_error("deflateInit2");
  }
  std::string input(message);
  std::string output(deflateBound(&stream, static_cast<uLong>(input.size())) + 16, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(input.data());
  stream.avail_in = static_cast<uInt>(input.size());
  stream.next_out = reinterpret_cast<Bytef*>(output.data());
  stream.avail_out = static_cast<uInt>(output.size());
  deflate(&stream, Z_SYNC_FLUSH);
  output.resize(output.size() - stream.avail_out);
  deflateEnd(&stream);
  if (!output.ends_with(sync_end)) throw std::runtime_error("deflate has not flushed");
  output.resize(output.size() - sync_end.size());
  return output;
}

std::string make_message(std::size_t size, std::size_t seed) {
  auto state = static_cast<std::uint32_t>(seed * 2'654'435'761U + 1);
  const auto next = [&state] {
    state = state * 1'664'525U + 1'013'904'223U;
    return std::to_string(state >> 12U);
  };
  std::string message = next();
  while (message.size() < size) {
    message += R"({"sensor":")" + next() + R"(","value":)" + next() + R"(,"ok":true},)";
  }
  message.resize(size);
  return message;
}

std::string upgrade_request(std::uint16_t port, std::string_view path, bool offers_packing) {
  std::string text = "GET ";
  text += path;
  text += " HTTP/1.1\r\nHost: 127.0.0.1:" + std::to_string(port);
  text += "\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n";
  text += "Sec-WebSocket-Key: ";
  text += key;
  if (offers_packing) {
    text +=
        "\r\nSec-WebSocket-Extensions: permessage-deflate; server_no_context_takeover; "
        "client_no_context_takeover";
  }
  text += "\r\n\r\n";
  return text;
}

std::string check_upgrade(std::string_view head, bool offers_packing) {
  if (!head.starts_with("HTTP/1.1 101 ")) return "an upgrade that was refused";
  if (!head.contains(accept_value)) return "a wrong Sec-WebSocket-Accept";
  const std::string lower = lower_case(head);
  if (lower.contains("sec-websocket-extensions:") != offers_packing) {
    return offers_packing ? "no permessage-deflate" : "an extension that nothing has offered";
  }
  if (offers_packing && !lower.contains("server_no_context_takeover")) {
    return "compression that keeps its context";
  }
  return {};
}

std::size_t frame_reader::read(std::string_view data) {
  complete_ = 0;
  while (!data.empty() && mistake_.empty()) {
    if (!in_payload_ && !read_header(data)) break;
    const std::size_t size = static_cast<std::size_t>(std::min<std::uint64_t>(left_, data.size()));
    take(data.substr(0, size));
    data.remove_prefix(size);
    left_ -= size;
    if (left_ == 0 && mistake_.empty()) end_frame();
  }
  return complete_;
}

// Takes the bytes of a frame's header from `data`. Returns false while it is incomplete or wrong.
bool frame_reader::read_header(std::string_view& data) {
  while (!data.empty()) {
    header_[header_size_++] = data.front();
    data.remove_prefix(1);
    if (header_size_ < 2) continue;
    const std::size_t length = byte_of(header_[1]);
    if (length > 127) {
      mistake_ = "a masked frame";
      return false;
    }
    const std::size_t length_bytes = length < 126 ? 0 : (length == 126 ? 2 : 8);
    if (header_size_ < 2 + length_bytes) continue;
    left_ = length_bytes == 0 ? length : 0;
    for (std::size_t i = 0; i < length_bytes; ++i) left_ = left_ << 8U | byte_of(header_[2 + i]);
    begin_frame();
    header_size_ = 0;
    return mistake_.empty();
  }
  return false;
}

void frame_reader::begin_frame() {
  const unsigned char first = byte_of(header_[0]);
  const unsigned opcode = first & 0x0FU;
  const unsigned reserved = first & 0x70U;
  is_final_ = (first & final_bit) != 0;
  is_control_ = opcode >= opcode_close;
  in_payload_ = true;
  if (has_close_) mistake_ = "a frame after the Close frame";
  if (is_control_) {
    if (reserved != 0 || !is_final_ || left_ > 125) mistake_ = "a bad control frame";
    control_.clear();
    return;
  }
  if (opcode != (in_message_ ? 0U : opcode_binary)) mistake_ = "a frame of the wrong kind";
  const bool is_first = !std::exchange(in_message_, true);
  if (reserved != (is_first && expects_packed_ ? packed_bit : 0U)) {
    mistake_ = expects_packed_ ? "a message that is not compressed" : "a reserved bit";
  }
}

void frame_reader::take(std::string_view piece) {
  if (is_control_) {
    control_ += piece;
    return;
  }
  if (expects_packed_) {
    packed_ += piece;
    return;
  }
  if (message_.substr(compared_, piece.size()) != piece) mistake_ = "a message that differs";
  compared_ += piece.size();
}

void frame_reader::end_frame() {
  in_payload_ = false;
  if (!is_control_) {
    if (is_final_) end_message();
    return;
  }
  const unsigned opcode = byte_of(header_[0]) & 0x0FU;
  if (opcode == opcode_ping) {
    pongs_ += pong_frame(control_);
  } else if (opcode == opcode_close) {
    has_close_ = true;
    if (!expects_close_) mistake_ = "a Close frame that nothing has asked for";
  }
}

void frame_reader::end_message() {
  in_message_ = false;
  if (expects_packed_) {
    if (packed_ != last_packed_ && !unpacks_to(packed_, message_)) {
      mistake_ = "a message that differs when it is unpacked";
    }
    last_packed_.swap(packed_);
    packed_.clear();
  } else if (compared_ != message_.size()) {
    mistake_ = "a message that is too short";
  }
  compared_ = 0;
  if (mistake_.empty()) ++complete_;
}

}  // namespace lab::websocket
