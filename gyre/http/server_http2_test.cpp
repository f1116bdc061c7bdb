// SPDX-License-Identifier: Apache-2.0
// Tests of http::server over HTTP/2 in clear text, by clients that write frames.
#include <gyre/http/event_stream.hpp>
#include <gyre/http/http2_server_test_support.hpp>
#include <gyre/http/server.hpp>
#include <gyre/task/from_callback.hpp>
#include <gyre/task/operation_cancelled.hpp>
#include <gyre/task/shielded.hpp>
#include <gyre/task/sleep.hpp>
#include <tests/support/temporary_folder.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <exception>
#include <limits>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace server_http2_test {
namespace {

using namespace std::chrono_literals;
using namespace gyre::http::test;
using client = http2_client;
using Http2Server = http2_server_fixture;
using gyre::task;
using gyre::http::body_writer;
using gyre::http::request;
using gyre::http::responder;
using gyre::http::response;
using gyre::http::route_options;
using gyre::http::server_options;
using gyre::http::status;
using gyre::net::test::long_text;
using testing::HasSubstr;
using testing::Not;

TEST_F(Http2Server, AnswersByEachFormOfHandlers) {
  make();
  on->get("/ordinary/{name}",
          [](request& request) { return response::text("Hello, " + request.param("name")); });
  on->get("/coroutine", [](request&) -> task<response> {
    co_await gyre::sleep_for(1s);
    co_return response::json("{}").set("Cache-Control", "no-store");
  });
  on->get("/callback", [](request&, responder answer) { answer.send(response::text("later")); });
  on->start();
  client from = connect_http2();
  from.send(request_frame(1, "GET", "/ordinary/a?x=1") + request_frame(3, "GET", "/coroutine") +
            request_frame(5, "GET", "/callback"));
  wait_for(from, "DATA 5");
  virtual_time.advance(2s);
  EXPECT_EQ(wait_for(from, "DATA 3"),
            "HEADERS 1 :status: 200;content-type: text/plain; charset=utf-8;date: …;"
            "content-length: 8;\n"
            "HEADERS 5 :status: 200;content-type: text/plain; charset=utf-8;date: …;"
            "content-length: 5;\n"
            "DATA 1 end Hello, a\n"
            "DATA 5 end later\n"
            "HEADERS 3 :status: 200;content-type: application/json;cache-control: no-store;"
            "date: …;content-length: 2;\n"
            "DATA 3 end {}\n");
  EXPECT_EQ(on->metrics().requests, 3u);
  EXPECT_EQ(on->metrics().successes, 3u);
  EXPECT_EQ(on->metrics().http2.connections, 1u);
  EXPECT_EQ(on->metrics().active, 0u);
}

TEST_F(Http2Server, ARequestHasTheSamePartsAsOneOfHttp1) {
  make();
  std::string seen;
  on->post("/a/{b}", [&](request& request) {
    seen = std::to_string(request.major_version()) + '.' + std::to_string(request.minor_version()) +
           ' ' + std::string(request.method_text()) + ' ' + std::string(request.target()) + ' ' +
           std::string(request.path()) + ' ' + std::string(request.query_text()) + ' ' +
           std::string(request.host()) + ' ' + request.param("b") + ' ' +
           std::string(request.body()) + '\n';
    for (const auto& [name, value] : request.fields()) {
      seen.append(name).append(": ").append(value).append("\n");
    }
    for (const auto& [name, value] : request.trailers()) {
      seen.append("trailer ").append(name).append(": ").append(value).append("\n");
    }
    return status::no_content;
  });
  on->start();
  EXPECT_THAT(exchange(request_frame(1, "POST", "/a/x?y", 0,
                                     {{"cookie", "a=1"}, {"x", ""}, {"cookie", "b=2"}}) +
                           frame(data_frame, 0, 1, "he") + frame(data_frame, 0, 1, "llo") +
                           frame(headers_frame, end_stream | end_headers, 1,
                                 block_of({{"t", "1"}, {"content-type", "never"}})),
                       "HEADERS 1"),
              HasSubstr("HEADERS 1 end :status: 204;"));
  EXPECT_EQ(seen,
            "2.0 POST /a/x?y /a/x y a x hello\nhost: a\ncookie: a=1; b=2\nx: \ntrailer t: 1\n");
}

TEST_F(Http2Server, RefusesWhatHttp1Refuses) {
  server_options options;
  options.limits.body = 10;
  options.limits.start_line = 200;
  make(options);
  on->post("/", [](request&) { return status::ok; });
  on->post("/stream", [](request&) { return status::ok; }, {.streamed_body = true});
  on->start();
  const auto status_of = [&](std::string_view bytes) {
    const std::string frames = exchange(bytes, "HEADERS 1");
    const std::size_t begin = frames.find(":status: ");
    return begin == std::string::npos ? frames : frames.substr(begin + 9, 3);
  };
  const auto with = [](const field_texts& fields) {
    return frame(headers_frame, end_stream | end_headers, 1, block_of(fields));
  };
  EXPECT_EQ(status_of(request_frame(1, "POST", "/")), "200");
  EXPECT_EQ(status_of(request_frame(1, "GET", "/b")), "404");
  EXPECT_EQ(status_of(request_frame(1, "PUT", "/")), "405");
  EXPECT_EQ(status_of(request_frame(1, "OPTIONS", "*")), "204");
  EXPECT_EQ(status_of(request_frame(1, "POST", "/", 0, {{"content-length", "11"}})), "413");
  EXPECT_EQ(status_of(request_frame(1, "POST", "/", 0) + frame(data_frame, 0, 1, "12345678901")),
            "413");
  EXPECT_EQ(status_of(request_frame(1, "POST", "/", end_stream, {{"expect", "x"}})), "417");
  EXPECT_EQ(status_of(request_frame(1, "GET", '/' + std::string(300, 'a'))), "414");
  EXPECT_EQ(
      status_of(with(
          {{":method", "GET"}, {":scheme", "http"}, {":authority", "user@a"}, {":path", "/"}})),
      "400");
  EXPECT_EQ(status_of(request_frame(1, "GET", "/", end_stream, {{"host", "b"}})), "400");
  EXPECT_EQ(status_of(request_frame(1, "GET", "/", end_stream, field_texts(101, {"a", "b"}))),
            "431");
  EXPECT_EQ(on->metrics().active, 0u);
}

TEST_F(Http2Server, StreamsABodyWithBackPressureForEachStream) {
  make();
  std::optional<gyre::completion<void>> go_on;
  std::size_t taken = 0;
  on->post("/slow",
           [&](request& request) -> task<response> {
             auto wait =
                 gyre::from_callback<void>([&](gyre::completion<void> done) { go_on = done; });
             co_await std::move(wait);
             for (;;) {
               const auto chunk = co_await request.next_chunk();
               if (!chunk) break;
               taken += chunk->size();
             }
             co_return response::text(std::to_string(taken));
           },
           {.streamed_body = true});
  on->get("/", [](request&) { return response::text("beside it"); });
  on->start();
  client from = connect_http2();
  from.send(request_frame(1, "POST", "/slow", 0));
  for (int i = 0; i < 4; ++i) from.send(frame(data_frame, 0, 1, std::string(16'384, 'x')));
  from.send(request_frame(3, "GET", "/"));
  EXPECT_THAT(wait_for(from, "DATA 3"), Not(HasSubstr("WINDOW_UPDATE 1 65536")));
  EXPECT_EQ(taken, 0u);
  go_on->set_value();
  wait_for(from, "WINDOW_UPDATE 1 65536");
  EXPECT_EQ(taken, 65'536u);
  from.send(frame(data_frame, end_stream, 1, "x"));
  EXPECT_THAT(wait_for(from, "DATA 1"), HasSubstr("DATA 1 end 65537"));
}

TEST_F(Http2Server, SendsStreamsFilesAndTrailers) {
  make();
  const std::string content = long_text(50'000);
  on->get("/stream", [](request&) {
    return response::stream("text/plain", [](body_writer& out) -> task<> {
      co_await out.write("hel");
      co_await gyre::sleep_for(1s);
      co_await out.write("lo");
      out.add_trailer("Digest", "x");
    });
  });
  on->get("/file", [&](request&) {
    char name[] = "/tmp/gyre_http2_test_XXXXXX";
    gyre::unique_fd file(::mkstemp(name));
    ::unlink(name);
    EXPECT_EQ(::write(file.get(), content.data(), content.size()),
              static_cast<ssize_t>(content.size()));
    return response::file("text/plain", std::move(file), 10, content.size() - 10);
  });
  on->start();
  client from = connect_http2();
  from.send(request_frame(1, "GET", "/stream"));
  wait_for(from, "DATA 1 hel");
  virtual_time.advance(2s);
  EXPECT_EQ(wait_for(from, "HEADERS 1 end"),
            "HEADERS 1 :status: 200;content-type: text/plain;date: …;\nDATA 1 hel\nDATA 1 lo\n"
            "HEADERS 1 end digest: x;\n");
  from.send(request_frame(3, "GET", "/file") + request_frame(5, "HEAD", "/file"));
  const std::string frames = wait_for(from, "DATA 3 end");
  EXPECT_THAT(frames, HasSubstr("content-length: 49990;\nDATA 3 16384 bytes\n"));
  EXPECT_THAT(frames, HasSubstr("HEADERS 5 end :status: 200;"));
}

// Adds fields whose values have 30 KB each.
void add_fields(response& result, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    result.set("X-" + std::to_string(i), std::string(30'000, 'x'));
  }
}

TEST_F(Http2Server, AHeadMayBeLong) {
  make();
  on->get("/few", [](request&) {
    response result = response::text("few");
    add_fields(result, 10);
    return result;
  });
  on->get("/many", [](request&) {
    response result = response::text("many");
    for (int i = 0; i < 5000; ++i) result.set("X-" + std::to_string(i), "value");
    return result;
  });
  on->get("/stream", [](request&) {
    response result = response::stream(
        "text/plain", [](body_writer& out) -> task<> { co_await out.write("stream"); });
    add_fields(result, 10);
    return result;
  });
  on->start();
  client from = connect_http2();
  from.send(request_frame(1, "GET", "/few") + request_frame(3, "GET", "/many") +
            request_frame(5, "GET", "/stream"));
  wait_for(from, "DATA 1");
  wait_for(from, "DATA 3");
  wait_for(from, "DATA 5");
  EXPECT_THAT(from.frames, HasSubstr("x-9: " + std::string(30'000, 'x')));
  EXPECT_THAT(from.frames, HasSubstr("x-4999: value;"));
  EXPECT_EQ(from.bodies[1], "few");
  EXPECT_EQ(from.bodies[3], "many");
  EXPECT_EQ(from.bodies[5], "stream");
}

TEST_F(Http2Server, AHeadThatIsTooLongIsReplacedByAnError) {
  make();
  int errors = 0;
  on->on_error([&](const request&, std::exception_ptr) { ++errors; });
  on->get("/whole", [](request&) {
    response result = response::text("whole");
    add_fields(result, 40);
    return result;
  });
  on->get("/stream", [](request&) {
    response result = response::stream(
        "text/plain", [](body_writer& out) -> task<> { co_await out.write("stream"); });
    add_fields(result, 40);
    return result;
  });
  on->get("/field",
          [](request&) { return response::text("field").set("X-Long", std::string(70'000, 'x')); });
  on->get("/trailers", [](request&) {
    return response::stream("text/plain", [](body_writer& out) -> task<> {
      co_await out.write("a");
      for (int i = 0; i < 40; ++i) {
        out.add_trailer("X-" + std::to_string(i), std::string(30'000, 'x'));
      }
    });
  });
  on->start();
  client from = connect_http2();
  from.send(request_frame(1, "GET", "/whole") + request_frame(3, "GET", "/stream") +
            request_frame(5, "GET", "/trailers") + request_frame(7, "GET", "/field"));
  wait_for(from, "HEADERS 1");
  wait_for(from, "HEADERS 3");
  wait_for(from, "RST_STREAM 5");
  wait_for(from, "HEADERS 7");
  EXPECT_THAT(from.frames, HasSubstr("HEADERS 1 end :status: 500;"));
  EXPECT_THAT(from.frames, HasSubstr("HEADERS 3 end :status: 500;"));
  EXPECT_THAT(from.frames, HasSubstr("RST_STREAM 5 2\n"));
  EXPECT_THAT(from.frames, HasSubstr("HEADERS 7 end :status: 500;"));
  EXPECT_EQ(errors, 4);
  EXPECT_EQ(on->metrics().server_errors, 3u);
}

TEST_F(Http2Server, HeadsOfResponsesAreNotHeldAgainstTheClient) {
  server_options options;
  options.http2.response_memory = 100'000;
  make(options);
  on->get("/", [](request&) {
    response result = response::text("x");
    add_fields(result, 1);
    return result;
  });
  on->get("/later", [](request&) -> task<response> {
    co_await gyre::sleep_for(1s);
    response result = response::text("x");
    add_fields(result, 1);
    co_return result;
  });
  on->start();
  for (const std::string_view path : {"/", "/later"}) {
    client from = connect_http2();
    std::string requests;
    for (std::uint32_t stream = 1; stream < 200; stream += 2) {
      requests += request_frame(stream, "GET", path);
    }
    from.send(requests);
    pass_ping(from);
    virtual_time.advance(2s);
    wait_for(from, "DATA 199");
    for (std::uint32_t stream = 1; stream < 200; stream += 2) EXPECT_EQ(from.bodies[stream], "x");
  }
  EXPECT_EQ(on->metrics().http2.floods, 0u);
}

TEST_F(Http2Server, ADownloadWaitsForTheWindowsAndOthersDoNot) {
  make();
  on->get("/large", [](request&) { return response::text(std::string(200'000, 'x')); });
  on->get("/small", [](request&) { return response::text("small"); });
  on->start();
  client from = connect_http2();
  from.send(frame(settings_frame, 0, 0, std::string("\0\4", 2) + big_endian(20'000)));
  from.send(request_frame(1, "GET", "/large"));
  wait_for(from, "DATA 1 3616 bytes");
  from.send(request_frame(3, "GET", "/small"));
  EXPECT_THAT(wait_for(from, "DATA 3"), HasSubstr("DATA 3 end small"));
  from.send(window_update(0, 1'000'000) + window_update(1, 1'000'000));
  wait_for(from, "DATA 1 end");
}

TEST_F(Http2Server, AStreamedResponseWaitsForTheClient) {
  make();
  std::size_t written = 0;
  on->get("/", [&](request&) {
    return response::stream("text/plain", [&](body_writer& out) -> task<> {
      const std::string piece(16'384, 'x');
      for (int i = 0; i < 64; ++i) {
        co_await out.write(piece);
        written += piece.size();
      }
    });
  });
  on->start();
  client from = connect_http2();
  from.send(request_frame(1, "GET", "/"));
  wait_for(from, "DATA 1 16383 bytes");
  virtual_time.settle();
  EXPECT_LT(written, 200'000u);
  from.send(window_update(0, 2'000'000) + window_update(1, 2'000'000));
  wait_for(from, "DATA 1 end");
  EXPECT_EQ(written, 64u * 16'384);
}

TEST_F(Http2Server, AResetStopsTheHandlerAndKeepsItsSlotUntilItHasEnded) {
  server_options options;
  options.http2.max_streams = 1;
  make(options);
  std::optional<gyre::completion<void>> end;
  bool stopped = false;
  on->get("/", [&](request&) -> task<response> {
    try {
      co_await gyre::sleep_for(1h);
    } catch (const gyre::operation_cancelled&) {
      stopped = true;
    }
    auto wait = gyre::from_callback<void>([&](gyre::completion<void> done) { end = done; });
    auto rest = gyre::shielded(std::move(wait));
    co_await std::move(rest);
    co_return status::ok;
  });
  on->get("/now", [](request&) { return status::no_content; });
  on->start();
  client from = connect_http2();
  from.send(request_frame(1, "GET", "/") + frame(reset_frame, 0, 1, big_endian(8)) +
            request_frame(3, "GET", "/now"));
  EXPECT_EQ(wait_for(from, "RST_STREAM 3"), "RST_STREAM 3 7\n");
  virtual_time.settle();
  ASSERT_TRUE(stopped);
  EXPECT_EQ(on->metrics().active, 1u);
  EXPECT_EQ(on->metrics().http2.refused_streams, 1u);
  end->set_value();
  virtual_time.settle();
  EXPECT_EQ(on->metrics().active, 0u);
  from.send(request_frame(5, "GET", "/now"));
  EXPECT_THAT(wait_for(from, "HEADERS 5"), HasSubstr("HEADERS 5 end :status: 204"));
}

TEST_F(Http2Server, AClosedConnectionStopsItsHandlers) {
  make();
  int stopped = 0;
  on->get("/", [&](request&) -> task<response> {
    try {
      co_await gyre::sleep_for(1h);
    } catch (const gyre::operation_cancelled&) {
      ++stopped;
    }
    co_return status::ok;
  });
  on->post("/", [](request&) { return status::ok; });
  on->start();
  for (const bool resets : {false, true}) {
    client from = connect_http2();
    from.send(request_frame(1, "GET", "/") + request_frame(3, "GET", "/") +
              request_frame(5, "POST", "/", 0));
    virtual_time.turn_until([&] { return on->metrics().active == 3; });
    resets ? from.socket.reset() : from.socket.close();
    virtual_time.turn_until([&] { return on->metrics().active == 0; });
  }
  EXPECT_EQ(stopped, 4);
  virtual_time.turn_until([&] { return on->metrics().tcp.connections == 0; });
}

TEST_F(Http2Server, SendsContinueAndNoUpgrade) {
  make();
  on->post("/", [](request& request) { return response::text(std::string(request.body())); });
  on->get("/upgrade", [](request&) {
    return response::upgrade("x", [](gyre::http::upgraded_connection&) -> task<> { co_return; });
  });
  on->start();
  client from = connect_http2();
  from.send(request_frame(1, "POST", "/", 0, {{"expect", "100-continue"}}));
  EXPECT_THAT(wait_for(from, "HEADERS 1"), HasSubstr("HEADERS 1 :status: 100;\n"));
  from.send(frame(data_frame, end_stream, 1, "abc"));
  EXPECT_THAT(wait_for(from, "DATA 1"), HasSubstr("DATA 1 end abc"));
  from.send(request_frame(3, "GET", "/upgrade"));
  EXPECT_THAT(wait_for(from, "RST_STREAM 3"), HasSubstr("RST_STREAM 3 13\n"));
}

TEST_F(Http2Server, AFailedStreamResetsOnlyItself) {
  make();
  int errors = 0;
  on->on_error([&](const request&, std::exception_ptr) { ++errors; });
  on->get("/fails", [](request&) {
    return response::stream("text/plain", [](body_writer& out) -> task<> {
      co_await out.write("a");
      throw std::runtime_error("broken");
    });
  });
  on->get("/throws", [](request&) -> response { throw std::runtime_error("broken"); });
  on->start();
  client from = connect_http2();
  from.send(request_frame(1, "GET", "/fails") + request_frame(3, "GET", "/throws"));
  const std::string frames = wait_for(from, "HEADERS 3") + wait_for(from, "RST_STREAM 1");
  EXPECT_THAT(frames, HasSubstr("HEADERS 3 end :status: 500"));
  EXPECT_THAT(frames, HasSubstr("RST_STREAM 1 2\n"));
  EXPECT_EQ(errors, 2);
}

TEST_F(Http2Server, StopsGracefully) {
  make();
  on->get("/", [](request&) -> task<response> {
    co_await gyre::sleep_for(1s);
    co_return response::text("done");
  });
  on->start();
  client busy = connect_http2();
  client idle = connect_http2();
  busy.send(request_frame(1, "GET", "/"));
  virtual_time.turn_until([&] { return on->metrics().active == 1; });
  bool stopped = false;
  on->stop(10s, [&] { stopped = true; });
  wait_for(idle, "GOAWAY last 0 error 0");
  wait_for(busy, "GOAWAY last 1 error 0");
  EXPECT_FALSE(stopped);
  virtual_time.advance(2s);
  EXPECT_THAT(wait_for(busy, "DATA 1"), HasSubstr("DATA 1 end done"));
  busy.socket.close();
  idle.socket.close();
  virtual_time.turn_until([&] { return stopped; });
}

TEST_F(Http2Server, AnEventStreamEndsWhenTheServerStops) {
  make();
  on->get("/", [](request&) {
    return gyre::http::event_stream([](gyre::http::event_writer& events) -> task<> {
      co_await events.send("one");
      co_await gyre::sleep_for(24h);
    });
  });
  on->start();
  client from = connect_http2();
  from.send(request_frame(1, "GET", "/"));
  wait_for(from, "DATA 1 data: one");
  bool stopped = false;
  on->stop(10s, [&] { stopped = true; });
  EXPECT_THAT(wait_for(from, "DATA 1 end"), HasSubstr("DATA 1 end"));
  from.socket.close();
  virtual_time.turn_until([&] { return stopped; });
}

// --- Slow clients ---

/// The socket of the server is a Unix socket, whose kernel buffer is small.
class Http2SlowClient : public http2_server_fixture {
 protected:
  void SetUp() override {
    server_options options;
    options.tcp.connections.write_timeout = 10s;
    on.emplace(virtual_time.loop, gyre::net::endpoint::unix_path(folder_ / "socket"), options);
    on->get("/large", [](request&) { return response::text(std::string(large, 'x')); });
    on->post("/upload", [](request&) { return status::no_content; });
    on->get("/news", [](request&) {
      return response::stream("text/plain", [](body_writer& out) -> task<> {
        co_await out.write("first");
        co_await gyre::sleep_for(1h);
      });
    });
    on->start();
  }
  static std::string windows_of(std::uint32_t count) {
    return frame(settings_frame, 0, 0, std::string("\0\4", 2) + big_endian(count));
  }
  /// Whether the loop, without time passing, comes to rest.
  bool sleeps() {
    for (int i = 0; i < 1000; ++i) {
      if (!virtual_time.loop.poll()) return true;
    }
    return false;
  }
  /// Lets time pass. The client takes up to 64 KiB per second.
  void take_slowly(client& peer, int seconds) {
    for (int i = 0; i < seconds; ++i) {
      peer.socket.receive_some();
      read_frames(peer);
      ASSERT_TRUE(sleeps());
      virtual_time.advance(1s);
      ASSERT_TRUE(sleeps());
    }
  }
  std::uint64_t stalled_streams() { return on->metrics().http2.stalled_streams; }

  static constexpr std::size_t large = 4'000'000;

 private:
  gyre::test::temporary_folder folder_;
};

TEST_F(Http2SlowClient, MayTakeTheirTimeWhileTheirWindowsAreOpen) {
  client from = connect_http2();
  from.send(request_frame(1, "GET", "/large"));
  wait_for(from, "DATA 1 16383 bytes");  // the last one of the first window
  virtual_time.settle();
  from.send(window_update(0, 1U << 30U) + window_update(1, 1U << 30U));
  take_slowly(from, 30);
  EXPECT_EQ(stalled_streams(), 0u);
  EXPECT_LT(from.bodies[1].size(), large);
  EXPECT_THAT(wait_for(from, "DATA 1 end"), Not(HasSubstr("RST_STREAM")));
  EXPECT_EQ(from.bodies[1].size(), large);
}

TEST_F(Http2SlowClient, AStreamThatWasBlockedAndHasNoOutputLetsTheLoopSleep) {
  client from = connect_http2();
  from.send(windows_of(0) + request_frame(1, "GET", "/news"));
  wait_for(from, "HEADERS 1");
  virtual_time.settle();
  from.send(windows_of(0x7fffffff) + window_update(0, 1U << 30U) +
            request_frame(3, "GET", "/large"));
  take_slowly(from, 15);
  EXPECT_EQ(stalled_streams(), 0u);
  EXPECT_THAT(wait_for(from, "DATA 3 end"), Not(HasSubstr("RST_STREAM")));
  EXPECT_EQ(from.bodies[1], "first");
}

TEST_F(Http2SlowClient, AStalledStreamIsResetOnceAlthoughItsResetMustWait) {
  client from = connect_http2();
  from.send(windows_of(0) + request_frame(1, "GET", "/news"));
  wait_for(from, "HEADERS 1");
  virtual_time.settle();
  virtual_time.advance(2s);
  // The time limit of an upload expires after the reset, so that all streams are looked at again.
  from.send(request_frame(3, "POST", "/upload", 0));
  ASSERT_TRUE(sleeps());
  virtual_time.advance(3s);
  // The last response fills the connection, so that nothing else can leave.
  from.send(request_frame(5, "GET", "/large") + window_update(0, 1U << 30U) +
            window_update(5, 1U << 30U));
  ASSERT_TRUE(sleeps());
  virtual_time.advance(6s);
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(sleeps());
    EXPECT_EQ(stalled_streams(), 1u);
    virtual_time.advance(1s);
  }
  EXPECT_EQ(on->metrics().timeouts, 1u);
  wait_for(from, "RST_STREAM 1");
  EXPECT_THAT(from.frames, Not(HasSubstr("DATA 1")));
  EXPECT_THAT(wait_for(from, "DATA 5 end"), HasSubstr("RST_STREAM 1 8\n"));
  EXPECT_EQ(from.frames.find("RST_STREAM 1"), from.frames.rfind("RST_STREAM 1"));
  EXPECT_EQ(from.bodies[5].size(), large);
  EXPECT_EQ(stalled_streams(), 1u);
}

// --- Hostile clients ---

TEST_F(Http2Server, TheWindowOfZeroAndTheDripEnd) {
  server_options options;
  options.tcp.connections.write_timeout = 10s;
  make(options);
  on->get("/", [](request&) { return response::text(std::string(100'000, 'x')); });
  on->start();
  client from = connect_http2();
  from.send(frame(settings_frame, 0, 0, std::string("\0\4", 2) + big_endian(0)));
  from.send(request_frame(1, "GET", "/"));
  wait_for(from, "HEADERS 1");
  for (int i = 0; i < 20 && from.frames.find("RST") == std::string::npos; ++i) {
    from.send(window_update(1, 1));
    virtual_time.settle();
    virtual_time.advance(1s);
    virtual_time.settle();
    receive(from);
  }
  EXPECT_THAT(from.frames, HasSubstr("RST_STREAM 1 8\n"));
  EXPECT_EQ(on->metrics().http2.stalled_streams, 1u);
}

TEST_F(Http2Server, ABodyThatDoesNotComeGets408) {
  make();
  on->post("/", [](request&) { return status::ok; });
  on->start();
  client from = connect_http2();
  from.send(request_frame(1, "POST", "/", 0) + frame(data_frame, 0, 1, "x"));
  virtual_time.turn_until([&] { return on->metrics().active == 1; });
  virtual_time.settle();
  virtual_time.advance(15s);
  EXPECT_THAT(wait_for(from, "HEADERS 1"), HasSubstr(":status: 408"));
  EXPECT_EQ(on->metrics().timeouts, 1u);
}

TEST_F(Http2Server, AHeadThatDoesNotEndEndsTheConnection) {
  make();
  on->start();
  client from = connect_http2();
  from.send(frame(headers_frame, 0, 1, block_of(request_fields("GET", "/"))));
  virtual_time.turn_until([&] { return on->metrics().http2.connections == 1; });
  virtual_time.settle();
  virtual_time.advance(15s);
  EXPECT_THAT(wait_for(from, "GOAWAY"), HasSubstr(" error 11\n"));
}

TEST_F(Http2Server, AnIdleConnectionEnds) {
  make();
  on->get("/", [](request&) { return status::no_content; });
  on->start();
  client from = connect_http2();
  from.send(request_frame(1, "GET", "/"));
  wait_for(from, "HEADERS 1");
  virtual_time.advance(70s);
  EXPECT_THAT(wait_for(from, "GOAWAY"), HasSubstr("GOAWAY last 1 error 0\n"));
}

/// Sends a body on each of several streams, in turn, as far as the windows allow.
class uploader {
 public:
  uploader(client& peer, int count, std::size_t size, std::size_t first_window) : peer_(&peer) {
    // The kernel would delay short segments until earlier ones are acknowledged.
    const int no_delay = 1;
    ::setsockopt(peer.socket.fd(), IPPROTO_TCP, TCP_NODELAY, &no_delay, sizeof(no_delay));
    for (int i = 0; i < count; ++i) {
      const auto stream = static_cast<std::uint32_t>(2 * i + 1);
      uploads_[stream] = {.rest = size, .window = first_window};
      peer.send(request_frame(stream, "POST", "/", 0));
    }
  }
  /// Sends a frame on each stream, and reads what the server has granted, and answered.
  bool advance() {
    for (auto& [stream, each] : uploads_) {
      const std::size_t count = std::min({each.rest, each.window, window_, std::size_t{16'384}});
      if (count == 0) continue;
      each.rest -= count;
      each.window -= count;
      window_ -= count;
      peer_->send(
          frame(data_frame, each.rest == 0 ? end_stream : 0, stream, std::string(count, 'x')));
    }
    return read();
  }
  /// Reads what the server has granted, and answered.
  bool read() {
    peer_->socket.receive();
    for (const received_frame& each : take_frames(peer_->socket.text)) {
      peer_->frames += peer_->printer.print(each);
      if (each.type == headers_frame || each.type == reset_frame) ++responses;
      if (each.type == ping_frame) ++pings;
      if (each.type != window_frame) continue;
      (each.stream == 0 ? window_ : uploads_[each.stream].window) += number_in(each.payload);
    }
    return responses >= uploads_.size();
  }

  std::size_t responses = 0;
  std::size_t pings = 0;  // those that the server has answered

 private:
  struct upload {
    std::size_t rest = 0;
    std::size_t window = 0;
  };

  client* peer_;
  std::map<std::uint32_t, upload> uploads_;
  std::size_t window_ = 65'535;
};

/// A server, and a client that begins a hundred uploads.
class Http2Uploads : public Http2Server {
 protected:
  void SetUp() override {
    make();
    on->post("/", [this](request& request) {
      received += request.body().size();
      return status::no_content;
    });
    on->start();
    uploads.emplace(from.emplace(on->local_endpoint()), 100, 100'000, 6144);
  }

  std::size_t received = 0;
  std::optional<client> from;
  std::optional<uploader> uploads;
};

TEST_F(Http2Uploads, SucceedBesideEachOtherInLittleMemory) {
  std::size_t peak = 0;
  virtual_time.turn_until([&] {
    peak = std::max(peak, on->metrics().http2.memory);
    return uploads->advance() || from->socket.ended;
  });
  EXPECT_EQ(received, 10'000'000u);
  EXPECT_EQ(on->metrics().http2.refused_streams, 0u);
  EXPECT_LT(peak, std::size_t{5} << 18);
}

TEST_F(Http2Uploads, HaveNoTimeLimitWhileTheyWaitForEachOther) {
  std::size_t steps = 0;
  for (; !uploads->advance() && !from->socket.ended && steps < 4000; ++steps) {
    from->send(frame(ping_frame, 0, 0, "12345678"));
    virtual_time.turn_until([&] {
      uploads->read();
      return uploads->pings > steps || from->socket.ended;
    });
    virtual_time.advance(250ms);
  }
  EXPECT_GT(steps, 400U);  // 100 seconds, many times the limit of a single body
  EXPECT_EQ(received, 10'000'000u);
  EXPECT_THAT(from->frames, Not(HasSubstr(":status: 408")));
}

TEST_F(Http2Server, IdleConnectionsTakeNoMemoryFromBodies) {
  server_options options;
  options.http2.session_memory = options.http2.server_memory = 128 << 10;
  make(options);
  std::size_t received = 0;
  on->post("/", [&](request& request) {
    received = request.body().size();
    return status::no_content;
  });
  on->start();
  std::deque<client> idle;
  for (int i = 0; i < 20; ++i) wait_for(idle.emplace_back(on->local_endpoint()), "SETTINGS");
  EXPECT_GT(on->metrics().http2.memory, options.http2.server_memory);
  client from = connect_http2();
  uploader upload(from, 1, 50'000, 6144);
  int steps = 0;
  virtual_time.turn_until([&] {
    virtual_time.advance(10ms);
    return upload.advance() || from.socket.ended || ++steps == 1000;
  });
  EXPECT_EQ(received, 50'000u);
}

TEST_F(Http2Server, AnUploadThatTheServerDoesNotHoldUpHasItsTimeLimit) {
  make();
  on->post("/", [](request&) { return status::no_content; });
  on->start();
  client from = connect_http2();
  for (std::uint32_t stream = 1; stream < 20; stream += 2) {
    from.send(request_frame(stream, "POST", "/", 0, {{"content-length", "100000"}}) +
              frame(data_frame, 0, stream, std::string(6144, 'x')));
  }
  pass_ping(from);
  // No client sends more, so that one after the other is the oldest, and has 16 seconds.
  for (int i = 0; i < 400 && from.frames.find("HEADERS 19 ") == std::string::npos; ++i) {
    virtual_time.advance(1s);
    virtual_time.settle();
    receive(from);
  }
  for (std::uint32_t stream = 1; stream < 20; stream += 2) {
    EXPECT_THAT(from.frames, HasSubstr("HEADERS " + std::to_string(stream) + " :status: 408;"));
  }
}

TEST_F(Http2Server, AnUploadHasNoTimeLimitWhileHandlersHoldTheWindow) {
  make();
  on->post(
      "/slow",
      [](request&) -> task<response> {
        co_await gyre::sleep_for(1h);
        co_return status::no_content;
      },
      route_options{.streamed_body = true});
  on->post("/",
           [](request& request) { return response::text(std::to_string(request.body().size())); });
  on->start();
  client from = connect_http2();
  from.send(request_frame(1, "POST", "/slow", 0) + request_frame(3, "POST", "/", 0));
  std::size_t window = gyre::http::http2_options().connection_window;
  wait_for(from, "WINDOW_UPDATE 1 ");
  from.send(frame(data_frame, 0, 3, "x"));
  --window;
  for (std::uint32_t stream = 1; window != 0; stream += stream == 1 ? 4 : 2) {
    if (stream != 1) {
      from.send(request_frame(stream, "POST", "/slow", 0));
      wait_for(from, "WINDOW_UPDATE " + std::to_string(stream) + ' ');
    }
    for (int i = 0; i < 4 && window != 0; ++i) {
      const std::size_t count = std::min<std::size_t>(window, 16'384);
      from.send(frame(data_frame, 0, stream, std::string(count, 'x')));
      window -= count;
    }
  }
  pass_ping(from);
  for (int i = 0; i < 30; ++i) {
    virtual_time.advance(1s);
    virtual_time.settle();
  }
  pass_ping(from);
  EXPECT_THAT(from.frames, Not(HasSubstr("HEADERS 3")));
  from.frames.clear();
  from.send(frame(reset_frame, 0, 1, big_endian(8)) + frame(reset_frame, 0, 5, big_endian(8)) +
            frame(reset_frame, 0, 7, big_endian(8)));
  EXPECT_THAT(wait_for(from, "WINDOW_UPDATE 0 "), Not(HasSubstr("HEADERS 3")));
  from.send(frame(data_frame, end_stream, 3, "y"));
  EXPECT_THAT(wait_for(from, "DATA 3"), HasSubstr("DATA 3 end 2\n"));
}

TEST_F(Http2Server, AnUploadThatBeginsBeforeTheSettingsAreKnownGoesOn) {
  make();
  on->post("/",
           [&](request& request) { return response::text(std::to_string(request.body().size())); });
  on->start();
  peer early(on->local_endpoint());
  early.send(client_hello() + request_frame(1, "POST", "/", 0));
  for (int i = 0; i < 3; ++i) early.send(frame(data_frame, 0, 1, std::string(10'000, 'x')));
  virtual_time.settle();
  early.send(frame(settings_frame, ack, 0));
  // The client has sent 30,000 bytes, and may send 6144 by the SETTINGS.
  std::int64_t window = 6144 - 30'000;
  virtual_time.turn_until([&] {
    early.receive();
    for (const received_frame& each : take_frames(early.text)) {
      if (each.type == window_frame && each.stream == 1) window += number_in(each.payload);
    }
    return window >= 1000 || early.ended;
  });
  early.send(frame(data_frame, end_stream, 1, std::string(1000, 'x')));
  std::string body;
  virtual_time.turn_until([&] {
    early.receive();
    for (const received_frame& each : take_frames(early.text)) {
      if (each.type == data_frame) body += each.payload;
    }
    return !body.empty() || early.ended;
  });
  EXPECT_EQ(body, "31000");
}

TEST_F(Http2Server, MoreBodiesThanTheMemoryAreRefused) {
  server_options options;
  options.http2.max_streams = 3;
  options.http2.body_memory = 30'000;
  make(options);
  on->post("/", [](request&) { return status::no_content; });
  on->start();
  // A client that does not acknowledge SETTINGS keeps its windows of 64 KiB.
  client from(on->local_endpoint(), client_hello());
  for (const std::uint32_t stream : {1U, 3U, 5U}) {
    from.send(request_frame(stream, "POST", "/", 0));
    for (int j = 0; j < 3; ++j) from.send(frame(data_frame, 0, stream, std::string(16'384, 'x')));
  }
  EXPECT_THAT(wait_for(from, "RST_STREAM"), HasSubstr("RST_STREAM 5 7\n"));
  from.send(frame(data_frame, end_stream, 1, "x"));
  EXPECT_THAT(wait_for(from, "HEADERS 1"), HasSubstr("HEADERS 1 end :status: 204"));
}

TEST_F(Http2Server, HandlersWaitWhileResponsesFillTheMemory) {
  server_options options;
  options.http2.response_memory = 150'000;
  make(options);
  int calls = 0;
  on->get("/", [&](request&) {
    ++calls;
    return response::text(std::string(100'000, 'x'));
  });
  on->start();
  client from = connect_http2();
  for (std::uint32_t stream = 1; stream < 20; stream += 2) {
    from.send(request_frame(stream, "GET", "/"));
  }
  wait_for(from, "DATA 1");
  virtual_time.settle();
  EXPECT_LT(calls, 4);
  from.send(window_update(0, 10'000'000));
  for (std::uint32_t stream = 1; stream < 20; stream += 2) {
    from.send(window_update(stream, 100'000));
  }
  wait_for(from, "DATA 19 end");
  EXPECT_EQ(calls, 10);
}

TEST_F(Http2Server, AFloodEndsTheConnection) {
  make();
  on->start();
  client from = connect_http2();
  std::string pings;
  for (int i = 0; i < 2000; ++i) pings += frame(ping_frame, 0, 0, "12345678");
  from.send(pings);
  EXPECT_THAT(wait_for(from, "GOAWAY"), HasSubstr(" error 11\n"));
  virtual_time.turn_until([&] { return on->metrics().http2.floods == 1; });
}

TEST_F(Http2Server, OptionsAreChecked) {
  const auto construct = [&](auto change) {
    server_options options;
    change(options.http2);
    make(options);
  };
  EXPECT_THROW(construct([](auto& each) { each.max_streams = 0; }), std::invalid_argument);
  EXPECT_THROW(construct([](auto& each) { each.stream_window = 0; }), std::invalid_argument);
  EXPECT_THROW(construct([](auto& each) { each.stream_window = 0x80000000U; }),
               std::invalid_argument);
  EXPECT_THROW(construct([](auto& each) { each.connection_window = 65'534; }),
               std::invalid_argument);
  EXPECT_THROW(construct([](auto& each) { each.connection_window = 0x80000000U; }),
               std::invalid_argument);
  EXPECT_THROW(construct([](auto& each) { each.response_memory = 0; }), std::invalid_argument);
  EXPECT_THROW(construct([](auto& each) { each.session_memory = 65'535; }), std::invalid_argument);
  EXPECT_THROW(construct([](auto& each) { each.server_memory = each.session_memory - 1; }),
               std::invalid_argument);
  EXPECT_THROW(construct([](auto& each) { each.frame_burst = 0; }), std::invalid_argument);
}

TEST_F(Http2Server, TheEndsOfTheRangesOfOptionsWork) {
  constexpr std::size_t max_size = std::numeric_limits<std::size_t>::max();
  server_options smallest;
  smallest.http2 = {.max_streams = 1,
                    .stream_window = 1,
                    .connection_window = 65'535,
                    .head_memory = 0,
                    .body_memory = 0,
                    .response_memory = 1,
                    .session_memory = 65'536,
                    .server_memory = 65'536,
                    .frame_burst = 100,
                    .frames_per_second = 0,
                    .reset_burst = 0,
                    .resets_per_second = 0,
                    .response_rate = 0};
  server_options largest;
  largest.http2 = {.max_streams = 0xffffffffU,
                   .stream_window = 0x7fffffffU,
                   .connection_window = 0x7fffffffU,
                   .head_memory = max_size,
                   .body_memory = max_size / 2 + 1,
                   .response_memory = max_size / 2 + 1,
                   .session_memory = max_size,
                   .server_memory = max_size,
                   .frame_burst = 0xffffffffU,
                   .frames_per_second = 0xffffffffU,
                   .reset_burst = 0xffffffffU,
                   .resets_per_second = 0xffffffffU,
                   .response_rate = max_size};
  for (const server_options& options : {smallest, largest}) {
    make(options);
    on->post("/", [](request& request) {
      return response::stream("text/plain", [text = request.body()](body_writer& out) -> task<> {
        co_await out.write(text);
      });
    });
    on->start();
    client from = connect_http2();
    from.send(request_frame(1, "POST", "/", 0) + frame(data_frame, end_stream, 1, "x"));
    wait_for(from, "DATA 1");
    EXPECT_EQ(from.bodies[1], "x");
  }
}

TEST_F(Http2Server, LimitsMayBeUnlimited) {
  constexpr std::size_t max_size = std::numeric_limits<std::size_t>::max();
  server_options fields_only;
  fields_only.limits.fields = max_size;
  server_options all;
  all.limits = {.start_line = max_size,
                .fields = max_size,
                .field_count = max_size,
                .body = max_size,
                .streamed_body = max_size};
  for (const server_options& options : {fields_only, all}) {
    make(options);
    on->post("/", [](request& request) {
      return response::text(std::to_string(request.body().size()));
    });
    on->start();
    client from = connect_http2();
    from.send(request_frame(1, "POST", "/", 0, {{"x-long", std::string(9000, 'x')}}) +
              frame(data_frame, 0, 1, std::string(6144, 'x')));
    wait_for(from, "WINDOW_UPDATE 1 ");
    from.send(frame(data_frame, end_stream, 1, std::string(10'000, 'x')));
    wait_for(from, "DATA 1");
    EXPECT_EQ(from.bodies[1], "16144");
    peer plain(on->local_endpoint());
    plain.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nX-Long: " +
               std::string(9000, 'x') + "\r\n\r\nx");
    EXPECT_THAT(plain.receive(virtual_time.loop, 17), HasSubstr("200 OK"));
  }
}

TEST_F(Http2Server, Http1IsAsBefore) {
  server_options options;
  options.http2.prior_knowledge = false;
  make(options);
  on->get("/",
          [](request& request) { return response::text(std::to_string(request.major_version())); });
  on->start();
  EXPECT_THAT(answer_to(get("/")), testing::EndsWith("\r\n\r\n1"));
  EXPECT_THAT(answer_to(http2_preface), testing::StartsWith("HTTP/1.1 505 "));
}

}  // namespace
}  // namespace server_http2_test
