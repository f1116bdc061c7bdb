// SPDX-License-Identifier: Apache-2.0
#include <lab/harness/http2/session.hpp>

#include <nghttp2/nghttp2.h>

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace lab::http2 {
namespace {

std::string number(std::size_t value, std::size_t bytes) {
  std::string text;
  for (std::size_t i = bytes; i-- > 0;) text += static_cast<char>((value >> (8 * i)) & 0xFFU);
  return text;
}

std::string frame(unsigned type, unsigned flags, std::size_t id, std::string_view payload) {
  return number(payload.size(), 3) + number(type, 1) + number(flags, 1) + number(id, 4) +
         std::string(payload);
}

std::string settings(std::string_view payload = {}) { return frame(4, 0, 0, payload); }

// Fields as literals that are not added to the table.
std::string fields(std::initializer_list<std::array<std::string_view, 2>> pairs) {
  std::string coded;
  for (const auto& [name, value] : pairs) {
    coded += number(0, 1) + number(name.size(), 1) + std::string(name);
    coded += number(value.size(), 1) + std::string(value);
  }
  return coded;
}

const std::string good_fields = fields({{":status", "200"}, {"date", "today"}});

std::string response(std::size_t id, std::string_view body) {
  return frame(1, 4, id, good_fields) + frame(0, 1, id, body);
}

session make_session(std::string_view body = {}) {
  return session({.authority = "localhost", .sent_body = body, .expected_body = "hello"});
}

// A server by nghttp2, which counts the requests and the bytes of their bodies.
struct counting_server {
  counting_server() {
    nghttp2_session_callbacks* callbacks = nullptr;
    nghttp2_session_callbacks_new(&callbacks);
    nghttp2_session_callbacks_set_on_frame_recv_callback(
        callbacks, [](nghttp2_session*, const nghttp2_frame* frame, void* self) {
          if (frame->hd.type == NGHTTP2_HEADERS) ++static_cast<counting_server*>(self)->requests;
          return 0;
        });
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(
        callbacks, [](nghttp2_session*, std::uint8_t, std::int32_t, const std::uint8_t*,
                      std::size_t size, void* self) {
          static_cast<counting_server*>(self)->body_bytes += size;
          return 0;
        });
    nghttp2_session_server_new(&state, callbacks, this);
    nghttp2_session_callbacks_del(callbacks);
    nghttp2_submit_settings(state, NGHTTP2_FLAG_NONE, nullptr, 0);
  }
  ~counting_server() { nghttp2_session_del(state); }

  // Passes bytes in both directions until there are none.
  void exchange(session& client) {
    for (bool has_bytes = true; has_bytes;) {
      std::string& output = client.output();
      has_bytes = !output.empty();
      nghttp2_session_mem_recv(state, reinterpret_cast<const std::uint8_t*>(output.data()),
                               output.size());
      output.clear();
      const std::uint8_t* data = nullptr;
      while (const ssize_t size = nghttp2_session_mem_send(state, &data)) {
        client.receive({reinterpret_cast<const char*>(data), static_cast<std::size_t>(size)});
        has_bytes = true;
      }
    }
  }

  nghttp2_session* state = nullptr;
  std::size_t requests = 0;
  std::size_t body_bytes = 0;
};

TEST(LabHttp2Session, RequestsAndBodiesReachAServer) {
  const std::string body(300'000, 'x');
  auto client = make_session(body);
  counting_server server;
  server.exchange(client);
  ASSERT_TRUE(client.is_ready());
  for (int i = 0; i < 5; ++i) client.request();
  server.exchange(client);
  EXPECT_EQ(server.requests, 5U);
  EXPECT_EQ(server.body_bytes, 5 * body.size());
  client.hold_stream();
  client.ping();
  server.exchange(client);
  EXPECT_TRUE(client.has_pong());
  EXPECT_EQ(server.requests, 6U);
  EXPECT_EQ(client.mistake(), "");
}

TEST(LabHttp2Session, ResponsesInAnyPiecesAreCounted) {
  const std::string bytes = settings() + frame(6, 0, 0, "12345678") + frame(1, 0, 1, "") +
                            frame(9, 4, 1, good_fields) + frame(0, 0, 1, "hel") +
                            response(3, "hello") + frame(0, 9, 1, std::string("\2lo\0\0", 5));
  for (std::size_t size = 1; size <= bytes.size(); ++size) {
    auto client = make_session();
    client.request();
    client.request();
    std::size_t complete = 0;
    for (std::size_t begin = 0; begin < bytes.size(); begin += size) {
      complete += client.receive(std::string_view(bytes).substr(begin, size));
    }
    ASSERT_EQ(client.mistake(), "");
    ASSERT_EQ(complete, 2U);
    ASSERT_EQ(client.streams(), 0U);
  }
}

TEST(LabHttp2Session, ASettingOfTheServerIsHeeded) {
  auto client = make_session();
  client.receive(settings(number(3, 2) + number(7, 4)));
  EXPECT_TRUE(client.is_ready());
  EXPECT_EQ(client.max_streams(), 7U);
}

std::string mistake_of(std::string_view bytes, std::string_view body = {}) {
  auto client = make_session(body);
  client.request();
  client.receive(bytes);
  return client.mistake();
}

TEST(LabHttp2Session, MistakesAreFound) {
  EXPECT_EQ(mistake_of(response(1, "hello")), "");
  EXPECT_EQ(mistake_of(response(1, "help!")), "a body that differs");
  EXPECT_EQ(mistake_of(response(1, "hello!")), "a body that differs");
  EXPECT_EQ(mistake_of(response(1, "hell")), "a body that is too short");
  EXPECT_EQ(mistake_of(response(1, "hello") + response(1, "hello")),
            "fields of a stream that is not open");
  EXPECT_EQ(mistake_of(frame(0, 1, 1, "hello")), "data before the fields");
  EXPECT_EQ(mistake_of(frame(1, 4, 1, fields({{":status", "404"}, {"date", "today"}}))),
            "the status 404");
  EXPECT_EQ(mistake_of(frame(1, 4, 1, fields({{":status", "200"}}))),
            "not one status and one Date");
  EXPECT_EQ(mistake_of(frame(1, 4, 1, good_fields + fields({{"content-length", "6"}}))),
            "a Content-Length that differs");
  EXPECT_EQ(mistake_of(response(1, "hello"), "body"), "a response before the request has ended");
  EXPECT_EQ(mistake_of(frame(3, 0, 1, number(8, 4))), "a stream that is reset");
  EXPECT_EQ(mistake_of(frame(7, 0, 0, number(0, 8))), "GOAWAY");
  EXPECT_EQ(mistake_of(frame(1, 0, 1, good_fields) + settings()), "fields that do not end");
}

TEST(LabHttp2Session, AnUnnoticedRequestIsAMistakeWhenItIsAnswered) {
  auto client = make_session();
  client.request_unnoticed();
  client.receive(response(1, "hello"));
  EXPECT_EQ(client.mistake(), "fields of a stream that is not open");
}

}  // namespace
}  // namespace lab::http2
