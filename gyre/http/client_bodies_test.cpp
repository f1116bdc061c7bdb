// SPDX-License-Identifier: Apache-2.0
// Tests of the bodies of the HTTP client: streamed both ways, awaited by servers, compressed; and
// of its time limits and stops.
#include <gyre/http/client.hpp>
#include <gyre/http/compression.hpp>
#include <gyre/http/multipart_writer.hpp>
#include <gyre/task/sleep.hpp>
#include <tests/support/http_peers.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace http_client_bodies_test {
namespace {

using namespace std::chrono_literals;
using gyre::task;
using gyre::http::client_options;
using gyre::http::client_request;
using gyre::http::client_response;
using gyre::http::content_coding;
using gyre::http::errc;
using gyre::http::method;
using gyre::http::request_body_writer;
using gyre::http::status;
using gyre::http::test::ok;
using gyre::http::test::running_request;
using gyre::net::test::long_text;
using gyre::net::test::peer;
using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

std::string packed(content_coding coding, std::string_view text) {
  gyre::http::compressor pack(coding);
  gyre::io::buffer out;
  pack.write(std::as_bytes(std::span(text)), out);
  pack.finish(out);
  return std::string(out.text());
}

std::string with_length(std::string_view fields, std::string_view body) {
  return "HTTP/1.1 200 OK\r\n" + std::string(fields) +
         "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + std::string(body);
}

class HttpClientBodies : public gyre::http::test::http_client_test {
 protected:
  running_request& stream_from(std::string_view path = "/") {
    return start(client->stream(client_request(method::get, server.url(path))));
  }
  // The next chunk of the response; "end", or the error.
  std::string next_chunk(client_response& from) {
    std::optional<std::string> got;
    gyre::spawn(virtual_time.loop, read(from, got));
    virtual_time.turn_until([&] { return got.has_value(); });
    return *got;
  }
  static task<> read(client_response& from, std::optional<std::string>& into) {
    auto reading = gyre::as_result(from.next_chunk());
    const auto chunk = co_await std::move(reading);
    if (!chunk) {
      into = "error";
    } else if (!*chunk) {
      into = "end";
    } else {
      into = std::string(reinterpret_cast<const char*>((*chunk)->data()), (*chunk)->size());
    }
  }
};

// --- Bodies of requests ---

task<> write_twice(request_body_writer& to) {
  auto first = to.write("hello");
  co_await std::move(first);
  auto nothing = to.write("");
  co_await std::move(nothing);
  auto second = to.write(", world");
  co_await std::move(second);
  to.add_trailer("X-Sum", "12");
}

TEST_F(HttpClientBodies, AStreamedBodyIsChunkedAndHasTrailers) {
  make();
  client_request request(method::post, server.url());
  request.set_stream("text/plain", write_twice);
  running_request& sending = send(std::move(request));
  peer& at = accept();
  EXPECT_THAT(receive_head(at), AllOf(HasSubstr("\r\nTransfer-Encoding: chunked\r\n"),
                                      Not(HasSubstr("Content-Length"))));
  EXPECT_EQ(receive_head(at), "5\r\nhello\r\n7\r\n, world\r\n0\r\nX-Sum: 12\r\n\r\n");
  at.send(ok);
  EXPECT_EQ(finish(sending).response().body(), "ok");
  EXPECT_EQ(client->metrics().idle, 1u);
}

TEST_F(HttpClientBodies, AStreamedBodyMayHaveALength) {
  make();
  client_request request(method::put, server.url());
  request.set_stream("text/plain", write_twice, 12);
  running_request& sending = send(std::move(request));
  peer& at = accept();
  EXPECT_THAT(receive_until(at, "hello, world"),
              AllOf(HasSubstr("\r\nContent-Length: 12\r\n"), EndsWith("\r\n\r\nhello, world")));
  at.send(ok);
  EXPECT_EQ(finish(sending).response().body(), "ok");
}

TEST_F(HttpClientBodies, AStreamedBodyOfAnotherLengthFails) {
  make();
  for (const std::uint64_t length : {11u, 13u}) {
    client_request request(method::put, server.url());
    request.set_stream("text/plain", write_twice, length);
    running_request& sending = send(std::move(request));
    peer& at = accept();
    EXPECT_EQ(finish(sending).error(), errc::body_mismatch);
    EXPECT_TRUE(ends(at));
  }
}

TEST_F(HttpClientBodies, AnExceptionOfTheBodyEndsTheRequest) {
  make();
  client_request request(method::post, server.url());
  request.set_stream("", [](request_body_writer&) -> task<> {
    throw std::runtime_error("no more paper");
    co_return;
  });
  running_request& sending = send(std::move(request));
  peer& at = accept();
  EXPECT_EQ(finish(sending).message(), "no more paper");
  EXPECT_TRUE(ends(at));
}

TEST_F(HttpClientBodies, ALargeBodyIsSentAsTheServerReads) {
  make();
  const std::string text = long_text(std::size_t{8} << 20);
  running_request& sending = start(client->post(server.url(), "text/plain", text));
  peer& at = accept();
  receive_head(at);
  virtual_time.turn_until([&] {
    at.receive();
    return at.text.size() >= text.size();
  });
  EXPECT_EQ(at.text, text);
  at.send(ok);
  EXPECT_EQ(finish(sending).response().body(), "ok");
  EXPECT_EQ(client->metrics().idle, 1u);
}

TEST_F(HttpClientBodies, AServerMayAnswerBeforeItHasTheRequest) {
  make();
  const std::string text = long_text(std::size_t{16} << 20);
  running_request& sending = start(client->post(server.url(), "text/plain", text));
  peer& at = accept();
  receive_head(at);
  at.send("HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\n\r\n");
  EXPECT_EQ(finish(sending).response().status(), status::content_too_large);
  EXPECT_FALSE(sending.response().is_request_complete());
  EXPECT_TRUE(ends(at));
  EXPECT_EQ(client->metrics().open, 0u);
}

TEST_F(HttpClientBodies, AnEarlyAnswerStopsAStreamedBody) {
  make();
  client_request request(method::post, server.url());
  bool stopped = false;
  request.set_stream("", [&stopped](request_body_writer& to) -> task<> {
    struct note {
      bool& stopped;
      ~note() { stopped = true; }
    } const at_end{stopped};
    const std::string piece(1 << 16, 'x');
    for (;;) {
      auto writing = to.write(piece);
      co_await std::move(writing);
    }
  });
  running_request& sending = send(std::move(request));
  peer& at = accept();
  receive_head(at);
  at.send("HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n");
  EXPECT_EQ(finish(sending).response().status(), status::forbidden);
  EXPECT_TRUE(stopped);
}

TEST_F(HttpClientBodies, InterimResponsesDoNotStopABody) {
  make();
  const std::string text = long_text(std::size_t{8} << 20);
  running_request& sending = start(client->post(server.url(), "text/plain", text));
  peer& at = accept();
  receive_head(at);
  at.send("HTTP/1.1 102 Processing\r\n\r\n");
  virtual_time.turn_until([&] {
    at.receive();
    return at.text.size() >= text.size();
  });
  at.send(ok);
  EXPECT_EQ(finish(sending).response().body(), "ok");
}

TEST_F(HttpClientBodies, AFormHasItsParts) {
  make();
  gyre::http::multipart_writer form;
  form.add("ti\"tle", "Holiday").add_file("photo", "be\r\nach.jpg", "image/jpeg", "\xff\xd8");
  const std::string content_type = form.content_type();
  const std::string boundary = content_type.substr(content_type.find('=') + 1);
  client_request request(method::post, server.url());
  request.set_form(std::move(form));
  EXPECT_EQ(request.fields().get("Content-Type"), content_type);
  EXPECT_EQ(request.body(),
            "--" + boundary +
                "\r\nContent-Disposition: form-data; name=\"ti%22tle\"\r\n\r\nHoliday\r\n--" +
                boundary +
                "\r\nContent-Disposition: form-data; name=\"photo\"; "
                "filename=\"be%0D%0Aach.jpg\"\r\nContent-Type: image/jpeg\r\n\r\n\xff\xd8\r\n--" +
                boundary + "--\r\n");
  EXPECT_NE(gyre::http::multipart_writer().content_type(), content_type);
  EXPECT_THROW(form.add_file("a", "b", "c\r\nd", ""), std::invalid_argument);
}

// --- Expect: 100-continue ---

client_request expecting(const std::string& url) {
  client_request request(method::post, url);
  request.set_body("text/plain", "hello").expect_continue();
  return request;
}

TEST_F(HttpClientBodies, TheBodyWaitsForTheServersConsent) {
  make();
  running_request& sending = send(expecting(server.url()));
  peer& at = accept();
  EXPECT_THAT(receive_head(at), HasSubstr("\r\nExpect: 100-continue\r\n"));
  virtual_time.settle();
  at.receive();
  EXPECT_EQ(at.text, "");
  at.send("HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n");
  EXPECT_EQ(receive_until(at, "hello"), "hello");
  at.send(ok);
  EXPECT_EQ(finish(sending).response().body(), "ok");
  EXPECT_EQ(client->metrics().idle, 1u);
}

TEST_F(HttpClientBodies, TheBodyIsSentAfterAWhile) {
  make();
  running_request& sending = send(expecting(server.url()));
  peer& at = accept();
  receive_head(at);
  virtual_time.settle();
  virtual_time.advance(2s);
  EXPECT_EQ(receive_until(at, "hello"), "hello");
  at.send("HTTP/1.1 100 Continue\r\n\r\n" + std::string(ok));
  EXPECT_EQ(finish(sending).response().body(), "ok");
}

TEST_F(HttpClientBodies, AnInterimResponseIsNoConsent) {
  make();
  running_request& sending = send(expecting(server.url()));
  peer& at = accept();
  receive_head(at);
  at.send("HTTP/1.1 103 Early Hints\r\n\r\n");
  virtual_time.settle();
  at.receive();
  EXPECT_EQ(at.text, "");
  virtual_time.advance(2s);
  EXPECT_EQ(receive_until(at, "hello"), "hello");
  at.send(ok);
  EXPECT_EQ(finish(sending).response().body(), "ok");
}

TEST_F(HttpClientBodies, ABodyThatIsRefusedIsNotSent) {
  make();
  running_request& sending = send(expecting(server.url()));
  peer& at = accept();
  receive_head(at);
  at.send("HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n");
  EXPECT_EQ(finish(sending).response().status(), status::unauthorized);
  EXPECT_FALSE(sending.response().is_request_complete());
  EXPECT_TRUE(ends(at));
  EXPECT_EQ(at.text, "");
}

constexpr std::string_view expectation_failed =
    "HTTP/1.1 417 Expectation Failed\r\nContent-Length: 0\r\n\r\n";

// RFC 9110, 10.1.1.
TEST_F(HttpClientBodies, ARefusedExpectationIsLeftOut) {
  make();
  running_request& sending = send(expecting(server.url()));
  peer& first = accept();
  receive_head(first);
  first.send(expectation_failed);
  peer& second = accept();
  EXPECT_THAT(receive_until(second, "hello"),
              AllOf(StartsWith("POST / "), Not(HasSubstr("Expect:")), EndsWith("\r\n\r\nhello")));
  EXPECT_TRUE(ends(first));
  EXPECT_EQ(first.text, "");
  second.send(ok);
  EXPECT_EQ(finish(sending).response().body(), "ok");
  EXPECT_TRUE(sending.response().is_request_complete());
}

TEST_F(HttpClientBodies, ARefusedExpectationIsLeftOutOnce) {
  make();
  running_request& sending = send(expecting(server.url()));
  for (int attempt = 0; attempt != 2; ++attempt) {
    peer& at = accept();
    receive_head(at);
    at.send(expectation_failed);
  }
  EXPECT_EQ(finish(sending).response().status(), status::expectation_failed);
}

TEST_F(HttpClientBodies, AStreamedBodyFollowsARefusedExpectation) {
  make();
  client_request request(method::post, server.url());
  request.set_stream("text/plain", write_twice).expect_continue();
  running_request& sending = send(std::move(request));
  peer& first = accept();
  receive_head(first);
  first.send(expectation_failed);
  EXPECT_THAT(receive_until(accept(), "0\r\nX-Sum: 12\r\n\r\n"), HasSubstr("5\r\nhello\r\n"));
  sending.request_stop();
}

TEST_F(HttpClientBodies, AStreamedBodyThatWasBegunIsNotSentOnceMore) {
  make();
  client_request request(method::post, server.url());
  request.set_stream("text/plain", write_twice).expect_continue();
  running_request& sending = send(std::move(request));
  peer& at = accept();
  receive_head(at);
  virtual_time.settle();
  virtual_time.advance(2s);
  receive_until(at, "0\r\nX-Sum: 12\r\n\r\n");
  at.send(expectation_failed);
  EXPECT_EQ(finish(sending).response().status(), status::expectation_failed);
  EXPECT_TRUE(sending.response().is_request_complete());
}

// --- Bodies of responses ---

TEST_F(HttpClientBodies, AStreamedResponseComesAsTheServerSendsIt) {
  make();
  running_request& request = stream_from();
  peer& at = accept();
  receive_head(at);
  at.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n");
  client_response response = std::move(finish(request).response());
  EXPECT_EQ(next_chunk(response), "abc");
  at.send("2\r\nde\r\n0\r\nX: 1\r\n\r\n");
  EXPECT_EQ(next_chunk(response), "de");
  EXPECT_EQ(next_chunk(response), "end");
  EXPECT_EQ(next_chunk(response), "end");
  EXPECT_EQ(response.trailers().get("x"), "1");
  EXPECT_EQ(client->metrics().idle, 1u);
}

TEST_F(HttpClientBodies, AStreamedResponseMayOutliveItsClient) {
  make();
  running_request& request = stream_from();
  peer& at = accept();
  receive_head(at);
  at.send("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nabc");
  client_response response = std::move(finish(request).response());
  client.reset();
  EXPECT_EQ(next_chunk(response), "abc");
  at.send("def");
  EXPECT_EQ(next_chunk(response), "def");
  EXPECT_EQ(next_chunk(response), "end");
  EXPECT_TRUE(ends(at));
}

TEST_F(HttpClientBodies, AStreamedResponseThatIsDroppedEndsTheConnection) {
  make();
  running_request& request = stream_from();
  peer& at = accept();
  receive_head(at);
  at.send("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nabc");
  {
    const client_response response = std::move(finish(request).response());
  }
  EXPECT_TRUE(ends(at));
}

TEST_F(HttpClientBodies, ABrokenConnectionOfAStreamedResponseNamesTheRequest) {
  make();
  for (const bool whole : {false, true}) {
    running_request& request = stream_from();
    peer& at = accept();
    receive_head(at);
    at.send("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nabc");
    client_response response = std::move(finish(request).response());
    EXPECT_EQ(next_chunk(response), "abc");
    at.reset();
    auto reading = [](client_response& from, bool all) -> task<client_response> {
      if (all) co_await from.read_body();
      co_await from.next_chunk();
      throw std::logic_error("it must fail");
    };
    running_request& rest = start(reading(response, whole));
    EXPECT_EQ(finish(rest).error(), std::errc::connection_reset);
    EXPECT_THAT(rest.message(), StartsWith("http::client: GET " + server.url() + ": "));
  }
}

TEST_F(HttpClientBodies, AServerThatSendsTooFastMustWait) {
  make();
  running_request& request = stream_from();
  peer& at = accept();
  receive_head(at);
  at.send("HTTP/1.1 200 OK\r\nContent-Length: 1073741824\r\n\r\n");
  client_response response = std::move(finish(request).response());
  const std::string piece(1 << 20, 'x');
  std::size_t sent = 0;
  for (ssize_t count = 0; count >= 0;
       sent += static_cast<std::size_t>(std::max<ssize_t>(count, 0))) {
    virtual_time.settle();
    count = ::send(at.fd(), piece.data(), piece.size(), MSG_NOSIGNAL);
  }
  EXPECT_LT(sent, std::size_t{64} << 20);
  EXPECT_EQ(next_chunk(response).find_first_not_of('x'), std::string::npos);
}

TEST_F(HttpClientBodies, UnpacksEachCoding) {
  make();
  const std::string text = long_text(300'000);
  for (const content_coding coding : gyre::http::all_codings) {
    const std::string fields = "Content-Encoding: " + std::string(to_text(coding)) + "\r\nX: y\r\n";
    const client_response& response =
        answer_get(with_length(fields, packed(coding, text))).response();
    EXPECT_EQ(response.body(), text);
    EXPECT_FALSE(response.field("Content-Encoding"));
    EXPECT_FALSE(response.field("Content-Length"));
    EXPECT_EQ(response.field("X"), "y");
  }
}

TEST_F(HttpClientBodies, UnpacksByteByByte) {
  make();
  const std::string text = long_text(1000);
  running_request& request = get();
  peer& at = accept();
  receive_head(at);
  for (const char each :
       with_length("Content-Encoding: gzip\r\n", packed(content_coding::gzip, text))) {
    at.send(std::string_view(&each, 1));
    virtual_time.settle();
  }
  EXPECT_EQ(finish(request).response().body(), text);
  EXPECT_EQ(client->metrics().idle, 1u);
}

TEST_F(HttpClientBodies, LeavesABodyPackedWhereTheProgramAskedForIt) {
  make();
  running_request& request =
      send(client_request(method::get, server.url()).set("Accept-Encoding", "gzip"));
  peer& at = accept();
  EXPECT_THAT(receive_head(at), Not(HasSubstr("br, zstd")));
  const std::string body = packed(content_coding::gzip, "abc");
  at.send(with_length("Content-Encoding: gzip\r\n", body));
  EXPECT_EQ(finish(request).response().body(), body);
  EXPECT_EQ(request.response().field("Content-Encoding"), "gzip");
}

TEST_F(HttpClientBodies, APartOfAFileIsNotUnpacked) {
  make();
  send(client_request(method::get, server.url()).set("Range", "bytes=0-1"));
  EXPECT_THAT(receive_head(accept()), Not(HasSubstr("Accept-Encoding")));
}

TEST_F(HttpClientBodies, AnEmptyBodyNeedsNoCoding) {
  make();
  EXPECT_EQ(answer_get(with_length("Content-Encoding: gzip\r\n", "")).response().body(), "");
  EXPECT_EQ(answer_get(with_length("Content-Encoding: compress\r\n", "")).response().body(), "");
}

// RFC 9110, 5.6.1.2 and 8.4: the codings are a list, in the order in which they were applied.
TEST_F(HttpClientBodies, CodingsAreAList) {
  make();
  const std::string text = long_text(300'000);
  const std::string gzip = packed(content_coding::gzip, text);
  for (const std::string_view fields :
       {"Content-Encoding: gzip,\r\n", "Content-Encoding: , gzip\r\n",
        "Content-Encoding: identity, gzip\r\n", "Content-Encoding: GZIP ,, Identity\r\n",
        "Content-Encoding:\r\nContent-Encoding: gzip\r\n",
        "Content-Encoding: identity\r\nContent-Encoding: x-gzip\r\n"}) {
    const client_response& response = answer_get(with_length(fields, gzip)).response();
    EXPECT_EQ(response.body(), text) << fields;
    EXPECT_FALSE(response.field("Content-Encoding")) << fields;
  }
  for (const std::string_view fields :
       {"Content-Encoding:\r\n", "Content-Encoding: , ,\r\n", "Content-Encoding: identity\r\n"}) {
    EXPECT_EQ(answer_get(with_length(fields, text)).response().body(), text) << fields;
  }
}

TEST_F(HttpClientBodies, ABodyMayBePackedSeveralTimes) {
  make();
  const std::string text = long_text(300'000);
  const std::string twice = packed(content_coding::br, packed(content_coding::gzip, text));
  for (const std::string_view fields :
       {"Content-Encoding: gzip, br\r\n", "Content-Encoding: gzip\r\nContent-Encoding: br\r\n"}) {
    EXPECT_EQ(answer_get(with_length(fields, twice)).response().body(), text) << fields;
  }
  const std::string often = packed(content_coding::zstd, packed(content_coding::gzip, twice));
  EXPECT_EQ(answer_get(with_length("Content-Encoding: gzip, br, gzip, zstd\r\n", often))
                .response()
                .body(),
            text);
  running_request& byte_by_byte = get();
  peer& at = accept();
  receive_head(at);
  for (const char each :
       with_length("Content-Encoding: gzip, br\r\n",
                   packed(content_coding::br, packed(content_coding::gzip, "a")))) {
    at.send(std::string_view(&each, 1));
    virtual_time.settle();
  }
  EXPECT_EQ(finish(byte_by_byte).response().body(), "a");
  at.end_sending();
  EXPECT_EQ(answer_get(with_length("Content-Encoding: br, gzip\r\n", twice)).error(),
            errc::bad_content_coding);
  EXPECT_EQ(
      answer_get(with_length("Content-Encoding: gzip, br\r\n", twice.substr(0, twice.size() / 2)))
          .error(),
      errc::truncated);
  EXPECT_EQ(
      answer_get(with_length("Content-Encoding: gzip, gzip, gzip, gzip, gzip\r\n", "x")).error(),
      errc::bad_content_coding);
}

TEST_F(HttpClientBodies, AStreamedBodyThatHasFailedDoesNotEndInOrderLater) {
  make();
  const std::string_view truncated = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc";
  const std::string_view malformed =
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nno number\r\n";
  for (const std::string_view answer : {truncated, malformed}) {
    running_request& request = stream_from();
    peer& at = accept();
    receive_head(at);
    at.send(answer);
    {
      client_response response = std::move(finish(request).response());
      EXPECT_EQ(next_chunk(response), "abc");
      at.end_sending();
      for (int i = 0; i < 3; ++i) EXPECT_EQ(next_chunk(response), "error") << answer;
    }
    EXPECT_EQ(client->metrics().idle, 0u);
  }
}

TEST_F(HttpClientBodies, AStreamedBodyOfAnUnknownCodingLosesNoByteUnseen) {
  make();
  running_request& request = stream_from();
  peer& at = accept();
  receive_head(at);
  at.send(with_length("Content-Encoding: unheard\r\n", "abc"));
  client_response response = std::move(finish(request).response());
  for (int i = 0; i < 3; ++i) EXPECT_EQ(next_chunk(response), "error");
}

TEST_F(HttpClientBodies, TheCodingOfABodyThatNobodyReadsDoesNotMatter) {
  make();
  running_request& request = get();
  peer& at = accept();
  receive_head(at);
  at.send(
      "HTTP/1.1 302 Found\r\nLocation: /x\r\nContent-Encoding: compress\r\n"
      "Content-Length: 4\r\n\r\ngone");
  EXPECT_THAT(receive_head(at), StartsWith("GET /x "));
  at.send(ok);
  EXPECT_EQ(finish(request).response().body(), "ok");
  running_request& streaming = stream_from();
  receive_head(at);
  at.send(with_length("Content-Encoding: compress\r\n", "abc"));
  client_response response = std::move(finish(streaming).response());
  EXPECT_EQ(response.field("Content-Encoding"), "compress");
  EXPECT_EQ(next_chunk(response), "error");
}

TEST_F(HttpClientBodies, MalformedPackedBodiesAreErrors) {
  make();
  const std::string body = packed(content_coding::gzip, long_text(1000));
  const std::string gzip = "Content-Encoding: gzip\r\n";
  EXPECT_EQ(answer_get(with_length(gzip, "no gzip at all")).error(), errc::bad_content_coding);
  EXPECT_EQ(answer_get(with_length(gzip, body.substr(0, 100))).error(), errc::truncated);
  EXPECT_EQ(answer_get(with_length(gzip, body + "more")).error(), errc::bad_content_coding);
  EXPECT_EQ(answer_get(with_length("Content-Encoding: compress\r\n", body)).error(),
            errc::bad_content_coding);
  EXPECT_EQ(answer_get(with_length(gzip + gzip, body)).error(), errc::bad_content_coding);
  EXPECT_EQ(client->metrics().open, 0u);
}

TEST_F(HttpClientBodies, APackedBombIsRefused) {
  client_options options;
  options.limits.body = 1 << 20;
  options.limits.decompressed = 2 << 20;
  make(std::move(options));
  for (const content_coding coding : gyre::http::all_codings) {
    const std::string bomb = packed(coding, std::string(64 << 20, '\0'));
    const std::string bytes =
        with_length("Content-Encoding: " + std::string(to_text(coding)) + "\r\n", bomb);
    EXPECT_EQ(answer_get(bytes).error(), errc::body_too_large);
    running_request& request = stream_from();
    peer& at = accept();
    receive_head(at);
    at.send(bytes);
    client_response response = std::move(finish(request).response());
    std::size_t unpacked = 0;
    for (std::string chunk; chunk != "error"; unpacked += chunk.size()) {
      chunk = next_chunk(response);
      ASSERT_NE(chunk, "end");
    }
    EXPECT_LE(unpacked, std::size_t{3} << 20);
  }
}

// --- Time limits and stops ---

TEST_F(HttpClientBodies, AServerThatDoesNotAnswerIsGivenUp) {
  make();
  running_request& request = get("/slow");
  receive_head(accept());
  virtual_time.settle();
  virtual_time.advance(59s);
  virtual_time.settle();
  EXPECT_FALSE(request.done());
  virtual_time.advance(2s);
  EXPECT_EQ(finish(request).error(), errc::timed_out);
  EXPECT_EQ(request.error(), std::errc::timed_out);
  EXPECT_THAT(request.message(), AllOf(HasSubstr("GET " + server.url("/slow")),
                                       HasSubstr("waiting for the response")));
  EXPECT_EQ(client->metrics().open, 0u);
}

TEST_F(HttpClientBodies, InterimResponsesDoNotExtendTheWait) {
  make();
  running_request& request = get();
  peer& at = accept();
  receive_head(at);
  for (int count = 0; count != 3; ++count) {
    at.send("HTTP/1.1 102 Processing\r\n\r\n");
    virtual_time.settle();
    virtual_time.advance(25s);
    virtual_time.settle();
  }
  EXPECT_EQ(finish(request).error(), errc::timed_out);
}

TEST_F(HttpClientBodies, AHeadThatStopsIsGivenUp) {
  make();
  running_request& request = get();
  peer& at = accept();
  receive_head(at);
  at.send("HTTP/1.1 200 OK\r\nCont");
  virtual_time.turn_until([&] {
    virtual_time.settle();
    virtual_time.advance(10s);
    return request.done();
  });
  EXPECT_EQ(request.error(), errc::timed_out);
  EXPECT_THAT(request.message(), HasSubstr("reading the head"));
}

TEST_F(HttpClientBodies, ABodyThatStopsIsGivenUp) {
  make();
  running_request& request = get();
  peer& at = accept();
  receive_head(at);
  at.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc");
  virtual_time.turn_until([&] {
    virtual_time.settle();
    virtual_time.advance(10s);
    return request.done();
  });
  EXPECT_EQ(request.error(), errc::timed_out);
  EXPECT_THAT(request.message(), HasSubstr("reading the body"));
}

TEST_F(HttpClientBodies, SlowBytesMeetTheLimitOfTheWhole) {
  make();
  running_request& request = get();
  peer& at = accept();
  receive_head(at);
  at.send("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n");
  int seconds = 0;
  while (!request.done() && seconds < 1000) {
    static_cast<void>(::send(at.fd(), "x", 1, MSG_NOSIGNAL));
    virtual_time.settle();
    virtual_time.advance(20s);
    virtual_time.settle();
    seconds += 20;
  }
  EXPECT_EQ(finish(request).error(), errc::timed_out);
  EXPECT_LE(seconds, 340);
}

TEST_F(HttpClientBodies, AServerThatDoesNotReadIsGivenUp) {
  make();
  running_request& request =
      start(client->post(server.url(), "text/plain", std::string(64 << 20, 'x')));
  accept();
  virtual_time.settle();
  virtual_time.advance(29s);
  virtual_time.settle();
  EXPECT_FALSE(request.done());
  virtual_time.advance(40s);
  EXPECT_EQ(finish(request).error(), errc::timed_out);
  EXPECT_THAT(request.message(), HasSubstr("sending the request"));
}

TEST_F(HttpClientBodies, ARequestMayHaveALimitOfItsOwn) {
  make();
  client_request limited(method::get, server.url());
  limited.set_total_timeout(1s);
  running_request& request = send(std::move(limited));
  accept();
  virtual_time.settle();
  virtual_time.advance(2s);
  EXPECT_EQ(finish(request).error(), errc::timed_out);
}

TEST_F(HttpClientBodies, WaitingForAConnectionCountsForTheWhole) {
  make({.connections_per_host = 1});
  get("/1");
  receive_head(accept());
  client_request limited(method::get, server.url());
  limited.set_total_timeout(1s);
  running_request& request = send(std::move(limited));
  virtual_time.settle();
  virtual_time.advance(2s);
  EXPECT_EQ(finish(request).error(), errc::timed_out);
  EXPECT_THAT(request.message(), HasSubstr("connecting"));
}

TEST_F(HttpClientBodies, AStopEndsARequest) {
  make();
  running_request& request = get();
  peer& at = accept();
  receive_head(at);
  request.request_stop();
  EXPECT_EQ(finish(request).error(), std::errc::operation_canceled);
  EXPECT_TRUE(ends(at));
}

}  // namespace
}  // namespace http_client_bodies_test
