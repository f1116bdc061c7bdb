// SPDX-License-Identifier: Apache-2.0
// Tests of the HTTP client with servers that answer while it still sends the body of a request.
#include <gyre/http/client.hpp>
#include <gyre/sync/event.hpp>
#include <gyre/task/as_result.hpp>
#include <gyre/task/spawn.hpp>
#include <tests/support/http_peers.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <exception>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

namespace http_client_upload_test {
namespace {

using namespace std::chrono_literals;
using gyre::task;
using gyre::http::client_options;
using gyre::http::client_request;
using gyre::http::client_response;
using gyre::http::errc;
using gyre::http::method;
using gyre::http::request_body_writer;
using gyre::http::status;
using gyre::http::test::ok;
using gyre::http::test::running_request;
using gyre::net::test::long_text;
using gyre::net::test::peer;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

constexpr std::string_view begins =
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n";
constexpr std::string_view ends_chunks = "3\r\ntwo\r\n0\r\n\r\n";

// A function that writes the body of a request as a test says, and notes its end.
class body_source {
 public:
  gyre::http::client_request::body_function function() {
    return [this](request_body_writer& to) { return write(to); };
  }
  /// Lets it write once more.
  void go_on() { go_.set(); }
  void finish() {
    is_last_ = true;
    go_.set();
  }
  void fail() { fail(std::make_exception_ptr(std::runtime_error("no more paper"))); }
  void fail(std::exception_ptr error) {
    error_ = std::move(error);
    go_.set();
  }
  std::size_t written() const noexcept { return written_; }
  bool has_ended() const noexcept { return has_ended_; }

 private:
  task<> write(request_body_writer& to) {
    struct note {
      bool& ended;
      ~note() { ended = true; }
    } const at_end{has_ended_};
    for (;;) {
      co_await go_.wait();
      if (error_) std::rethrow_exception(error_);
      if (is_last_) co_return;
      auto writing = to.write("ab");
      co_await std::move(writing);
      ++written_;
    }
  }

  gyre::auto_reset_event go_;
  bool is_last_ = false;
  std::exception_ptr error_;
  bool has_ended_ = false;
  std::size_t written_ = 0;
};

class HttpClientUpload : public gyre::http::test::http_client_test {
 protected:
  client_request request_with(body_source& source, method which = method::post) {
    client_request request(which, server.url());
    request.set_stream("", source.function());
    return request;
  }
  client_request large_request(method which = method::post) {
    client_request request(which, server.url());
    request.set_body("text/plain", text);
    return request;
  }
  void receive_body(peer& at) {
    virtual_time.turn_until([&] {
      at.receive();
      return at.text.size() >= text.size() || at.ended;
    });
    EXPECT_EQ(at.text, text);
  }
  // Reads chunks to the end; the last word is "end", or the error's message.
  std::string read_all(client_response& from) {
    std::optional<std::string> got;
    gyre::spawn(virtual_time.loop, read(from, got));
    virtual_time.turn_until([&] { return got.has_value(); });
    return *got;
  }
  static task<> read(client_response& from, std::optional<std::string>& into) {
    std::string all;
    for (;;) {
      auto reading = gyre::as_result(from.next_chunk());
      const auto chunk = co_await std::move(reading);
      if (!chunk) {
        into = all + message_of(chunk.error());
        co_return;
      }
      if (!*chunk) break;
      all.append(reinterpret_cast<const char*>((*chunk)->data()), (*chunk)->size());
    }
    into = all + "end";
  }
  static std::string message_of(const std::exception_ptr& error) try {
    std::rethrow_exception(error);
  } catch (const std::exception& failure) {
    return failure.what();
  }
  // A request whose response has begun, and whose body waits for the source.
  client_response stream_with(body_source& source, peer*& at) {
    running_request& streaming = start(client->stream(request_with(source)));
    at = &accept();
    receive_head(*at);
    at->send(begins);
    return std::move(finish(streaming).response());
  }

  // More than the client sends with the head.
  static inline const std::string text = [] {
    const std::string part = long_text(std::size_t{64} << 10);
    std::string whole;
    while (whole.size() < std::size_t{4} << 20) whole += part;
    return whole;
  }();
};

TEST_F(HttpClientUpload, AServerMayAnswerWhileItReads) {
  make();
  running_request& sending = send(large_request());
  peer& at = accept();
  receive_head(at);
  at.send(begins);
  virtual_time.settle();
  receive_body(at);
  at.send(ends_chunks);
  EXPECT_EQ(finish(sending).response().body(), "onetwo");
  EXPECT_TRUE(sending.response().is_request_complete());
  EXPECT_EQ(client->metrics().idle, 1u);
}

TEST_F(HttpClientUpload, AServerMayEndItsAnswerBeforeItHasTheBody) {
  make();
  running_request& sending = send(large_request());
  peer& at = accept();
  receive_head(at);
  at.send(ok);
  virtual_time.settle();
  receive_body(at);
  EXPECT_EQ(finish(sending).response().body(), "ok");
  EXPECT_TRUE(sending.response().is_request_complete());
  EXPECT_EQ(client->metrics().idle, 1u);
}

TEST_F(HttpClientUpload, AStreamedAnswerComesWhileTheBodyIsSent) {
  make();
  body_source source;
  peer* at = nullptr;
  client_response response = stream_with(source, at);
  EXPECT_FALSE(response.is_request_complete());
  std::optional<std::string> read_text;
  gyre::spawn(virtual_time.loop, read(response, read_text));
  for (int piece = 0; piece != 3; ++piece) {
    source.go_on();
    EXPECT_EQ(receive_until(*at, "ab\r\n"), "2\r\nab\r\n");
    at->send("1\r\n" + std::to_string(piece) + "\r\n");
  }
  at->send("0\r\n\r\n");
  virtual_time.settle();
  EXPECT_FALSE(read_text) << "the end of the answer is not that of the exchange";
  source.finish();
  EXPECT_EQ(receive_until(*at, "0\r\n\r\n"), "0\r\n\r\n");
  virtual_time.turn_until([&] { return read_text.has_value(); });
  EXPECT_EQ(*read_text, "one012end");
  EXPECT_TRUE(response.is_request_complete());
  EXPECT_EQ(client->metrics().idle, 1u);
}

TEST_F(HttpClientUpload, ACallerThatReadsLateStopsNothing) {
  make();
  running_request& streaming = start(client->stream(large_request()));
  peer& at = accept();
  receive_head(at);
  at.send("HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(text.size()) + "\r\n\r\n");
  client_response response = std::move(finish(streaming).response());
  // A server that echoes, and so does not read while its answer is not read.
  std::size_t echoed = 0;
  std::string waiting;
  const auto echo = [&] {
    if (waiting.empty() && at.receive_some()) waiting = std::exchange(at.text, {});
    if (waiting.empty()) return;
    const ssize_t count = ::send(at.fd(), waiting.data(), waiting.size(), MSG_NOSIGNAL);
    if (count <= 0) return;
    waiting.erase(0, static_cast<std::size_t>(count));
    echoed += static_cast<std::size_t>(count);
  };
  std::size_t before = 0;
  do {
    before = echoed;
    echo();
    virtual_time.settle();
  } while (echoed != before);
  std::optional<std::string> read_text;
  gyre::spawn(virtual_time.loop, read(response, read_text));
  virtual_time.turn_until([&] {
    echo();
    return read_text.has_value();
  });
  EXPECT_EQ(*read_text, text + "end");
  EXPECT_TRUE(response.is_request_complete());
  EXPECT_EQ(client->metrics().idle, 1u);
}

TEST_F(HttpClientUpload, AStatusFrom400OnStopsTheBody) {
  make();
  for (const std::string_view code : {"400", "413", "500", "700"}) {
    body_source source;
    running_request& sending = send(request_with(source));
    peer& at = accept();
    receive_head(at);
    source.go_on();
    receive_until(at, "ab\r\n");
    at.send("HTTP/1.1 " + std::string(code) + " No\r\nContent-Length: 2\r\n\r\nno");
    EXPECT_EQ(finish(sending).response().body(), "no");
    EXPECT_FALSE(sending.response().is_request_complete());
    EXPECT_TRUE(source.has_ended());
    EXPECT_TRUE(ends(at));
    EXPECT_EQ(at.text, "") << "the body has no end, as it was cut";
  }
}

TEST_F(HttpClientUpload, AServerThatClosesStopsTheBody) {
  make();
  for (const bool resets : {false, true}) {
    body_source source;
    running_request& sending = send(request_with(source));
    peer& at = accept();
    receive_head(at);
    source.go_on();
    receive_until(at, "ab\r\n");
    at.send(ok);
    virtual_time.settle();
    EXPECT_FALSE(sending.done());
    if (resets) {
      at.reset();
    } else {
      at.end_sending();
    }
    EXPECT_EQ(finish(sending).response().body(), "ok");
    EXPECT_FALSE(sending.response().is_request_complete());
    EXPECT_TRUE(source.has_ended());
    EXPECT_EQ(client->metrics().open, 0u);
  }
}

TEST_F(HttpClientUpload, ABodyThatEndsWithTheConnectionStopsTheBodyOfTheRequest) {
  make();
  running_request& sending = send(large_request());
  peer& at = accept();
  receive_head(at);
  at.send("HTTP/1.1 200 OK\r\n\r\nall of it");
  at.end_sending();
  EXPECT_EQ(finish(sending).response().body(), "all of it");
  EXPECT_FALSE(sending.response().is_request_complete());
}

TEST_F(HttpClientUpload, ATruncatedAnswerIsAnError) {
  make();
  body_source source;
  running_request& sending = send(request_with(source));
  peer& at = accept();
  receive_head(at);
  at.send(begins);
  virtual_time.settle();
  at.end_sending();
  EXPECT_EQ(finish(sending).error(), errc::truncated);
  EXPECT_TRUE(source.has_ended());
}

TEST_F(HttpClientUpload, AConnectionWithMoreThanTheAnswerIsNotUsedAgain) {
  make();
  body_source source;
  running_request& sending = send(request_with(source));
  peer& at = accept();
  receive_head(at);
  at.send(std::string(ok) + "more");
  virtual_time.settle();
  EXPECT_FALSE(sending.done());
  source.finish();
  EXPECT_EQ(finish(sending).response().body(), "ok");
  EXPECT_TRUE(sending.response().is_request_complete());
  EXPECT_EQ(client->metrics().open, 0u);
}

TEST_F(HttpClientUpload, AResponseThatIsDestroyedStopsTheBody) {
  make();
  body_source source;
  peer* at = nullptr;
  {
    const client_response response = stream_with(source, at);
    source.go_on();
    receive_until(*at, "ab\r\n");
    EXPECT_FALSE(source.has_ended());
  }
  EXPECT_TRUE(ends(*at));
  EXPECT_TRUE(source.has_ended());
  EXPECT_EQ(source.written(), 1u);
  EXPECT_EQ(client->metrics().open, 0u);
}

TEST_F(HttpClientUpload, AResponseThatIsStoppedWaitsForTheFunctionOfTheBody) {
  make();
  std::optional<client_response> response;
  peer* at = nullptr;
  {
    body_source source;
    response.emplace(stream_with(source, at));
    bool stopped = false;
    gyre::spawn(virtual_time.loop, [](client_response& from, bool& done) -> task<> {
      auto stopping = from.stop();
      co_await std::move(stopping);
      done = true;
    }(*response, stopped));
    virtual_time.turn_until([&] { return stopped; });
    EXPECT_TRUE(source.has_ended());
  }
  EXPECT_TRUE(ends(*at));
  EXPECT_EQ(read_all(*response), "end");
  EXPECT_FALSE(response->is_request_complete());
  EXPECT_EQ(client->metrics().open, 0u);
}

TEST_F(HttpClientUpload, AResponseMayOutliveItsClientWhileTheBodyIsSent) {
  make();
  body_source source;
  peer* at = nullptr;
  client_response response = stream_with(source, at);
  client.reset();
  source.go_on();
  receive_until(*at, "ab\r\n");
  source.finish();
  receive_until(*at, "0\r\n\r\n");
  at->send(ends_chunks);
  EXPECT_EQ(read_all(response), "onetwoend");
  EXPECT_TRUE(response.is_request_complete());
  EXPECT_TRUE(ends(*at));
}

TEST_F(HttpClientUpload, AnExceptionOfTheBodyComesOutOfTheResponse) {
  make();
  body_source source;
  peer* at = nullptr;
  client_response response = stream_with(source, at);
  source.fail();
  EXPECT_THAT(read_all(response), EndsWith("no more paper"));
  EXPECT_FALSE(response.is_request_complete());
  body_source second;
  running_request& sending = send(request_with(second));
  peer& other = accept();
  receive_head(other);
  other.send(ok);
  virtual_time.settle();
  second.fail();
  EXPECT_EQ(finish(sending).message(), "no more paper");
}

// The error of a body's own source has the same code as that of a connection to the server.
TEST_F(HttpClientUpload, ABrokenSourceOfTheBodyIsNoBrokenConnection) {
  make();
  const auto broken = std::make_exception_ptr(
      std::system_error(std::make_error_code(std::errc::connection_reset), "reading the source"));
  body_source source;
  peer* at = nullptr;
  client_response response = stream_with(source, at);
  at->send(ends_chunks);
  source.fail(broken);
  EXPECT_THAT(read_all(response), HasSubstr("reading the source"));
  EXPECT_FALSE(response.is_request_complete());
  body_source second;
  running_request& sending = send(request_with(second));
  receive_head(accept());
  second.fail(broken);
  virtual_time.settle();
  EXPECT_TRUE(sending.done());  // without waiting for a response
  EXPECT_THAT(finish(sending).message(), HasSubstr("reading the source"));
}

TEST_F(HttpClientUpload, AnAnswerThatIsTooLargeStopsTheBody) {
  client_options options;
  options.limits.body = 4;
  make(std::move(options));
  body_source source;
  running_request& sending = send(request_with(source));
  peer& at = accept();
  receive_head(at);
  at.send(std::string(begins) + "3\r\ntwo\r\n");
  EXPECT_EQ(finish(sending).error(), errc::body_too_large);
  EXPECT_TRUE(source.has_ended()) << "by the end of the call";
}

// --- Redirects, retries, expectations ---

std::string redirect(int code) {
  return "HTTP/1.1 " + std::to_string(code) +
         " Elsewhere\r\nLocation: /x\r\nContent-Length: 4\r\n\r\ngone";
}

TEST_F(HttpClientUpload, ARedirectToAGetWaitsForTheBody) {
  make();
  for (const int code : {302, 303}) {
    running_request& sending = send(large_request());
    peer& at = accept();
    receive_head(at);
    at.send(redirect(code));
    virtual_time.settle();
    receive_body(at);
    at.text.clear();
    EXPECT_THAT(receive_head(at), StartsWith("GET /x "));
    at.send(ok);
    EXPECT_EQ(finish(sending).response().body(), "ok");
    EXPECT_TRUE(sending.response().is_request_complete());
    client.reset();
    make();
  }
}

TEST_F(HttpClientUpload, ARedirectToAGetTellsThatTheBodyWasCut) {
  make();
  body_source source;
  running_request& sending = send(request_with(source));
  peer& at = accept();
  receive_head(at);
  at.send(redirect(303));
  at.end_sending();
  peer& next = accept();
  EXPECT_THAT(receive_head(next), StartsWith("GET /x "));
  EXPECT_TRUE(source.has_ended());
  next.send(ok);
  EXPECT_EQ(finish(sending).response().body(), "ok");
  EXPECT_FALSE(sending.response().is_request_complete());
}

TEST_F(HttpClientUpload, ARedirectThatKeepsTheBodyStopsItAndSendsItAgain) {
  make();
  running_request& sending = send(large_request());
  peer& at = accept();
  receive_head(at);
  at.send(redirect(307));
  peer& next = accept();
  EXPECT_THAT(receive_head(next), StartsWith("POST /x "));
  receive_body(next);
  next.send(ok);
  EXPECT_EQ(finish(sending).response().body(), "ok");
  EXPECT_TRUE(sending.response().is_request_complete());
  EXPECT_TRUE(ends(at));
}

TEST_F(HttpClientUpload, TheBodyOfARedirectIsNotAwaitedWhereTheConnectionIsOfNoUse) {
  make();
  running_request& sending = send(large_request());
  peer& at = accept();
  receive_head(at);
  at.send("HTTP/1.1 307 Elsewhere\r\nLocation: /x\r\nContent-Length: 4\r\n\r\n");
  peer& next = accept();
  EXPECT_THAT(receive_head(next), StartsWith("POST /x "));
  receive_body(next);
  next.send(ok);
  EXPECT_EQ(finish(sending).response().body(), "ok");
}

TEST_F(HttpClientUpload, ARedirectThatKeepsAStreamedBodyIsAnError) {
  make();
  body_source source;
  running_request& sending = send(request_with(source));
  peer& at = accept();
  receive_head(at);
  at.send(redirect(308));
  EXPECT_EQ(finish(sending).error(), errc::bad_redirect);
  EXPECT_TRUE(source.has_ended());
}

TEST_F(HttpClientUpload, ARedirectThatIsNotFollowedLetsTheBodyGoOn) {
  make({.follow_redirects = false});
  running_request& sending = send(large_request());
  peer& at = accept();
  receive_head(at);
  at.send(redirect(307));
  receive_body(at);
  EXPECT_EQ(finish(sending).response().body(), "gone");
  EXPECT_TRUE(sending.response().is_request_complete());
}

TEST_F(HttpClientUpload, ALargeBodyIsSentAgainWhereTheServerHadClosed) {
  make();
  running_request& first = get();
  peer& old = accept();
  receive_head(old);
  old.send(ok);
  finish(first);
  running_request& second = send(large_request(method::put));
  receive_head(old);
  old.close();
  peer& fresh = accept();
  EXPECT_THAT(receive_head(fresh), StartsWith("PUT / "));
  receive_body(fresh);
  fresh.send(ok);
  EXPECT_EQ(finish(second).response().body(), "ok");
  EXPECT_TRUE(second.response().is_request_complete());
  EXPECT_EQ(client->metrics().retries, 1u);
}

TEST_F(HttpClientUpload, AnAnswerInPlaceOfAConsentLeavesTheBodyOut) {
  make();
  client_request request = large_request();
  request.expect_continue();
  running_request& sending = send(std::move(request));
  peer& at = accept();
  receive_head(at);
  at.send(ok);
  EXPECT_EQ(finish(sending).response().body(), "ok");
  EXPECT_FALSE(sending.response().is_request_complete());
  EXPECT_TRUE(ends(at));
  EXPECT_EQ(at.text, "");
}

// --- Time limits and stops ---

TEST_F(HttpClientUpload, TheGapsOfAnAnswerHaveNoLimitWhileTheBodyIsSent) {
  make();
  body_source source;
  running_request& sending = send(request_with(source));
  peer& at = accept();
  receive_head(at);
  at.send(begins);
  for (int piece = 0; piece != 10; ++piece) {
    virtual_time.settle();
    virtual_time.advance(20s);
    source.go_on();
    receive_until(at, "ab\r\n");
  }
  source.finish();
  receive_until(at, "0\r\n\r\n");
  at.send(ends_chunks);
  EXPECT_EQ(finish(sending).response().body(), "onetwo");
}

TEST_F(HttpClientUpload, TheGapsOfAnAnswerAreLimitedOnceTheBodyIsSent) {
  make();
  body_source source;
  running_request& sending = send(request_with(source));
  peer& at = accept();
  receive_head(at);
  at.send(begins);
  virtual_time.settle();
  virtual_time.advance(40s);
  source.finish();
  receive_until(at, "0\r\n\r\n");
  virtual_time.settle();
  EXPECT_FALSE(sending.done());
  virtual_time.advance(40s);
  EXPECT_EQ(finish(sending).error(), errc::timed_out);
  EXPECT_THAT(sending.message(), HasSubstr("reading the body of the response"));
}

TEST_F(HttpClientUpload, AServerThatAnswersAndReadsNoMoreIsGivenUp) {
  make();
  const std::string endless(std::size_t{64} << 20, 'x');  // more than the kernel takes
  running_request& sending = start(client->post(server.url(), "text/plain", endless));
  peer& at = accept();
  receive_head(at);
  at.send(ok);
  // The kernel may take more after the first advance, which begins another limit.
  while (!sending.done()) {
    virtual_time.settle();
    virtual_time.advance(40s);
  }
  EXPECT_EQ(finish(sending).error(), errc::timed_out);
  EXPECT_THAT(sending.message(), HasSubstr("sending the request"));
}

TEST_F(HttpClientUpload, TheLimitOfTheWholeEndsBothDirections) {
  make();
  for (const std::string_view answer : {begins, ok}) {
    body_source source;
    client_request request = request_with(source);
    request.set_total_timeout(100s);
    running_request& sending = send(std::move(request));
    peer& at = accept();
    receive_head(at);
    at.send(answer);
    virtual_time.settle();
    virtual_time.advance(99s);
    virtual_time.settle();
    EXPECT_FALSE(sending.done());
    virtual_time.advance(2s);
    EXPECT_EQ(finish(sending).error(), errc::timed_out);
    EXPECT_TRUE(source.has_ended());
    EXPECT_TRUE(ends(at));
  }
}

TEST_F(HttpClientUpload, AStopEndsBothDirections) {
  make();
  for (const std::string_view answer : {std::string_view(), begins, ok}) {
    body_source source;
    running_request& sending = send(request_with(source));
    peer& at = accept();
    receive_head(at);
    at.send(answer);
    source.go_on();
    receive_until(at, "ab\r\n");
    sending.request_stop();
    EXPECT_EQ(finish(sending).error(), std::errc::operation_canceled);
    EXPECT_TRUE(source.has_ended()) << "by the end of the call";
    EXPECT_EQ(source.written(), 1u);
    EXPECT_TRUE(ends(at));
  }
}

TEST_F(HttpClientUpload, AStoppedReadOfTheAnswerLetsTheBodyGoOn) {
  make();
  body_source source;
  peer* at = nullptr;
  client_response response = stream_with(source, at);
  gyre::inplace_stop_source stop;
  std::optional<std::string> read_text;
  gyre::spawn(virtual_time.loop, read(response, read_text),
              {.stop = stop.get_token(),
               .on_error = [&](const std::exception_ptr&) { read_text = "stopped"; }});
  virtual_time.settle();
  stop.request_stop();
  virtual_time.turn_until([&] { return read_text.has_value(); });
  EXPECT_EQ(*read_text, "stopped");
  source.finish();
  receive_until(*at, "0\r\n\r\n");
  at->send(ends_chunks);
  EXPECT_THAT(read_all(response), EndsWith("twoend"));
  EXPECT_TRUE(response.is_request_complete());
}

TEST_F(HttpClientUpload, ACallbackGetsTheAnswerWhenTheBodyIsSent) {
  make();
  std::optional<std::expected<client_response, std::error_code>> got;
  client->send(large_request(), [&got](auto answered) { got.emplace(std::move(answered)); });
  peer& at = accept();
  receive_head(at);
  at.send(ok);
  virtual_time.settle();
  receive_body(at);
  virtual_time.turn_until([&] { return got.has_value(); });
  ASSERT_TRUE(*got);
  EXPECT_TRUE((*got)->is_request_complete());
}

TEST_F(HttpClientUpload, CloseEndsARequestWithACallbackThatIsSent) {
  make();
  body_source source;
  std::optional<std::expected<client_response, std::error_code>> got;
  client->send(request_with(source), [&got](auto answered) { got.emplace(std::move(answered)); });
  peer& at = accept();
  receive_head(at);
  at.send(begins);
  virtual_time.settle();
  client->close();
  virtual_time.turn_until([&] { return got.has_value(); });
  EXPECT_EQ(got->error(), gyre::io::errc::closed);
  EXPECT_TRUE(source.has_ended());
}

}  // namespace
}  // namespace http_client_upload_test
