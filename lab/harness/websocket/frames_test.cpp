// SPDX-License-Identifier: Apache-2.0
#include <lab/harness/websocket/frames.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <string_view>

namespace lab::websocket {
namespace {

// Returns a frame as a server sends it, without a mask.
std::string server_frame(unsigned first, std::string_view payload) {
  std::string frame(1, static_cast<char>(first));
  if (payload.size() < 126) {
    frame += static_cast<char>(payload.size());
  } else {
    frame += static_cast<char>(126);
    frame += static_cast<char>(payload.size() >> 8U);
    frame += static_cast<char>(payload.size() & 0xFFU);
  }
  return frame.append(payload);
}

std::string mistake_of(std::string_view message, bool expects_packed, std::string_view bytes) {
  frame_reader reader(message, expects_packed);
  reader.read(bytes);
  return reader.mistake();
}

TEST(LabWebSocketFrames, ClientFramesHaveTheLengthAndTheMask) {
  EXPECT_EQ(client_frame("ab", false), "\x82\x82\x37\xFA\x21\x3D\x56\x98");
  EXPECT_EQ(client_frame(std::string(126, 'x'), true).substr(0, 4),
            std::string("\xC2\xFE\0\x7E", 4));
  EXPECT_EQ(client_frame(std::string(65536, 'x'), false).substr(0, 10),
            std::string("\x82\xFF\0\0\0\0\0\1\0\0", 10));
}

TEST(LabWebSocketFrames, AMessageInAnyPiecesIsCounted) {
  const std::string message = make_message(300, 7);
  const std::string bytes = server_frame(0x02, message.substr(0, 100)) +
                            server_frame(0x89, "ping") + server_frame(0x80, message.substr(100)) +
                            server_frame(0x82, message);
  for (std::size_t size = 1; size <= bytes.size(); ++size) {
    frame_reader reader(message, false);
    std::size_t complete = 0;
    for (std::size_t begin = 0; begin < bytes.size(); begin += size) {
      complete += reader.read(std::string_view(bytes).substr(begin, size));
    }
    ASSERT_EQ(reader.mistake(), "");
    ASSERT_EQ(complete, 2U);
    ASSERT_EQ(reader.pongs(), pong_frame("ping"));
    ASSERT_TRUE(reader.is_between());
  }
}

TEST(LabWebSocketFrames, ACompressedMessageIsUnpacked) {
  const std::string message = make_message(1000, 3);
  EXPECT_LT(packed(message).size(), 700U);
  frame_reader reader(message, true);
  EXPECT_EQ(reader.read(server_frame(0xC2, packed(message))), 1U);
  EXPECT_EQ(reader.read(server_frame(0xC2, packed(message))), 1U);
  EXPECT_EQ(reader.mistake(), "");
  EXPECT_EQ(reader.read(server_frame(0xC2, packed(make_message(1000, 4)))), 0U);
  EXPECT_EQ(reader.mistake(), "a message that differs when it is unpacked");
}

TEST(LabWebSocketFrames, MistakesAreFound) {
  EXPECT_EQ(mistake_of("abc", false, server_frame(0x82, "abx")), "a message that differs");
  EXPECT_EQ(mistake_of("abc", false, server_frame(0x82, "abcd")), "a message that differs");
  EXPECT_EQ(mistake_of("abc", false, server_frame(0x82, "ab")), "a message that is too short");
  EXPECT_EQ(mistake_of("abc", false, server_frame(0x81, "abc")), "a frame of the wrong kind");
  EXPECT_EQ(mistake_of("abc", false, server_frame(0x80, "abc")), "a frame of the wrong kind");
  EXPECT_EQ(mistake_of("abc", false, server_frame(0xC2, "abc")), "a reserved bit");
  EXPECT_EQ(mistake_of("abc", true, server_frame(0x82, "abc")), "a message that is not compressed");
  EXPECT_EQ(mistake_of("abc", false, client_frame("abc", false)), "a masked frame");
  EXPECT_EQ(mistake_of("abc", false, server_frame(0x09, "abc")), "a bad control frame");
  EXPECT_EQ(mistake_of("abc", false, server_frame(0x88, "")),
            "a Close frame that nothing has asked for");
}

TEST(LabWebSocketFrames, NothingMayFollowAClose) {
  frame_reader reader("abc", false);
  reader.expect_close();
  EXPECT_EQ(reader.read(server_frame(0x88, "\x03\xE8")), 0U);
  EXPECT_TRUE(reader.has_close());
  EXPECT_EQ(reader.mistake(), "");
  reader.read(server_frame(0x82, "abc"));
  EXPECT_EQ(reader.mistake(), "a frame after the Close frame");
}

TEST(LabWebSocketFrames, TheUpgradeIsChecked) {
  const std::string head =
      "HTTP/1.1 101 Switching Protocols\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n";
  const std::string extension = "Sec-WebSocket-Extensions: permessage-deflate";
  EXPECT_EQ(check_upgrade(head + "\r\n", false), "");
  EXPECT_EQ(check_upgrade(head + extension + "; server_no_context_takeover\r\n\r\n", true), "");
  EXPECT_NE(check_upgrade(head + extension + "\r\n\r\n", true), "");
  EXPECT_NE(check_upgrade(head + extension + "\r\n\r\n", false), "");
  EXPECT_NE(check_upgrade(head + "\r\n", true), "");
  EXPECT_NE(check_upgrade("HTTP/1.1 200 OK\r\n\r\n", false), "");
  EXPECT_NE(check_upgrade("HTTP/1.1 101 Switching Protocols\r\n\r\n", false), "");
}

}  // namespace
}  // namespace lab::websocket
