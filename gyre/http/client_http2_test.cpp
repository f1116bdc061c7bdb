// SPDX-License-Identifier: Apache-2.0
// Tests of the HTTP client over HTTP/2 in clear text, against servers whose frames the test writes.
#include <gyre/http/client.hpp>
#include <gyre/http/http2_client_test_support.hpp>
#include <gyre/http/http2_test_support.hpp>
#include <gyre/task/sleep.hpp>
#include <tests/support/http_peers.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/ioctl.h>
#include <sys/socket.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <list>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace http_client_http2_test {
namespace {

using namespace std::chrono_literals;
using namespace gyre::http::test;
using gyre::task;
using gyre::http::client_options;
using gyre::http::client_request;
using gyre::http::client_response;
using gyre::http::errc;
using gyre::http::method;
using gyre::http::request_body_writer;
using gyre::net::test::peer;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class HttpClientHttp2 : public http2_client_fixture {
 protected:
  running_request& post(std::string body) {
    return send(client_request(method::post, server.url()).set_body("", std::move(body)));
  }
  running_request& stream_get() {
    return start(client->stream(client_request(method::get, server.url())));
  }
  /// Sends `piece` until the request has ended; fails the test if it never does.
  running_request& flood(server_end& end, running_request& sending, std::string_view piece) {
    std::size_t sent = 0;
    while (!sending.done() && sent < (std::size_t{16} << 20)) {
      const ssize_t count =
          ::send(end.socket->fd(), piece.data(), piece.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (count > 0) sent += static_cast<std::size_t>(count);
      if (count > 0 && static_cast<std::size_t>(count) < piece.size()) {
        piece.remove_prefix(static_cast<std::size_t>(count));
      }
      settle();
    }
    EXPECT_TRUE(sending.done());
    return finish(sending);
  }
};

// --- Requests ---

TEST_F(HttpClientHttp2, SendsARequestAndReadsTheResponse) {
  make(speaking_http2());
  client_request request(method::post, server.url("/a?b=c"));
  request.set("X-Upper", "Value").set("Connection", "close").set_body("text/plain", "hello");
  running_request& sending = send(std::move(request));
  server_end& end = accept_http2();
  EXPECT_EQ(wait_for(end, "DATA 1 end"),
            "HEADERS 1 :method: POST;:scheme: http;:authority: " + server.authority() +
                ";:path: /a?b=c;x-upper: Value;content-type: text/plain;user-agent: gyre;"
                "accept: */*;accept-encoding: br, zstd, gzip;content-length: 5;\n"
                "DATA 1 end hello\n");
  end.send(response_frame(1, "201", 0, {{"set-cookie", "a=1"}, {"content-length", "5"}}) +
           frame(data_frame, 0, 1, "wor") + frame(data_frame, 0, 1, "ld") +
           frame(headers_frame, end_stream | end_headers, 1,
                 block_of({{"digest", "x"}, {"content-type", "y"}})));
  client_response& answer = finish(sending).response();
  EXPECT_EQ(answer.status(), gyre::http::status::created);
  EXPECT_EQ(answer.major_version(), 2U);
  EXPECT_EQ(answer.minor_version(), 0U);
  EXPECT_EQ(answer.reason(), "");
  EXPECT_EQ(answer.body(), "world");
  EXPECT_EQ(answer.field("Set-Cookie"), "a=1");
  EXPECT_EQ(answer.content_length(), 5U);
  EXPECT_EQ(answer.trailers().get("Digest"), "x");
  EXPECT_FALSE(answer.trailers().contains("content-type"));
  EXPECT_TRUE(answer.is_request_complete());
  EXPECT_EQ(client->metrics().open, 1U);
  EXPECT_EQ(client->metrics().idle, 1U);
  EXPECT_EQ(client->metrics().http2_connections, 1U);
}

TEST_F(HttpClientHttp2, ConcurrentRequestsShareAConnection) {
  make(speaking_http2());
  running_request& first = get("/1");
  running_request& second = get("/2");
  running_request& third = get("/3");
  server_end& end = accept_http2();
  wait_for(end, "HEADERS 5");
  end.send(text_response(5, "third") + response_frame(1, "200", 0) +
           frame(data_frame, 0, 1, "fir") + text_response(3, "second") +
           frame(data_frame, end_stream, 1, "st"));
  EXPECT_EQ(finish(first).response().body(), "first");
  EXPECT_EQ(finish(second).response().body(), "second");
  EXPECT_EQ(finish(third).response().body(), "third");
  EXPECT_EQ(server.accept(), nullptr);
}

TEST_F(HttpClientHttp2, ResponsesWithoutABodyEndAtTheirHead) {
  make(speaking_http2());
  running_request& head = send(client_request(method::head, server.url()));
  running_request& empty = get();
  running_request& unmodified = get();
  server_end& end = accept_http2();
  wait_for(end, "HEADERS 5");
  end.send(response_frame(1, "200", end_stream, {{"content-length", "5"}}) +
           response_frame(3, "200", 0, {{"content-length", "0"}}) +
           frame(data_frame, end_stream, 3) + response_frame(5, "304"));
  EXPECT_EQ(finish(head).response().field("content-length"), "5");
  EXPECT_EQ(finish(empty).response().body(), "");
  EXPECT_EQ(finish(unmodified).response().status(), gyre::http::status::not_modified);
  running_request& last = get();
  EXPECT_THAT(wait_for(end, "HEADERS 7"), Not(HasSubstr("RST_STREAM")));
  end.send(response_frame(7));
  finish(last);
}

TEST_F(HttpClientHttp2, RequestsWaitForTheServersLimit) {
  client_options options = speaking_http2();
  options.connections_per_host = 1;
  options.waiting_per_host = 2;
  make(options);
  server_end& end = answer_first(setting_entry(3, 1));
  running_request& first = get("/a");
  running_request& second = get("/b");
  running_request& third = get("/c");
  running_request& refused = get("/d");
  EXPECT_EQ(finish(refused).error(), make_error_code(gyre::io::errc::waiting_limit));
  EXPECT_THAT(wait_for(end, "HEADERS 3"), Not(HasSubstr("/b")));
  settle();
  receive(end);
  EXPECT_THAT(end.frames, Not(HasSubstr("/b")));
  second.request_stop();
  finish(second);
  end.send(text_response(3, "a"));
  EXPECT_EQ(finish(first).response().body(), "a");
  EXPECT_THAT(wait_for(end, "HEADERS 5"), HasSubstr("/c"));
  end.send(frame(settings_frame, 0, 0, setting_entry(3, 2)));
  running_request& fourth = get("/e");
  EXPECT_THAT(wait_for(end, "HEADERS 7"), HasSubstr("/e"));
  end.send(text_response(7, "e") + text_response(5, "c"));
  EXPECT_EQ(finish(third).response().body(), "c");
  EXPECT_EQ(finish(fourth).response().body(), "e");
}

TEST_F(HttpClientHttp2, AFullConnectionGetsANeighbour) {
  client_options options = speaking_http2();
  options.connections_per_host = 2;
  options.http2.max_streams = 1;
  make(options);
  running_request& first = get("/a");
  server_end& one = accept_http2();
  wait_for(one, "HEADERS 1");
  running_request& second = get("/b");
  running_request& third = get("/c");
  server_end& other = accept_http2();
  wait_for(other, "HEADERS 1");
  EXPECT_EQ(client->metrics().open, 2U);
  EXPECT_EQ(server.accept(), nullptr);
  one.send(text_response(1, "a"));
  EXPECT_EQ(finish(first).response().body(), "a");
  EXPECT_THAT(wait_for(one, "HEADERS 3"), HasSubstr("/c"));
  one.send(text_response(3, "c"));
  other.send(text_response(1, "b"));
  EXPECT_EQ(finish(second).response().body(), "b");
  EXPECT_EQ(finish(third).response().body(), "c");
}

// --- Refused requests ---

TEST_F(HttpClientHttp2, RequestsAboveTheLastStreamOfGoawayAreRepeated) {
  make(speaking_http2());
  running_request& served = get("/a");
  running_request& unserved = post("b");
  server_end& old = accept_http2();
  wait_for(old, "DATA 3 end");
  old.send(goaway(0x7fffffff) + goaway(1));
  server_end& next = accept_http2();
  EXPECT_THAT(wait_for(next, "DATA 1 end"), HasSubstr("POST"));
  running_request& later = get("/c");
  EXPECT_THAT(wait_for(next, "HEADERS 3"), HasSubstr("/c"));
  next.send(text_response(1, "b") + text_response(3, "c"));
  EXPECT_EQ(finish(unserved).response().body(), "b");
  EXPECT_EQ(finish(later).response().body(), "c");
  old.send(text_response(1, "a"));
  EXPECT_EQ(finish(served).response().body(), "a");
  EXPECT_TRUE(ends(*old.socket));
  EXPECT_EQ(client->metrics().retries, 1U);
}

TEST_F(HttpClientHttp2, ARefusedRequestIsRepeatedAndAtLastAnError) {
  make(speaking_http2());
  running_request& sending = post("b");
  server_end& end = accept_http2();
  for (std::uint32_t stream = 1; stream != 13; stream += 2) {
    wait_for(end, "DATA " + std::to_string(stream) + " end");
    EXPECT_FALSE(sending.done());
    end.send(reset_stream(stream, 7));
    settle(end);
    virtual_time.advance(1s);
  }
  EXPECT_EQ(finish(sending).error(), errc::request_refused);
  EXPECT_THAT(sending.message(), HasSubstr("POST " + server.url() + ": "));
  EXPECT_EQ(client->metrics().retries, 5U);
}

TEST_F(HttpClientHttp2, AStreamedBodyThatHasBegunIsNotRepeated) {
  make(speaking_http2());
  client_request request(method::put, server.url());
  request.set_stream("", [](request_body_writer& writer) -> task<> { co_await writer.write("a"); });
  running_request& sending = send(std::move(request));
  server_end& end = accept_http2();
  wait_for(end, "DATA 1");
  end.send(reset_stream(1, 7));
  EXPECT_EQ(finish(sending).error(), errc::request_refused);
  EXPECT_EQ(client->metrics().retries, 0U);
}

TEST_F(HttpClientHttp2, AResetIsAnErrorOfItsRequestOnly) {
  make(speaking_http2());
  running_request& first = get();
  running_request& other = get();
  server_end& end = accept_http2();
  wait_for(end, "HEADERS 3");
  end.send(reset_stream(1, 2));
  EXPECT_EQ(finish(first).error(), errc::stream_reset);
  EXPECT_THAT(first.message(), HasSubstr("RST_STREAM with INTERNAL_ERROR"));
  end.send(text_response(3, "other"));
  EXPECT_EQ(finish(other).response().body(), "other");
  EXPECT_EQ(client->metrics().retries, 0U);
}

TEST_F(HttpClientHttp2, AServerThatRequiresHttp1GetsIt) {
  make(speaking_http2());
  running_request& sending = get("/old");
  server_end& end = accept_http2();
  wait_for(end, "HEADERS 1");
  end.send(reset_stream(1, 13));
  peer& plain = accept();
  EXPECT_THAT(receive_head(plain), StartsWith("GET /old HTTP/1.1\r\n"));
  plain.send(ok);
  EXPECT_EQ(finish(sending).response().major_version(), 1U);
}

// --- The end of the connection ---

TEST_F(HttpClientHttp2, AConnectionThatEndsFailsItsRequests) {
  make(speaking_http2());
  running_request& waiting = get("/a");
  running_request& reading = get("/b");
  server_end& end = accept_http2();
  wait_for(end, "HEADERS 3");
  end.send(response_frame(3, "200", 0) + frame(data_frame, 0, 3, "half"));
  settle(end);
  end.socket->end_sending();
  EXPECT_EQ(finish(waiting).error(), errc::no_response);
  EXPECT_EQ(finish(reading).error(), errc::truncated);
  EXPECT_TRUE(ends(*end.socket));
  EXPECT_EQ(client->metrics().open, 0U);
}

TEST_F(HttpClientHttp2, AnIdempotentRequestIsRepeatedOnceIfAUsedConnectionEnds) {
  make(speaking_http2());
  server_end& end = answer_first();
  running_request& repeated = get("/a");
  running_request& failed = post("b");
  wait_for(end, "DATA 5 end");
  end.socket->reset();
  EXPECT_TRUE(finish(failed).error() == errc::no_response ||
              failed.error() == std::errc::connection_reset);
  server_end& next = accept_http2();
  EXPECT_THAT(wait_for(next, "HEADERS 1"), HasSubstr("/a"));
  next.send(text_response(1, "a"));
  EXPECT_EQ(finish(repeated).response().body(), "a");
  EXPECT_EQ(client->metrics().retries, 1U);
}

TEST_F(HttpClientHttp2, ServersThatEndEachConnectionAtOnceAreAnError) {
  make(speaking_http2());
  running_request& sending = get();
  for (int i = 0; i < 10 && !sending.done(); ++i) {
    virtual_time.turn_until([&] {
      peer* const accepted = sending.done() ? nullptr : server.accept();
      if (accepted != nullptr) accepted->close();
      virtual_time.advance(1s);
      return accepted != nullptr || sending.done();
    });
  }
  EXPECT_TRUE(sending.done());
  EXPECT_NE(sending.message(), "");
}

TEST_F(HttpClientHttp2, AnIdleConnectionIsClosed) {
  client_options options = speaking_http2();
  options.idle_timeout = 20s;
  make(options);
  server_end& end = answer_first();
  virtual_time.advance(19s);
  settle();
  running_request& second = get();
  wait_for(end, "HEADERS 3");
  end.send(response_frame(3));
  finish(second);
  virtual_time.advance(19s);
  settle();
  EXPECT_EQ(client->metrics().open, 1U);
  virtual_time.advance(2s);
  EXPECT_TRUE(ends(*end.socket));
  EXPECT_EQ(client->metrics().open, 0U);
}

TEST_F(HttpClientHttp2, AnOldConnectionGetsNoFurtherRequests) {
  client_options options = speaking_http2();
  options.max_lifetime = 1min;
  options.idle_timeout = 1h;
  make(options);
  answer_first();
  virtual_time.advance(61s);
  running_request& second = get();
  server_end& next = accept_http2();
  wait_for(next, "HEADERS 1");
  next.send(response_frame(1));
  EXPECT_EQ(finish(second).message(), "");
}

TEST_F(HttpClientHttp2, CloseKeepsRequestsInProgressAndRefusesOthers) {
  client_options options = speaking_http2();
  options.connections_per_host = 1;
  options.http2.max_streams = 1;
  make(options);
  running_request& going = get("/a");
  server_end& end = accept_http2();
  wait_for(end, "HEADERS 1");
  running_request& waiting = get("/b");
  settle();
  client->close();
  EXPECT_EQ(finish(waiting).error(), make_error_code(gyre::io::errc::closed));
  EXPECT_EQ(finish(get("/c")).error(), make_error_code(gyre::io::errc::not_open));
  end.send(text_response(1, "a"));
  EXPECT_EQ(finish(going).response().body(), "a");
  EXPECT_TRUE(ends(*end.socket));
}

TEST_F(HttpClientHttp2, AStreamedResponseOutlivesTheClient) {
  make(speaking_http2());
  running_request& sending = stream_get();
  server_end& end = accept_http2();
  wait_for(end, "HEADERS 1");
  end.send(response_frame(1, "200", 0) + frame(data_frame, 0, 1, "a"));
  std::optional<client_response> answer(std::move(finish(sending).response()));
  client.reset();
  end.send(frame(data_frame, end_stream, 1, "b"));
  std::string text;
  running_request& reading = start([](client_response& response, std::string& into) {
    return [](client_response& source, std::string& target) -> task<client_response> {
      while (const auto chunk = co_await source.next_chunk()) {
        target.append(reinterpret_cast<const char*>(chunk->data()), chunk->size());
      }
      co_return std::move(source);
    }(response, into);
  }(*answer, text));
  finish(reading);
  EXPECT_EQ(reading.message(), "");
  EXPECT_EQ(text, "ab");
  EXPECT_TRUE(ends(*end.socket));
}

// --- Stops and time limits ---

TEST_F(HttpClientHttp2, AStopResetsTheStream) {
  make(speaking_http2());
  running_request& stopped = get("/a");
  running_request& other = get("/b");
  server_end& end = accept_http2();
  wait_for(end, "HEADERS 3");
  stopped.request_stop();
  finish(stopped);
  EXPECT_THAT(wait_for(end, "RST_STREAM"), EndsWith("RST_STREAM 1 8\n"));
  // The server may respond before it knows of the reset.
  end.send(text_response(1, "late") + text_response(3, "b"));
  EXPECT_EQ(finish(other).response().body(), "b");
}

TEST_F(HttpClientHttp2, AResponseThatIsDroppedResetsTheStream) {
  make(speaking_http2());
  running_request& sending = stream_get();
  server_end& end = accept_http2();
  wait_for(end, "HEADERS 1");
  end.send(response_frame(1, "200", 0));
  {
    const client_response dropped = std::move(finish(sending).response());
  }
  EXPECT_THAT(wait_for(end, "RST_STREAM"), EndsWith("RST_STREAM 1 8\n"));
}

TEST_F(HttpClientHttp2, TimeLimitsAreThoseOfEachRequest) {
  client_options options = speaking_http2();
  options.timeouts.first_byte = 5s;
  options.timeouts.between_bytes = 3s;
  make(options);
  running_request& silent = get("/a");
  running_request& halting = get("/b");
  server_end& end = accept_http2();
  wait_for(end, "HEADERS 3");
  end.send(response_frame(3, "200", 0) + frame(data_frame, 0, 3, "x"));
  settle(end);
  virtual_time.advance(4s);
  EXPECT_EQ(finish(halting).error(), errc::timed_out);
  EXPECT_THAT(halting.message(), HasSubstr("reading the body of the response"));
  EXPECT_FALSE(silent.done());
  virtual_time.advance(2s);
  EXPECT_EQ(finish(silent).error(), errc::timed_out);
  EXPECT_THAT(silent.message(), HasSubstr("waiting for the response"));
  EXPECT_THAT(wait_for(end, "RST_STREAM 1 8"), HasSubstr("RST_STREAM 3 8\n"));
  EXPECT_EQ(client->metrics().open, 1U);
}

TEST_F(HttpClientHttp2, ASilentServerIsAskedAndThenLeft) {
  client_options options = speaking_http2();
  options.http2.ping_interval = 10s;
  options.http2.ping_timeout = 5s;
  make(options);
  running_request& sending = get();
  server_end& end = accept_http2();
  wait_for(end, "HEADERS 1");
  settle();
  virtual_time.advance(10s);
  wait_for(end, "PING\n");
  end.send(frame(ping_frame, ack, 0, std::string(8, '\0')));
  settle(end);
  virtual_time.advance(6s);
  settle();
  EXPECT_FALSE(sending.done());
  virtual_time.advance(5s);
  wait_for(end, "PING\n");
  virtual_time.advance(6s);
  EXPECT_EQ(finish(sending).error(), errc::timed_out);
  EXPECT_THAT(sending.message(), HasSubstr("waiting for the answer to PING"));
  EXPECT_TRUE(ends(*end.socket));
}

TEST_F(HttpClientHttp2, AServerThatReadsNothingEndsTheConnection) {
  client_options options = speaking_http2();
  options.timeouts.send = 7s;
  options.http2.ping_interval = 0s;
  make(options);
  running_request& sending = post(std::string(std::size_t{32} << 20, 'x'));
  server_end& end = accept_http2(setting_entry(4, 0x7fffffff));
  end.send(window_update(0, 0x7fff0000));
  // The windows are large, so it is the socket that the client waits for.
  virtual_time.turn_until([&] {
    int size = 0;
    return ::ioctl(end.socket->fd(), FIONREAD, &size) == 0 && size > 100'000;
  });
  settle();
  virtual_time.advance(8s);
  EXPECT_EQ(finish(sending).error(), errc::timed_out);
  EXPECT_THAT(sending.message(), HasSubstr("sending the request"));
}

// --- Bodies ---

TEST_F(HttpClientHttp2, AStreamedResponseGetsCreditWhenItIsRead) {
  client_options options = speaking_http2();
  options.http2.stream_window = 1000;
  make(options);
  running_request& sending = stream_get();
  server_end& end = accept_http2();
  wait_for(end, "HEADERS 1");
  end.send(response_frame(1, "200", 0) + frame(data_frame, 0, 1, std::string(1000, 'x')));
  client_response& answer = finish(sending).response();
  settle(end);
  EXPECT_THAT(end.frames, Not(HasSubstr("WINDOW_UPDATE 1 ")));
  std::size_t size = 0;
  bool has_ended = false;
  running_request& reading =
      start([](client_response response, std::size_t& count, bool& ended) -> task<client_response> {
        while (const auto chunk = co_await response.next_chunk()) count += chunk->size();
        ended = true;
        co_return response;
      }(std::move(answer), size, has_ended));
  EXPECT_THAT(wait_for(end, "WINDOW_UPDATE 1 "), EndsWith("WINDOW_UPDATE 1 1000\n"));
  EXPECT_EQ(size, 1000U);
  EXPECT_FALSE(has_ended);
  end.send(frame(data_frame, end_stream, 1, "y"));
  finish(reading);
  EXPECT_EQ(size, 1001U);
}

TEST_F(HttpClientHttp2, AResponseThatNobodyReadsDoesNotHoldUpOthers) {
  client_options options = speaking_http2();
  options.http2.stream_window = 100'000;
  options.http2.max_streams = 1;  // so that the connection's window has 100,000 bytes, too
  make(options);
  running_request& unread = stream_get();
  server_end& end = accept_http2();
  wait_for(end, "HEADERS 1");
  end.send(response_frame(1, "200", 0));
  for (int i = 0; i < 10; ++i) end.send(frame(data_frame, 0, 1, std::string(10'000, 'x')));
  finish(unread);
  virtual_time.turn_until([&] {
    receive(end);
    return end.frames.find("WINDOW_UPDATE 0 ") != end.frames.rfind("WINDOW_UPDATE 0 ");
  });
  EXPECT_THAT(end.frames, Not(HasSubstr("WINDOW_UPDATE 1 ")));
}

TEST_F(HttpClientHttp2, AnUploadWaitsForTheWindows) {
  make(speaking_http2());
  const std::string body = gyre::net::test::long_text(100'000);
  std::size_t written = 0;
  client_request request(method::post, server.url());
  request.set_stream("", [&](request_body_writer& writer) -> task<> {
    for (std::size_t at = 0; at < body.size(); at += 10'000) {
      const std::string_view piece = std::string_view(body).substr(at, 10'000);
      co_await writer.write(piece);
      written += piece.size();
    }
    writer.add_trailer("Digest", "x");
  });
  running_request& sending = send(std::move(request));
  server_end& end = accept_http2();
  std::size_t received = 0;
  const auto receive_until_size = [&](std::size_t size) {
    virtual_time.turn_until([&] {
      end.socket->receive();
      if (!end.has_preface && end.socket->text.size() >= 24) {
        end.socket->text.erase(0, 24);
        end.has_preface = true;
      }
      while (end.has_preface) {
        const auto next = take_frame(end.socket->text);
        if (!next) break;
        if (next->type == data_frame) {
          EXPECT_EQ(next->payload, body.substr(received, next->payload.size()));
          received += next->payload.size();
        } else {
          end.frames += end.printer.print(*next);
        }
      }
      return received >= size;
    });
  };
  receive_until_size(65'535);
  settle();
  EXPECT_EQ(written, 60'000U);
  end.send(window_update(1, 1000));
  settle(end);
  EXPECT_EQ(received, 65'535U);
  end.send(window_update(0, 100'000) + window_update(1, 100'000));
  receive_until_size(100'000);
  EXPECT_THAT(wait_for(end, "digest"), EndsWith("HEADERS 1 end digest: x;\n"));
  end.send(response_frame(1));
  EXPECT_TRUE(finish(sending).response().is_request_complete());
}

TEST_F(HttpClientHttp2, AWindowThatNeverOpensIsATimeLimit) {
  client_options options = speaking_http2();
  options.timeouts.send = 5s;
  make(options);
  running_request& stuck = post(std::string(100'000, 'x'));
  running_request& other = get("/b");
  server_end& end = accept_http2(setting_entry(4, 0));
  wait_for(end, "HEADERS 3");
  settle();
  virtual_time.advance(6s);
  EXPECT_EQ(finish(stuck).error(), errc::timed_out);
  EXPECT_THAT(stuck.message(), HasSubstr("sending the request"));
  EXPECT_THAT(wait_for(end, "RST_STREAM"), EndsWith("RST_STREAM 1 8\n"));
  end.send(text_response(3, "b"));
  EXPECT_EQ(finish(other).response().body(), "b");
}

TEST_F(HttpClientHttp2, ARefusalStopsTheUpload) {
  make(speaking_http2());
  for (const bool resets : {false, true}) {
    client_request request(method::post, server.url());
    request.set_stream("", [](request_body_writer& writer) -> task<> {
      for (;;) co_await writer.write(std::string(10'000, 'x'));
    });
    running_request& sending = send(std::move(request));
    server_end& end = accept_http2();
    wait_for(end, "HEADERS 1");
    end.send(response_frame(1, "413", 0) + frame(data_frame, end_stream, 1, "too large") +
             (resets ? reset_stream(1, 0) : ""));
    client_response& answer = finish(sending).response();
    EXPECT_EQ(answer.status(), gyre::http::status::content_too_large);
    EXPECT_EQ(answer.body(), "too large");
    EXPECT_FALSE(answer.is_request_complete());
    if (!resets) {
      EXPECT_THAT(wait_for(end, "RST_STREAM"), EndsWith("RST_STREAM 1 8\n"));
    }
    end.send(goaway(1));
    EXPECT_TRUE(ends(*end.socket));
  }
}

TEST_F(HttpClientHttp2, AnUploadMayOutliveTheResponse) {
  make(speaking_http2());
  client_request request(method::post, server.url());
  request.set_stream("", [](request_body_writer& writer) -> task<> {
    co_await writer.write("a");
    co_await gyre::sleep_for(5s);
    co_await writer.write("b");
  });
  running_request& sending = send(std::move(request));
  server_end& end = accept_http2();
  wait_for(end, "DATA 1 a");
  end.send(text_response(1, "early"));
  settle(end);
  EXPECT_FALSE(sending.done());
  virtual_time.advance(6s);
  client_response& answer = finish(sending).response();
  EXPECT_EQ(answer.body(), "early");
  EXPECT_TRUE(answer.is_request_complete());
  EXPECT_THAT(wait_for(end, "DATA 1 end"), EndsWith("DATA 1 b\nDATA 1 end \n"));
}

TEST_F(HttpClientHttp2, ABodyMayWaitForContinue) {
  make(speaking_http2());
  client_request request(method::put, server.url());
  request.set_body("", "hello").expect_continue();
  running_request& sending = send(std::move(request));
  server_end& end = accept_http2();
  EXPECT_THAT(wait_for(end, "HEADERS 1"), HasSubstr("expect: 100-continue;\n"));
  settle();
  receive(end);
  EXPECT_THAT(end.frames, Not(HasSubstr("DATA")));
  end.send(response_frame(1, "103", 0, {{"link", "x"}}) + response_frame(1, "100", 0));
  wait_for(end, "DATA 1 end hello");
  end.send(response_frame(1));
  EXPECT_TRUE(finish(sending).response().is_request_complete());

  client_request again(method::put, server.url());
  again.set_body("", "hello").expect_continue();
  running_request& refused = send(std::move(again));
  EXPECT_THAT(wait_for(end, "HEADERS 3"), HasSubstr("expect: 100-continue;\n"));
  end.send(response_frame(3, "417"));
  EXPECT_THAT(wait_for(end, "DATA 5 end hello"), HasSubstr("RST_STREAM 3 8\n"));
  end.send(response_frame(5));
  EXPECT_EQ(finish(refused).response().status(), gyre::http::status::ok);
}

TEST_F(HttpClientHttp2, RedirectsAreFollowed) {
  make(speaking_http2());
  running_request& sending = get("/a");
  server_end& end = accept_http2();
  wait_for(end, "HEADERS 1");
  end.send(response_frame(1, "302", end_stream, {{"location", "/b"}}));
  EXPECT_THAT(wait_for(end, "HEADERS 3"), HasSubstr(":path: /b;"));
  end.send(text_response(3, "b"));
  EXPECT_EQ(finish(sending).response().url().path(), "/b");
}

// --- Hostile servers ---

TEST_F(HttpClientHttp2, FloodsEndTheConnection) {
  client_options options = speaking_http2();
  options.http2.frame_burst = 100;
  make(options);
  struct example {
    const char* name;
    std::string bytes;
  };
  for (const example& each :
       std::initializer_list<example>{{"PING", frame(ping_frame, 0, 0, "12345678")},
                                      {"SETTINGS", frame(settings_frame, 0, 0)},
                                      {"WINDOW_UPDATE", window_update(0, 1)},
                                      {"empty DATA", frame(data_frame, 0, 1)},
                                      {"RST_STREAM", reset_stream(1, 8)},
                                      {"unknown", frame(200, 0, 0, "x")}}) {
    running_request& sending = get();
    server_end& end = accept_http2();
    wait_for(end, "HEADERS 1");
    end.send(response_frame(1, "200", 0));
    if (each.name == std::string("RST_STREAM")) {
      // The connection keeps a request open while its server resets a stream again and again.
      running_request& other = get();
      wait_for(end, "HEADERS 3");
      EXPECT_EQ(flood(end, other, each.bytes).error(), errc::http2_violation) << each.name;
      EXPECT_EQ(finish(sending).error(), errc::stream_reset);
    } else {
      EXPECT_EQ(flood(end, sending, each.bytes).error(), errc::http2_violation) << each.name;
    }
    EXPECT_THAT(wait_for(end, "GOAWAY"), HasSubstr("GOAWAY last 0 error 11\n")) << each.name;
    EXPECT_TRUE(ends(*end.socket));
  }
  EXPECT_EQ(client->metrics().open, 0U);
}

TEST_F(HttpClientHttp2, ViolationsEndTheConnection) {
  client_options options = speaking_http2();
  options.http2.stream_window = 1000;
  make(options);
  struct example {
    const char* name;
    std::string bytes;
    int error;
  };
  for (const example& each : std::initializer_list<example>{
           {"PUSH_PROMISE",
            frame(5, end_headers, 1, big_endian(2) + block_of(request_fields("GET", "/"))), 1},
           {"DATA on an idle stream", frame(data_frame, 0, 3, "x"), 1},
           {"HEADERS on an idle stream", response_frame(3), 1},
           {"DATA before the head", frame(data_frame, 0, 1, "x"), 1},
           {"HEADERS on a stream of the server", response_frame(2), 1},
           {"RST_STREAM on an idle stream", reset_stream(3, 8), 1},
           {"CONTINUATION alone", frame(continuation_frame, end_headers, 1), 1},
           {"HEADERS without an end",
            frame(headers_frame, 0, 1) + frame(ping_frame, 0, 0, "12345678"), 1},
           {"a frame above the limit", frame(data_frame, 0, 1, std::string(20'000, 'x')), 6},
           {"malformed HPACK", frame(headers_frame, end_headers, 1, "\xff\xff\xff\xff\xff"), 9},
           {"a window above its maximum",
            window_update(0, 0x7fffffff) + window_update(0, 0x7fffffff), 3}}) {
    running_request& sending = get();
    server_end& end = accept_http2();
    wait_for(end, "HEADERS 1");
    end.send(each.bytes);
    EXPECT_EQ(finish(sending).error(), errc::http2_violation) << each.name;
    EXPECT_THAT(wait_for(end, "GOAWAY"),
                HasSubstr("GOAWAY last 0 error " + std::to_string(each.error) + '\n'))
        << each.name;
    EXPECT_TRUE(ends(*end.socket));
  }
}

TEST_F(HttpClientHttp2, MalformedResponsesAreErrorsOfTheirRequests) {
  client_options options = speaking_http2();
  options.http2.stream_window = 1000;
  make(options);
  server_end& end = answer_first();
  std::uint32_t stream = 3;
  const auto expect = [&](const char* name, std::string_view bytes, errc error) {
    running_request& sending = get();
    wait_for(end, "HEADERS " + std::to_string(stream));
    end.send(bytes);
    EXPECT_EQ(finish(sending).error(), error) << name << ": " << sending.message();
    stream += 2;
  };
  const auto with = [&](const field_texts& fields, std::uint8_t flags = end_stream) {
    return frame(headers_frame, static_cast<std::uint8_t>(flags | end_headers), stream,
                 block_of(fields));
  };
  expect("no status", with({{"a", "b"}}), errc::http2_violation);
  expect("a status of two digits", with({{":status", "20"}}), errc::http2_violation);
  expect("an upper-case name", with({{":status", "200"}, {"A", "b"}}), errc::http2_violation);
  expect("Connection", with({{":status", "200"}, {"connection", "close"}}), errc::http2_violation);
  expect("a forbidden byte", with({{":status", "200"}, {"a", "b\nc"}}), errc::http2_violation);
  expect("too short a body", with({{":status", "200"}, {"content-length", "5"}}),
         errc::http2_violation);
  expect(
      "too long a body",
      with({{":status", "200"}, {"content-length", "1"}}, 0) + frame(data_frame, 0, stream, "xy"),
      errc::http2_violation);
  expect("data beyond the window",
         with({{":status", "200"}}, 0) + frame(data_frame, 0, stream, std::string(1001, 'x')),
         errc::http2_violation);
  expect("an end after an interim response", with({{":status", "100"}}), errc::http2_violation);
  expect("101", with({{":status", "101"}}, 0), errc::http2_violation);
  std::string interim;
  for (int i = 0; i < 17; ++i) interim += with({{":status", "103"}}, 0);
  expect("too many interim responses", interim, errc::unexpected_status);
  running_request& last = get();
  wait_for(end, "HEADERS " + std::to_string(stream));
  end.send(text_response(stream, "still here"));
  EXPECT_EQ(finish(last).response().body(), "still here");
}

TEST_F(HttpClientHttp2, HeaderBombsAreErrors) {
  client_options options = speaking_http2();
  options.limits.fields = 4000;
  options.limits.start_line = 1000;
  options.limits.field_count = 20;
  make(options);
  running_request& many = get("/a");
  server_end& end = accept_http2();
  wait_for(end, "HEADERS 1");
  field_texts fields(25, {"a", ""});
  end.send(response_frame(1, "200", end_stream, fields));
  EXPECT_EQ(finish(many).error(), errc::fields_too_large);
  running_request& large = get("/b");
  EXPECT_THAT(wait_for(end, "HEADERS 3"), HasSubstr("RST_STREAM 1 8\n"));
  end.send(response_frame(3, "200", end_stream, {{"a", std::string(5000, 'x')}}));
  EXPECT_EQ(finish(large).error(), errc::fields_too_large);
  // Each field takes one byte on the wire.
  running_request& bomb = get("/c");
  wait_for(end, "HEADERS 5");
  end.send(frame(headers_frame, end_headers, 5,
                 literal(":status", "200") +
                     std::string("\x40\x01"
                                 "a\x00",
                                 4) +
                     std::string(10'000, '\xbe')));
  EXPECT_EQ(finish(bomb).error(), errc::fields_too_large);
  EXPECT_THAT(wait_for(end, "GOAWAY"), HasSubstr("GOAWAY last 0 error 11\n"));
  EXPECT_TRUE(ends(*end.socket));
}

// --- Long heads ---

TEST_F(HttpClientHttp2, AHeadMayBeLong) {
  client_options options = speaking_http2();
  options.limits.fields = 1'000'000;
  make(options);
  client_request request(method::get, server.url("/a"));
  for (int i = 0; i < 20; ++i) request.set("X-" + std::to_string(i), std::string(30'000, 'x'));
  running_request& sending = send(std::move(request));
  server_end& end = accept_http2();
  EXPECT_THAT(wait_for(end, "HEADERS 1"), HasSubstr("x-19: " + std::string(30'000, 'x') + ';'));
  field_texts fields{{":status", "200"}};
  for (int i = 0; i < 20; ++i) {
    fields.emplace_back("x-" + std::to_string(i), std::string(30'000, 'y'));
  }
  end.send(long_head(1, end_stream, block_of(fields)));
  EXPECT_EQ(finish(sending).message(), "");
  EXPECT_EQ(sending.response().field("X-19"), std::string(30'000, 'y'));
}

TEST_F(HttpClientHttp2, AHeadThatIsTooLongIsAnError) {
  make(speaking_http2());
  server_end& end = answer_first();
  client_request request(method::get, server.url("/a"));
  for (int i = 0; i < 40; ++i) request.set("X-" + std::to_string(i), std::string(30'000, 'x'));
  running_request& sending = finish(send(std::move(request)));
  EXPECT_EQ(sending.error(), errc::fields_too_large);
  EXPECT_THAT(sending.message(), HasSubstr("sending the request"));
  EXPECT_EQ(client->metrics().retries, 0U);
  client_request long_field(method::get, server.url("/a"));
  long_field.set("X-Long", std::string(70'000, 'x'));
  EXPECT_EQ(finish(send(std::move(long_field))).error(), errc::fields_too_large);
  client_request upload(method::post, server.url("/b"));
  upload.set_stream("", [](request_body_writer& writer) -> task<> {
    co_await writer.write("a");
    for (int i = 0; i < 40; ++i) {
      writer.add_trailer("X-" + std::to_string(i), std::string(30'000, 'x'));
    }
  });
  running_request& uploading = send(std::move(upload));
  EXPECT_THAT(wait_for(end, "RST_STREAM"), HasSubstr("DATA 3 a\n"));
  EXPECT_EQ(finish(uploading).error(), errc::fields_too_large);
  running_request& last = get("/c");
  EXPECT_THAT(wait_for(end, "HEADERS 5"), HasSubstr("RST_STREAM 3 8\n"));
  end.send(text_response(5, "still here"));
  EXPECT_EQ(finish(last).response().body(), "still here");
}

TEST_F(HttpClientHttp2, ContinuationsEndTheConnection) {
  make(speaking_http2());
  running_request& sending = get();
  server_end& end = accept_http2();
  wait_for(end, "HEADERS 1");
  end.send(frame(headers_frame, 0, 1, literal(":status", "200")));
  EXPECT_EQ(flood(end, sending, frame(continuation_frame, 0, 1, literal("a", "b"))).error(),
            errc::http2_violation);
}

TEST_F(HttpClientHttp2, AServerThatSpeaksHttp1IsAnError) {
  make(speaking_http2());
  running_request& sending = get();
  peer& plain = accept();
  virtual_time.turn_until([&] {
    plain.receive();
    return plain.text.size() > 100;
  });
  plain.send("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
  EXPECT_EQ(finish(sending).error(), errc::http2_violation);
}

TEST_F(HttpClientHttp2, DataOfResetStreamsAreDropped) {
  client_options options = speaking_http2();
  options.http2.stream_window = 100'000;
  options.http2.max_streams = 2;
  make(options);
  running_request& stopped = get("/a");
  server_end& end = accept_http2();
  wait_for(end, "HEADERS 1");
  end.send(response_frame(1, "200", 0));
  settle(end);
  stopped.request_stop();
  finish(stopped);
  wait_for(end, "RST_STREAM 1 8");
  for (int i = 0; i < 30; ++i) {
    end.send(frame(data_frame, 0, 1, std::string(10'000, 'x')));
    settle(end);
  }
  running_request& other = get("/b");
  wait_for(end, "HEADERS 3");
  end.send(text_response(3, "b"));
  EXPECT_EQ(finish(other).response().body(), "b");
}

TEST_F(HttpClientHttp2, OptionsAreChecked) {
  const auto construct = [&](auto change) {
    client_options options;
    change(options.http2);
    make(options);
  };
  EXPECT_THROW(construct([](auto& each) { each.max_streams = 0; }), std::invalid_argument);
  EXPECT_THROW(construct([](auto& each) { each.stream_window = 0; }), std::invalid_argument);
  EXPECT_THROW(construct([](auto& each) { each.stream_window = 0x80000000U; }),
               std::invalid_argument);
  EXPECT_THROW(construct([](auto& each) { each.session_memory = 65'535; }), std::invalid_argument);
  EXPECT_THROW(construct([](auto& each) { each.frame_burst = 0; }), std::invalid_argument);
  EXPECT_THROW(construct([](auto& each) { each.ping_timeout = 0s; }), std::invalid_argument);
  EXPECT_THROW(construct([](auto& each) { each.ping_interval = -1s; }), std::invalid_argument);
}

}  // namespace
}  // namespace http_client_http2_test
