// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/detail/http2_session.hpp>

#include <gyre/http/http2_test_support.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace http2_session_test {
namespace {

using namespace gyre::http::test;
using namespace std::chrono_literals;
using gyre::http::http2_client_options;
using gyre::http::http2_options;
using gyre::http::detail::head_limits;
using gyre::http::detail::header_block;
using gyre::http::detail::http2_abuse;
using gyre::http::detail::http2_body_source;
using gyre::http::detail::http2_error;
using gyre::http::detail::http2_event;
using gyre::http::detail::http2_session;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

/// The body of a response, whose last `held_back` bytes cannot be taken until release().
class text_body final : public http2_body_source {
 public:
  explicit text_body(std::string text, std::size_t held_back = 0)
      : text_(std::move(text)), held_back_(held_back) {}

  offer offer_bytes(std::size_t max_size) noexcept override {
    const std::size_t size = std::min(text_.size() - held_back_, max_size);
    return {.size = size, .is_last = size == text_.size()};
  }
  bool take_bytes(gyre::io::buffer& output, std::size_t size) override {
    if (is_broken) return false;
    output.append(std::string_view(text_).substr(0, size));
    text_.erase(0, size);
    return true;
  }
  const header_block* trailers() const noexcept override { return &fields; }
  void release() noexcept { held_back_ = 0; }
  /// Drops the bytes that are held back.
  void truncate() {
    text_.resize(text_.size() - held_back_);
    held_back_ = 0;
  }

  header_block fields;
  bool is_broken = false;

 private:
  std::string text_;
  std::size_t held_back_;
};

/// A session, with its events and frames as lines.
struct side {
  explicit side(const http2_options& options = {}, const head_limits& fields = {})
      : session(options, fields) {}
  side(const http2_client_options& options, const head_limits& fields) : session(options, fields) {}

  /// Passes bytes on in turns of `max_work`, and returns their work. Expects each turn's work to be
  /// below `limit`.
  std::size_t work_of(std::string_view bytes, std::size_t max_work, std::size_t limit) {
    gyre::io::input input(bytes);
    std::size_t all = 0;
    while (!input.empty()) {
      session.receive(input, time, max_work);
      events();
      const std::size_t work = session.take_work();
      EXPECT_LT(work, limit);
      all += work;
    }
    return all;
  }
  /// Passes bytes on, at most `piece` at a time, and returns the events.
  std::string receive(std::string_view bytes, std::size_t piece = 1'000'000,
                      std::size_t max_work = http2_session::unlimited_work) {
    std::string text;
    while (!bytes.empty()) {
      gyre::io::input input(bytes.substr(0, piece));
      bytes.remove_prefix(std::min(piece, bytes.size()));
      while (!input.empty()) {
        session.receive(input, time, max_work);
        text += events();
      }
    }
    return text;
  }
  std::string events() {
    std::string text;
    while (const auto event = session.next_event()) {
      const std::string stream = std::to_string(event->stream);
      switch (event->what) {
        case http2_event::kind::request:
        case http2_event::kind::refused:
          text += (event->what == http2_event::kind::request ? "request " : "refused ") + stream +
                  (event->is_end ? " end " : " ") + fields() + '\n';
          break;
        case http2_event::kind::data:
          text +=
              "data " + stream + ' ' +
              std::string(reinterpret_cast<const char*>(event->bytes.data()), event->bytes.size()) +
              '\n';
          break;
        case http2_event::kind::end: text += "end " + stream + ' ' + fields() + '\n'; break;
        case http2_event::kind::response:
          text += "response " + stream + (event->is_end ? " end " : " ") + fields() + '\n';
          break;
        case http2_event::kind::interim: text += "interim " + stream + ' ' + fields() + '\n'; break;
        case http2_event::kind::sent: text += "sent " + stream + '\n'; break;
        case http2_event::kind::closed:
          text +=
              "closed " + stream + ' ' + std::to_string(static_cast<unsigned>(event->error)) + '\n';
          break;
      }
    }
    return text;
  }
  std::string fields() const {
    std::string text;
    for (std::size_t i = 0; i < session.head().size(); ++i) {
      const auto field = session.head()[i];
      text.append(field.name).append("=").append(field.value).append(";");
    }
    return text;
  }
  std::string send() {
    gyre::io::buffer output;
    while (session.append_output(output, time)) {
    }
    std::string bytes(output.text());
    return printer.print(bytes);
  }
  void respond(std::int32_t stream, http2_body_source* body) {
    header_block head;
    head.add(":status", "200");
    session.respond(stream, head, body);
  }
  /// Begins the connection, and drops the frames of its beginning.
  void begin() {
    receive(client_hello());
    send();
    receive(frame(settings_frame, ack, 0));
  }

  gyre::steady_time time{1000h};
  http2_session session;
  frame_printer printer;
};

TEST(Http2Session, BeginsWithSettings) {
  side server;
  EXPECT_EQ(server.send(), "SETTINGS\nWINDOW_UPDATE 0 196609\n");
  EXPECT_EQ(server.receive(client_hello()), "");
  EXPECT_EQ(server.send(), "SETTINGS ack\n");
}

TEST(Http2Session, ReadsRequestsCutAnywhere) {
  const std::string bytes = client_hello() + request_frame(1, "GET", "/a") +
                            request_frame(3, "POST", "/b", 0, {{"content-length", "5"}}) +
                            frame(data_frame, 0, 3, "hel") + frame(data_frame, end_stream, 3, "lo");
  for (const std::size_t piece : {1U, 2U, 3U, 7U, 10U, 1000U}) {
    side server;
    std::string events = server.receive(bytes, piece);
    // A frame's body bytes may come in several events.
    for (std::string_view cut : {"\ndata 3 "}) {
      std::size_t first = events.find(cut);
      for (std::size_t next; (next = events.find(cut, first + 1)) != std::string::npos;) {
        events.erase(next, cut.size());
      }
    }
    EXPECT_EQ(events,
              "request 1 end :method=GET;:scheme=http;:authority=a;:path=/a;\n"
              "request 3 :method=POST;:scheme=http;:authority=a;:path=/b;content-length=5;\n"
              "data 3 hello\nend 3 \n")
        << piece;
  }
}

TEST(Http2Session, ReadsContinuedHeadsAndTrailers) {
  side server;
  server.begin();
  const std::string block = block_of(request_fields("POST", "/"));
  const std::string request = frame(headers_frame, 0, 1, block.substr(0, 20)) +
                              frame(continuation_frame, 0, 1, block.substr(20, 10));
  EXPECT_EQ(server.receive(request), "");
  EXPECT_TRUE(server.session.awaits_rest_of_head());
  EXPECT_EQ(server.receive(frame(continuation_frame, end_headers, 1, block.substr(30))),
            "request 1 :method=POST;:scheme=http;:authority=a;:path=/;\n");
  EXPECT_FALSE(server.session.awaits_rest_of_head());
  EXPECT_EQ(server.receive(frame(data_frame, 0, 1, "x") +
                           frame(headers_frame, end_stream | end_headers, 1, literal("t", "1"))),
            "data 1 x\nend 1 t=1;\n");
}

TEST(Http2Session, SendsAResponseAndClosesTheStream) {
  side server;
  server.begin();
  server.receive(request_frame(1, "GET", "/"));
  text_body body("hello");
  server.respond(1, &body);
  EXPECT_EQ(server.send(), "HEADERS 1 :status: 200;\nDATA 1 end hello\n");
  EXPECT_EQ(server.events(), "sent 1\nclosed 1 0\n");
  server.receive(request_frame(3, "GET", "/"));
  server.respond(3, nullptr);
  EXPECT_EQ(server.send(), "HEADERS 3 end :status: 200;\n");
  EXPECT_EQ(server.events(), "sent 3\nclosed 3 0\n");
}

TEST(Http2Session, WaitsForABodyThatIsNotThereYet) {
  side server;
  server.begin();
  server.receive(request_frame(1, "GET", "/"));
  text_body body("hello", 2);
  body.fields.add("t", "1");
  server.respond(1, &body);
  EXPECT_EQ(server.send(), "HEADERS 1 :status: 200;\nDATA 1 hel\n");
  EXPECT_EQ(server.send(), "");
  body.release();
  EXPECT_EQ(server.send(), "");
  server.session.resume(1);
  EXPECT_EQ(server.send(), "DATA 1 lo\nHEADERS 1 end t: 1;\n");
  EXPECT_EQ(server.events(), "sent 1\nsent 1\nclosed 1 0\n");
}

TEST(Http2Session, StreamsTakeTurns) {
  side server;
  server.begin();
  server.receive(window_update(0, 1'000'000));
  for (const std::uint32_t stream : {1U, 3U, 5U}) server.receive(request_frame(stream, "GET", "/"));
  text_body first(std::string(50'000, 'a'));
  text_body second(std::string(50'000, 'b'));
  text_body third("c");
  server.respond(1, &first);
  server.respond(3, &second);
  server.respond(5, &third);
  const std::string sent = server.send();
  EXPECT_LT(sent.find("DATA 5 end c"), sent.find("DATA 1 end"));
  EXPECT_LT(sent.find("DATA 3 16384"), sent.find("DATA 1 end"));
}

TEST(Http2Session, AReadErrorOfABodyResetsItsStream) {
  side server;
  server.begin();
  server.receive(request_frame(1, "GET", "/"));
  text_body body("hello");
  body.is_broken = true;
  server.respond(1, &body);
  EXPECT_EQ(server.send(), "HEADERS 1 :status: 200;\nRST_STREAM 1 2\n");
  EXPECT_EQ(server.events(), "sent 1\nclosed 1 2\n");
}

TEST(Http2Session, AResponseBeforeTheEndOfTheRequestStopsTheRequest) {
  side server;
  server.begin();
  server.receive(request_frame(1, "POST", "/", 0));
  server.respond(1, nullptr);
  EXPECT_EQ(server.send(), "HEADERS 1 end :status: 200;\nRST_STREAM 1 0\n");
  EXPECT_EQ(server.events(), "sent 1\nclosed 1 0\n");
  // Bytes that were on their way still get credit, once half of the window was used.
  std::string sent;
  for (int i = 0; i < 40; ++i) {
    EXPECT_EQ(server.receive(frame(data_frame, 0, 1, std::string(16'384, 'x'))), "");
    sent += server.send();
  }
  EXPECT_THAT(sent, HasSubstr("WINDOW_UPDATE 0 "));
}

TEST(Http2Session, WindowsGrowOnlyByCredit) {
  http2_options options;
  options.stream_window = 65'536;
  options.connection_window = 65'536;
  side server(options);
  server.begin();
  server.receive(request_frame(1, "POST", "/", 0));
  EXPECT_EQ(server.session.window(1), http2_session::max_initial_window);
  server.session.set_window(1, 65'536);
  EXPECT_EQ(server.send(), "WINDOW_UPDATE 1 59392\n");
  for (int i = 0; i < 3; ++i) server.receive(frame(data_frame, 0, 1, std::string(16'384, 'x')));
  EXPECT_EQ(server.session.window(1), 65'536u - 3 * 16'384);
  EXPECT_EQ(server.send(), "");
  server.session.credit_stream(1, 40'000);
  EXPECT_EQ(server.send(), "WINDOW_UPDATE 1 40000\n");
  server.session.credit_connection(40'000);
  EXPECT_EQ(server.send(), "WINDOW_UPDATE 0 40000\n");
  // More than the windows hold is an error of the connection.
  EXPECT_EQ(server.receive(frame(data_frame, 0, 1, std::string(16'384, 'x'))).substr(0, 6),
            "data 1");
  for (int i = 0; i < 3; ++i) server.receive(frame(data_frame, 0, 1, std::string(16'384, 'x')));
  EXPECT_THAT(server.send(), HasSubstr(" error 3\n"));
}

TEST(Http2Session, EndsAfterTheStreamsThatHaveBegun) {
  side server;
  server.begin();
  server.receive(request_frame(1, "GET", "/"));
  server.session.announce_end();
  EXPECT_EQ(server.send(), "GOAWAY last 2147483647 error 0\n");
  EXPECT_THAT(server.receive(request_frame(3, "GET", "/")), HasSubstr("request 3"));
  server.session.end();
  EXPECT_EQ(server.send(), "GOAWAY last 3 error 0\n");
  EXPECT_EQ(server.receive(request_frame(5, "GET", "/")), "");
  server.respond(1, nullptr);
  server.respond(3, nullptr);
  EXPECT_FALSE(server.session.is_over());
  server.send();
  EXPECT_TRUE(server.session.is_over());
}

TEST(Http2Session, MalformedRequestsResetTheirStream) {
  for (const field_texts& wrong :
       {field_texts{{"Upper", "a"}}, field_texts{{"connection", "close"}},
        field_texts{{"transfer-encoding", "chunked"}}, field_texts{{"te", "gzip"}},
        field_texts{{":path", "/b"}}, field_texts{{"a", "b\r\nc: d"}}, field_texts{{"a b", "c"}},
        field_texts{{"a", " b"}}, field_texts{{"content-length", "5"}}}) {
    side server;
    server.begin();
    EXPECT_EQ(server.receive(request_frame(1, "GET", "/", end_stream, wrong)), "");
    EXPECT_EQ(server.send(), "RST_STREAM 1 1\n") << wrong.front().first;
  }
}

TEST(Http2Session, OtherProtocolsGetGoaway) {
  side server;
  server.receive("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_THAT(server.send(), HasSubstr(" error 1\n"));
  EXPECT_TRUE(server.session.is_over());
}

TEST(Http2Session, StreamsThatTheClientHasEndedStayEnded) {
  const std::string request = request_frame(3, "GET", "/");
  const std::string reset = frame(reset_frame, 0, 3, big_endian(8));
  const std::string body = frame(data_frame, 0, 3, "x");
  const struct {
    std::string bytes;
    const char* sent;
  } cases[] = {
      {reset + body, "GOAWAY last 3 error 5\n"},
      {reset + request, "GOAWAY last 3 error 5\n"},
      {request_frame(1, "GET", "/"), "GOAWAY last 3 error 1\n"},
      {frame(priority_frame, 0, 0, std::string("\0\0\0\1\1", 5)), "GOAWAY last 3 error 1\n"},
      {frame(priority_frame, 0, 5, std::string("\0\0\0\5\1", 5)), "GOAWAY last 3 error 1\n"},
  };
  for (const auto& [bytes, sent] : cases) {
    for (const std::size_t piece : {1U, 1000U}) {
      side server;
      server.begin();
      server.receive(request);
      server.receive(bytes, piece);
      EXPECT_EQ(server.send(), sent);
    }
  }
  side server;
  server.begin();
  server.receive(request);
  server.respond(3, nullptr);
  server.send();
  server.receive(body);
  EXPECT_EQ(server.send(), "GOAWAY last 3 error 5\n");
}

// --- Hostile peers ---

struct flood {
  const char* name;
  std::string bytes;
};

TEST(Http2Session, FramesThatCarryNothingEndTheConnection) {
  http2_options options;
  options.frame_burst = 50;
  options.frames_per_second = 10;
  const std::vector<flood> floods{
      {"PING", frame(ping_frame, 0, 0, "12345678")},
      {"SETTINGS", frame(settings_frame, 0, 0)},
      {"PRIORITY", frame(priority_frame, 0, 1, std::string("\0\0\0\0\1", 5))},
      {"empty DATA", frame(data_frame, 0, 1)},
      {"WINDOW_UPDATE", window_update(0, 1)},
      {"unknown", frame(200, 0, 0, "x")}};
  for (const flood& each : floods) {
    side server(options);
    server.begin();
    server.receive(request_frame(1, "POST", "/", 0));
    std::string sent;
    for (int i = 0; i < 40; ++i) server.receive(each.bytes);
    EXPECT_EQ(server.session.abuse(), http2_abuse::none) << each.name;
    server.time += 1s;
    for (int i = 0; i < 60; ++i) server.receive(each.bytes);
    EXPECT_EQ(server.session.abuse(), http2_abuse::frames) << each.name;
    EXPECT_THAT(server.send(), EndsWith(" error 11\n")) << each.name;
    EXPECT_TRUE(server.session.is_over()) << each.name;
  }
}

TEST(Http2Session, RapidResetsEndTheConnection) {
  http2_options options;
  options.reset_burst = 30;
  options.resets_per_second = 5;
  side server(options);
  server.begin();
  std::uint32_t stream = 1;
  for (; server.session.abuse() == http2_abuse::none && stream < 2001; stream += 2) {
    server.receive(request_frame(stream, "GET", "/") +
                   frame(reset_frame, 0, stream, big_endian(8)));
    server.send();
  }
  EXPECT_EQ(server.session.abuse(), http2_abuse::resets);
  EXPECT_EQ(stream, 63U);
}

TEST(Http2Session, ResetsOfIncompleteResponsesAreRapid) {
  http2_options options;
  options.reset_burst = 30;
  options.resets_per_second = 5;
  text_body body("a", 1);
  side server(options);
  server.begin();
  std::uint32_t stream = 1;
  for (; server.session.abuse() == http2_abuse::none && stream < 2001; stream += 2) {
    server.receive(request_frame(stream, "GET", "/"));
    server.respond(static_cast<std::int32_t>(stream), &body);
    server.send();
    server.receive(frame(reset_frame, 0, stream, big_endian(8)));
  }
  EXPECT_EQ(server.session.abuse(), http2_abuse::resets);
  EXPECT_EQ(stream, 63U);
}

TEST(Http2Session, ResetsOfStreamsThatHaveEndedCarryNothing) {
  http2_options options;
  options.frame_burst = 50;
  options.frames_per_second = 10;
  options.reset_burst = 30;
  options.resets_per_second = 5;
  side server(options);
  server.begin();
  for (std::uint32_t stream = 1; stream < 201; stream += 2) {
    server.receive(request_frame(stream, "GET", "/"));
    server.respond(static_cast<std::int32_t>(stream), nullptr);
    EXPECT_THAT(server.send(), HasSubstr(" end :status: 200;"));
    server.receive(frame(reset_frame, 0, stream, big_endian(8)));
  }
  EXPECT_EQ(server.session.abuse(), http2_abuse::none);
  for (int i = 0; i < 60; ++i) server.receive(frame(reset_frame, 0, 1, big_endian(8)));
  EXPECT_EQ(server.session.abuse(), http2_abuse::frames);
}

TEST(Http2Session, ResetsThatTheClientProvokesEndTheConnection) {
  http2_options options;
  options.reset_burst = 30;
  options.resets_per_second = 5;
  side server(options);
  server.begin();
  std::uint32_t stream = 1;
  for (; server.session.abuse() == http2_abuse::none && stream < 2001; stream += 2) {
    // A window above 2^31 - 1 is an error of the stream.
    server.receive(request_frame(stream, "GET", "/") + window_update(stream, 0x7fffffff));
    server.send();
  }
  EXPECT_EQ(server.session.abuse(), http2_abuse::provoked_resets);
}

// nghttp2 has limits of its own, which must not end a connection before those of the options do.
TEST(Http2Session, TheOptionsAloneLimitResets) {
  http2_options options;
  options.reset_burst = 3000;
  side server(options);
  server.begin();
  for (std::uint32_t stream = 1; stream < 4001; stream += 2) {
    server.receive(request_frame(stream, "GET", "/") +
                   frame(reset_frame, 0, stream, big_endian(8)));
    ASSERT_EQ(server.send(), "");
  }
  EXPECT_EQ(server.session.abuse(), http2_abuse::none);
  EXPECT_FALSE(server.session.is_over());
}

TEST(Http2Session, ResetsAfterCompleteResponsesNeverEndTheConnection) {
  side server;
  server.begin();
  for (std::uint32_t stream = 1; stream < 4001; stream += 2) {
    server.receive(request_frame(stream, "GET", "/"));
    server.respond(static_cast<std::int32_t>(stream), nullptr);
    ASSERT_THAT(server.send(), Not(HasSubstr("GOAWAY")));
    server.receive(frame(reset_frame, 0, stream, big_endian(8)));
  }
  EXPECT_EQ(server.send(), "");
  EXPECT_FALSE(server.session.is_over());
}

TEST(Http2Session, TheOptionsAloneLimitAcknowledgementsThatWait) {
  http2_options options;
  options.frame_burst = 3000;
  side server(options);
  server.begin();
  for (int i = 0; i < 2000; ++i) server.receive(frame(ping_frame, 0, 0, "12345678"));
  EXPECT_EQ(server.session.abuse(), http2_abuse::none);
  EXPECT_THAT(server.send(), Not(HasSubstr("GOAWAY")));
  EXPECT_FALSE(server.session.is_over());
}

TEST(Http2Session, ContinuationsEndTheConnection) {
  side server;
  server.begin();
  server.receive(frame(headers_frame, 0, 1, block_of(request_fields("GET", "/"))));
  for (int i = 0; i < 20; ++i) server.receive(frame(continuation_frame, 0, 1));
  EXPECT_EQ(server.session.abuse(), http2_abuse::frames);
  EXPECT_THAT(server.send(), EndsWith(" error 11\n"));
}

TEST(Http2Session, FieldsAreChargedMoreThanTheirText) {
  // Each field takes one byte on the wire: index 62 is the entry that the first block has added.
  const std::string start = block_of(request_fields("GET", "/"));
  {
    side server;
    server.begin();
    EXPECT_THAT(server.receive(frame(headers_frame, end_stream | end_headers, 1,
                                     start +
                                         std::string("\x40\x01"
                                                     "a\x00",
                                                     4) +
                                         std::string(99, '\xbe'))),
                HasSubstr("request 1 end"));
    EXPECT_THAT(server.receive(frame(headers_frame, end_stream | end_headers, 3,
                                     start + std::string(101, '\xbe'))),
                HasSubstr("refused 3 end"));
  }
  side server;
  server.begin();
  server.receive(frame(headers_frame, 0, 1,
                       start + std::string("\x40\x01"
                                           "a\x00",
                                           4)));
  server.receive(frame(continuation_frame, end_headers, 1, std::string(16'000, '\xbe')));
  EXPECT_EQ(server.session.abuse(), http2_abuse::fields);
  EXPECT_THAT(server.send(), EndsWith(" error 11\n"));
}

TEST(Http2Session, CrumbsOfCookiesCount) {
  side server;
  server.begin();
  field_texts crumbs;
  for (int i = 0; i < 101; ++i) crumbs.emplace_back("cookie", "a=" + std::to_string(i));
  EXPECT_THAT(server.receive(request_frame(1, "GET", "/", end_stream, crumbs)),
              HasSubstr("refused 1 end"));
}

TEST(Http2Session, MemoryIsBounded) {
  http2_options options;
  options.max_streams = 1'000'000;
  options.session_memory = 100'000;
  side server(options);
  server.begin();
  const std::size_t idle = server.session.memory();
  EXPECT_LT(idle, 40'000U);
  std::uint32_t stream = 1;
  for (; server.session.abuse() == http2_abuse::none && stream < 20'001; stream += 2) {
    server.receive(request_frame(stream, "GET", "/"));
  }
  EXPECT_EQ(server.session.abuse(), http2_abuse::memory);
  EXPECT_LT(server.session.memory(), 100'001U);
  EXPECT_THAT(server.send(), EndsWith(" error 11\n"));
  EXPECT_TRUE(server.session.is_over());
}

header_block long_block(std::size_t fields) {
  header_block head;
  head.add(":status", "200");
  for (std::size_t i = 0; i < fields; ++i) head.add("x", std::string(50'000, 'x'));
  return head;
}

TEST(Http2Session, HeadsOfResponsesAreNotThePeersMemory) {
  http2_options options;
  options.session_memory = 100'000;
  side server(options);
  server.begin();
  const std::size_t idle = server.session.memory();
  std::string responses;
  for (std::uint32_t stream = 1; stream < 20; stream += 2) {
    server.receive(request_frame(stream, "GET", "/"));
    server.session.respond(static_cast<std::int32_t>(stream), long_block(2), nullptr);
    EXPECT_GT(server.session.memory(), idle + stream * 50'000);
  }
  const std::string sent = server.send();
  EXPECT_THAT(sent, HasSubstr("HEADERS 19 end :status: 200;"));
  EXPECT_EQ(server.session.abuse(), http2_abuse::none);
  server.events();
  EXPECT_LT(server.session.memory(), idle + 20'000);
}

TEST(Http2Session, AHeadThatCannotBeSentResetsItsStream) {
  side server;
  server.begin();
  server.receive(request_frame(1, "GET", "/") + request_frame(3, "GET", "/"));
  text_body body("hello");
  server.session.respond(1, long_block(21), &body);
  server.respond(3, nullptr);
  EXPECT_EQ(server.send(), "HEADERS 3 end :status: 200;\nRST_STREAM 1 2\n");
  EXPECT_THAT(server.events(), HasSubstr("closed 1 2\n"));
  server.receive(request_frame(5, "GET", "/"));
  body.fields = long_block(21);
  text_body other("hello");
  other.fields = long_block(21);
  server.respond(5, &other);
  EXPECT_EQ(server.send(), "HEADERS 5 :status: 200;\nDATA 5 hello\nRST_STREAM 5 2\n");
}

TEST(Http2Session, AHeadMayHaveAsManyFramesAsItsLimitsAllow) {
  const head_limits limits{.fields = 500'000};
  side server(http2_options(), limits);
  server.begin();
  const std::string block =
      block_of(request_fields("GET", "/", field_texts(8, {"x", std::string(50'000, 'x')})));
  EXPECT_THAT(server.receive(long_head(1, end_stream, block)), HasSubstr("request 1 end "));
  std::string flood = frame(headers_frame, 0, 3, block_of(request_fields("GET", "/")));
  for (int i = 0; i < 100; ++i) flood += frame(continuation_frame, 0, 3);
  server.receive(flood);
  EXPECT_EQ(server.session.abuse(), http2_abuse::frames);
}

TEST(Http2Session, MoreStreamsThanAllowedAreRefused) {
  http2_options options;
  options.max_streams = 2;
  side server(options);
  server.receive(client_hello());
  server.send();
  server.receive(request_frame(1, "GET", "/") + request_frame(3, "GET", "/"));
  EXPECT_EQ(server.receive(request_frame(5, "GET", "/")), "");
  EXPECT_EQ(server.send(), "RST_STREAM 5 7\n");
  // Once the client has acknowledged the settings, it knows the limit.
  server.receive(frame(settings_frame, ack, 0));
  EXPECT_EQ(server.receive(request_frame(7, "GET", "/")), "");
  EXPECT_EQ(server.send(), "GOAWAY last 3 error 1\n");
}

// --- The client's side ---

struct client_side : side {
  explicit client_side(const http2_client_options& options = {}, const head_limits& fields = {})
      : side(options, fields) {
    send();
    receive(frame(settings_frame, 0, 0));
    send();
  }
  std::int32_t request(http2_body_source* body = nullptr, void* owner = nullptr) {
    header_block head;
    for (const auto& [name, value] : request_fields(body == nullptr ? "GET" : "POST", "/")) {
      head.add(name, value);
    }
    return session.request(head, body, owner);
  }
};

std::string response_frame(std::uint32_t stream, std::string_view status, std::uint8_t flags) {
  return frame(headers_frame, static_cast<std::uint8_t>(flags | end_headers), stream,
               block_of({{":status", std::string(status)}}));
}

TEST(Http2Session, AClientBeginsWithThePrefaceAndWithoutPush) {
  side client(http2_client_options{}, head_limits{});
  gyre::io::buffer output;
  while (client.session.append_output(output, client.time)) {
  }
  std::string bytes(output.text());
  ASSERT_THAT(bytes, testing::StartsWith(http2_preface));
  bytes.erase(0, http2_preface.size());
  const auto settings = take_frame(bytes);
  ASSERT_TRUE(settings);
  EXPECT_EQ(settings->type, settings_frame);
  EXPECT_EQ(settings->payload.substr(0, 6), std::string("\0\2\0\0\0\0", 6));
}

TEST(Http2Session, AClientGetsResponsesForItsRequests) {
  for (const std::size_t piece : {1U, 7U, 1000U}) {
    client_side client;
    text_body body("hello");
    EXPECT_EQ(client.request(), 1);
    EXPECT_EQ(client.request(&body), 3);
    EXPECT_EQ(client.send(),
              "HEADERS 1 end :method: GET;:scheme: http;:authority: a;:path: /;\n"
              "HEADERS 3 :method: POST;:scheme: http;:authority: a;:path: /;\n"
              "DATA 3 end hello\n");
    EXPECT_EQ(client.events(), "sent 1\nsent 3\n");
    EXPECT_EQ(client.receive(response_frame(3, "103", 0) + response_frame(1, "204", end_stream) +
                                 response_frame(3, "200", 0) + frame(data_frame, 0, 3, "x") +
                                 frame(headers_frame, end_stream | end_headers, 3,
                                       block_of({{"digest", "y"}})),
                             piece),
              "interim 3 :status=103;\nresponse 1 end :status=204;\nclosed 1 0\n"
              "response 3 :status=200;\ndata 3 x\nend 3 digest=y;\nclosed 3 0\n");
  }
}

TEST(Http2Session, TrailersMayFollowWithoutFurtherBytes) {
  side server;
  server.begin();
  server.receive(request_frame(1, "GET", "/"));
  text_body body("hello", 1);
  body.fields.add("digest", "x");
  server.respond(1, &body);
  EXPECT_THAT(server.send(), EndsWith("DATA 1 hell\n"));
  body.truncate();
  server.session.resume(1);
  EXPECT_EQ(server.send(), "HEADERS 1 end digest: x;\n");
}

TEST(Http2Session, AClientKnowsWhatItsServerHasNotProcessed) {
  client_side client;
  client.request();
  client.request();
  client.send();
  client.request();  // a request that is not sent when GOAWAY comes
  EXPECT_TRUE(client.session.may_request());
  EXPECT_EQ(client.receive(frame(goaway_frame, 0, 0, big_endian(1) + big_endian(0))),
            "sent 1\nsent 3\nclosed 3 7\n");
  EXPECT_FALSE(client.session.may_request());
  client.send();
  EXPECT_EQ(client.events(), "closed 5 7\n");
  EXPECT_FALSE(client.session.is_over());
  EXPECT_EQ(client.receive(response_frame(1, "200", end_stream)),
            "response 1 end :status=200;\nclosed 1 0\n");
  EXPECT_TRUE(client.session.is_over());
}

TEST(Http2Session, AClientTakesBackARequestThatWasNotSent) {
  client_side client;
  int owner = 0;
  client.request(nullptr, &owner);
  client.session.reset(1, http2_error::cancel);
  client.send();
  const auto event = client.session.next_event();
  ASSERT_TRUE(event);
  EXPECT_EQ(event->what, http2_event::kind::closed);
  EXPECT_EQ(event->owner, &owner);
  EXPECT_FALSE(client.session.next_event());
}

TEST(Http2Session, AClientKnowsTheServersLimit) {
  client_side client;
  EXPECT_GE(client.session.max_requests(), 100U);
  client.receive(frame(settings_frame, 0, 0, std::string("\0\3", 2) + big_endian(7)));
  EXPECT_EQ(client.session.max_requests(), 7U);
}

TEST(Http2Session, AHeadIsReadInPartsOfTheWorkOfItsFields) {
  constexpr std::size_t max_work = 8192;
  const std::string block = block_of(request_fields("GET", "/"));
  const std::string kept = '\x40' + literal("a", std::string(3900, 'x')).substr(1);
  side server;
  server.receive(client_hello() + frame(headers_frame, end_stream | end_headers, 1, block + kept));
  static_cast<void>(server.session.take_work());
  for (const std::string& copies : {std::string(8, '\xbe'), std::string(4000, '\xa0')}) {
    const std::string bytes =
        frame(headers_frame, end_stream | end_headers, copies.size() == 8 ? 3 : 5, block + copies);
    EXPECT_GT(server.work_of(bytes, max_work, 2 * max_work + 4096), 4 * max_work);
  }
}

TEST(Http2Session, AContinuationThatComesByteByByteIsOneFrame) {
  const std::string block = block_of(request_fields("GET", "/"));
  const std::string bytes = frame(headers_frame, end_stream, 1, block.substr(0, 6)) +
                            frame(continuation_frame, end_headers, 1, block.substr(6));
  side server;
  server.begin();
  EXPECT_EQ(server.receive(bytes, 1),
            "request 1 end :method=GET;:scheme=http;:authority=a;:path=/;\n");
}

TEST(Http2Session, AnOrdinaryHeadIsReadAtOnce) {
  side server;
  server.begin();
  const std::string bytes = frame(headers_frame, end_stream | end_headers, 1,
                                  block_of(request_fields("GET", "/a/rather/long/path")));
  gyre::io::input input(bytes);
  server.session.receive(input, server.time, 4096);
  EXPECT_TRUE(input.empty());
  EXPECT_EQ(server.events().substr(0, 13), "request 1 end");
}

// Where nghttp2 stops, after the field that exceeds the work, whatever comes next.
TEST(Http2Session, AHeadThatIsReadFieldByFieldIsWhole) {
  const std::string block = block_of(request_fields("GET", "/"));
  constexpr std::uint8_t is_padded = 8;
  const std::string padded = '\7' + block + std::string(7, '\0');
  const std::string trailers = literal("x-checksum", "1") + literal("x-last", "2");
  const std::string bytes = frame(headers_frame, end_stream | end_headers, 1, block) +
                            frame(headers_frame, end_stream | end_headers | is_padded, 3, padded) +
                            frame(headers_frame, end_stream, 5, block.substr(0, 6)) +
                            frame(continuation_frame, 0, 5, block.substr(6)) +
                            frame(continuation_frame, end_headers, 5) +
                            frame(headers_frame, end_headers, 7, block) +
                            frame(headers_frame, end_stream | end_headers, 7, trailers);
  for (const std::size_t piece : {std::size_t{1}, std::size_t{10}, bytes.size()}) {
    side whole;
    whole.begin();
    const std::string expected = whole.receive(bytes);
    side server;
    server.begin();
    const std::string events = server.receive(bytes, piece, 1);
    EXPECT_FALSE(server.session.is_over());
    EXPECT_EQ(server.send(), whole.send());
    EXPECT_EQ(events, expected) << piece;
    EXPECT_EQ(std::ranges::count(events, '\n'), 5) << piece;
  }
}

TEST(Http2Session, FieldsThatAreDecodedInVainAreWork) {
  constexpr std::size_t max_work = 8192;
  side server;
  server.begin();
  const std::string block = block_of(request_fields("GET", "/"));
  for (const std::string_view malformed : {"A", ":path"}) {
    static_cast<void>(server.session.take_work());
    const std::string bytes =
        frame(headers_frame, end_stream | end_headers, malformed == "A" ? 1 : 3,
              block + literal(malformed, "b") + std::string(4000, '\xa0'));
    EXPECT_GT(server.work_of(bytes, max_work, 4 * max_work), 6 * max_work);
  }
}

TEST(Http2Session, AServerThatPushesIsRefused) {
  client_side client;
  client.request();
  client.send();
  client.receive(
      frame(5, end_headers, 1, big_endian(2) + block_of(request_fields("GET", "/pushed"))));
  EXPECT_EQ(client.send(), "GOAWAY last 0 error 1\n");
  EXPECT_TRUE(client.session.is_over());
}

}  // namespace
}  // namespace http2_session_test
