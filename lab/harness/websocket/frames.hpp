// SPDX-License-Identifier: Apache-2.0
// The frames of WebSocket (RFC 6455) as a client of the lab makes and reads them, with
// permessage-deflate (RFC 7692) without context takeover.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace lab::websocket {

/// A frame that a client sends: final, masked, with a binary message. `is_packed`: the payload is
/// compressed.
std::string client_frame(std::string_view payload, bool is_packed);

/// A client's Close frame with the code 1000.
std::string close_frame();

/// A client's reply to a ping.
std::string pong_frame(std::string_view payload);

/// A message as permessage-deflate carries it, compressed at level 6 without regard to others.
std::string packed(std::string_view message);

/// Binary messages that compress like records of JSON. Messages of different seeds differ.
std::string make_message(std::size_t size, std::size_t seed);

/// The request that opens a WebSocket at this path. `offers_packing`: it offers permessage-deflate
/// without context takeover in either direction.
std::string upgrade_request(std::uint16_t port, std::string_view path, bool offers_packing);

/// Checks the head of the response to upgrade_request(). Returns an empty text, or the mistake.
std::string check_upgrade(std::string_view head, bool offers_packing);

/// Reads the frames that a server sends on one connection, and checks them: none is masked, all
/// data are messages with the same expected bytes, in any number of frames, and compressed when,
/// and only when, packing was offered.
class frame_reader {
 public:
  /// Lifetime: `message` must outlive the reader.
  frame_reader(std::string_view message, bool expects_packed)
      : message_(message), expects_packed_(expects_packed) {}

  /// Reads the next bytes. Returns the number of messages that are complete now.
  std::size_t read(std::string_view data);

  /// From now on, the server may send a Close frame.
  void expect_close() { expects_close_ = true; }
  bool has_close() const { return has_close_; }
  /// Whether the connection is between two frames and two messages.
  bool is_between() const { return !in_message_ && !in_payload_ && header_size_ == 0; }

  /// The frames that reply to the pings read so far; the caller sends them and clears the text.
  std::string& pongs() { return pongs_; }
  const std::string& mistake() const { return mistake_; }

 private:
  bool read_header(std::string_view& data);
  void begin_frame();
  void take(std::string_view piece);
  void end_frame();
  void end_message();

  std::string_view message_;
  bool expects_packed_;
  bool expects_close_ = false;
  bool has_close_ = false;
  bool in_message_ = false;
  bool in_payload_ = false;
  bool is_control_ = false;
  bool is_final_ = false;
  std::array<char, 10> header_{};
  std::size_t header_size_ = 0;
  std::uint64_t left_ = 0;    // bytes of the frame's payload that have not come
  std::size_t compared_ = 0;  // bytes of the message that were compared
  std::size_t complete_ = 0;  // messages that the present call of read() has completed
  std::string packed_;        // the compressed bytes of the message
  std::string last_packed_;   // the compressed bytes of the last message that was right
  std::string control_;       // the payload of a control frame
  std::string pongs_;
  std::string mistake_;
};

}  // namespace lab::websocket
