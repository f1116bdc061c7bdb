// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/compress.hpp>

#include <gyre/http/compression.hpp>
#include <gyre/http/event_stream.hpp>
#include <gyre/http/server.hpp>
#include <gyre/net/callback_test_support.hpp>
#include <gyre/sync/event.hpp>
#include <gyre/task/when_any.hpp>
#include <tests/support/io_in_virtual_time.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>

namespace http_compress_test {
namespace {

using namespace gyre::net::test;
using gyre::task;
using gyre::http::body_writer;
using gyre::http::compress_options;
using gyre::http::content_coding;
using gyre::http::request;
using gyre::http::response;
using gyre::http::server;
using testing::HasSubstr;
using testing::Not;

struct answer {
  std::string head;
  std::string body;
};

std::string unchunked(std::string_view body) {
  std::string text;
  for (;;) {
    const std::size_t end = body.find("\r\n");
    if (end == std::string_view::npos) return text + "(cut)";
    const std::size_t size = std::strtoul(std::string(body.substr(0, end)).c_str(), nullptr, 16);
    if (size == 0) return text;
    text += body.substr(end + 2, size);
    body.remove_prefix(end + 2 + size + 2);
  }
}

std::string unpacked(content_coding coding, std::string_view packed) {
  gyre::http::decompressor unpack(coding);
  gyre::io::buffer text;
  EXPECT_FALSE(unpack.write(std::as_bytes(std::span(packed)), text));
  EXPECT_TRUE(unpack.is_complete());
  return std::string(text.text());
}

class HttpCompress : public testing::Test {
 protected:
  void serve(gyre::http::handler answer, compress_options options = {}) {
    on.emplace(virtual_time.loop, any_port());
    on->use(gyre::http::compress(std::move(options)));
    on->on_error([this](const request&, const std::exception_ptr& thrown) {
      try {
        std::rethrow_exception(thrown);
      } catch (const std::exception& failure) {
        error = failure.what();
      }
    });
    on->get("/", std::move(answer));
    on->start();
  }
  answer get(std::string_view fields, std::string_view method = "GET") {
    peer client(on->local_endpoint());
    client.send(std::string(method) + " / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n" +
                std::string(fields) + "\r\n");
    virtual_time.turn_until([&] {
      client.receive();
      return client.ended;
    });
    const std::size_t end = client.text.find("\r\n\r\n");
    if (end == std::string::npos) return {client.text, ""};
    return {client.text.substr(0, end + 2), client.text.substr(end + 4)};
  }

  gyre::test::io_in_virtual_time virtual_time;
  std::optional<server> on;
  std::string error;  // the text of the last error of a handler
  const std::string text = long_text(10'000);
};

constexpr std::string_view gzip = "Accept-Encoding: gzip\r\n";

TEST_F(HttpCompress, CompressesAWholeBody) {
  serve(
      [this](request&) { return response::text(text).set("ETag", "\"7\"").set("Vary", "Accept"); });
  const answer packed = get(gzip);
  EXPECT_EQ(unpacked(content_coding::gzip, packed.body), text);
  EXPECT_LT(packed.body.size(), text.size());
  EXPECT_THAT(packed.head, HasSubstr("\r\nContent-Encoding: gzip\r\n"));
  EXPECT_THAT(packed.head, HasSubstr("\r\nVary: Accept-Encoding\r\n"));
  EXPECT_THAT(packed.head, HasSubstr("\r\nETag: W/\"7\"\r\n"));
  EXPECT_THAT(packed.head,
              HasSubstr("\r\nContent-Length: " + std::to_string(packed.body.size()) + "\r\n"));
  EXPECT_EQ(unpacked(content_coding::br, get("Accept-Encoding: gzip, br\r\n").body), text);
  EXPECT_EQ(unpacked(content_coding::zstd,
                     get("Accept-Encoding: gzip;q=0.5\r\nAccept-Encoding: zstd\r\n").body),
            text);
  const answer head = get(gzip, "HEAD");
  EXPECT_EQ(head.body, "");
  EXPECT_THAT(head.head, HasSubstr("\r\nContent-Encoding: gzip\r\n"));
}

TEST_F(HttpCompress, VariesAlsoWithoutACoding) {
  serve([this](request&) { return response::text(text).set("ETag", "\"7\""); });
  for (const std::string_view fields : {"", "Accept-Encoding: gzip;q=0\r\n"}) {
    const answer plain = get(fields);
    EXPECT_EQ(plain.body, text);
    EXPECT_THAT(plain.head, HasSubstr("\r\nVary: Accept-Encoding\r\n"));
    EXPECT_THAT(plain.head, HasSubstr("\r\nETag: \"7\"\r\n"));
    EXPECT_THAT(plain.head, Not(HasSubstr("Content-Encoding")));
  }
}

TEST_F(HttpCompress, AHandlerOfHeadTellsNoLengthOfABodyThatIsCompressed) {
  std::string_view length = "5000";
  serve([&length](request&) {
    return response()
        .set("Content-Type", "text/plain")
        .set("ETag", "\"7\"")
        .set("Content-Length", length);
  });
  const answer packed = get(gzip, "HEAD");
  EXPECT_THAT(packed.head, Not(HasSubstr("Content-Length")));
  EXPECT_THAT(packed.head, HasSubstr("\r\nETag: W/\"7\"\r\n"));
  EXPECT_THAT(packed.head, HasSubstr("\r\nVary: Accept-Encoding\r\n"));
  const answer plain = get("", "HEAD");
  EXPECT_THAT(plain.head, HasSubstr("\r\nContent-Length: 5000\r\n"));
  EXPECT_THAT(plain.head, HasSubstr("\r\nETag: \"7\"\r\n"));
  EXPECT_THAT(plain.head, HasSubstr("\r\nVary: Accept-Encoding\r\n"));
  length = "99";
  const answer little = get(gzip, "HEAD");
  EXPECT_THAT(little.head, HasSubstr("\r\nContent-Length: 99\r\n"));
  EXPECT_THAT(little.head, Not(HasSubstr("Vary")));
}

TEST_F(HttpCompress, CompressesALargeBodyOnThePool) {
  const std::string large = long_text(500'000);
  serve([&large](request&) { return response::borrowed("application/json", large); });
  EXPECT_EQ(unpacked(content_coding::gzip, get(gzip).body), large);
}

TEST_F(HttpCompress, AStreamLosesItsLengthOnlyIfItIsCompressed) {
  std::size_t length = 0;
  serve(
      [&](request&) {
        return response::stream("text/plain", length, [&](body_writer& out) {
          return out.write(std::string_view(text).substr(0, length));
        });
      },
      {.min_size = 100});
  length = text.size();
  const answer packed = get(gzip);
  EXPECT_THAT(packed.head, Not(HasSubstr("Content-Length")));
  EXPECT_EQ(unpacked(content_coding::gzip, unchunked(packed.body)), text);
  length = 99;
  const answer plain = get(gzip);
  EXPECT_THAT(plain.head, HasSubstr("\r\nContent-Length: 99\r\n"));
  EXPECT_EQ(plain.body, text.substr(0, 99));
}

TEST_F(HttpCompress, AStreamOfAnotherLengthThanAnnouncedIsNotPresentedAsWhole) {
  std::size_t length = 0;
  serve([&](request&) {
    return response::stream("text/plain", length, [&](body_writer& out) -> task<> {
      co_await out.write(std::string_view(text).substr(0, 5'000));
      co_await out.write(std::string_view(text).substr(5'000));
    });
  });
  length = text.size() + 7;
  const answer shorter = get(gzip);
  EXPECT_THAT(shorter.head, HasSubstr("\r\nContent-Encoding: gzip\r\n"));
  EXPECT_FALSE(shorter.body.ends_with("0\r\n\r\n"));
  EXPECT_THAT(error, HasSubstr("the body ended 7 bytes before its length"));
  length = text.size() - 1;
  const answer longer = get(gzip);
  EXPECT_THAT(longer.head, HasSubstr("\r\nContent-Encoding: gzip\r\n"));
  EXPECT_FALSE(longer.body.ends_with("0\r\n\r\n"));
  EXPECT_THAT(error, HasSubstr("more than the length"));
}

TEST_F(HttpCompress, CompressesAStreamPieceByPiece) {
  gyre::manual_reset_event go_on;
  serve([&](request&) {
    return response::stream("text/plain", [&](body_writer& out) -> task<> {
      co_await out.write("first ");
      co_await go_on.wait();
      co_await out.write(std::string_view());
      co_await out.write(text);
    });
  });
  peer client(on->local_endpoint());
  client.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n" + std::string(gzip) + "\r\n");
  // The first piece can be read while the second is still to come.
  virtual_time.turn_until([&] {
    client.receive();
    const std::size_t end = client.text.find("\r\n\r\n");
    if (end == std::string::npos || client.text.size() == end + 4) return false;
    gyre::http::decompressor unpack(content_coding::gzip);
    gyre::io::buffer first;
    std::string chunks = client.text.substr(end + 4);
    if (!chunks.ends_with("\r\n")) return false;
    chunks = unchunked(chunks + "0\r\n\r\n");
    EXPECT_FALSE(unpack.write(std::as_bytes(std::span(chunks)), first));
    return first.text() == "first ";
  });
  go_on.set();
  virtual_time.turn_until([&] {
    client.receive();
    return client.ended;
  });
  const std::size_t end = client.text.find("\r\n\r\n");
  EXPECT_EQ(unpacked(content_coding::gzip, unchunked(client.text.substr(end + 4))),
            "first " + text);
}

TEST_F(HttpCompress, AStreamGoesOnAfterAWriteThatWasGivenUp) {
  std::string noise(8'000'000, '\0');
  std::minstd_rand random(1);
  std::ranges::generate(noise, [&] { return static_cast<char>(random() >> 8U); });
  gyre::manual_reset_event enough;
  bool given_up = false;
  serve([&](request&) {
    return response::stream("text/plain", [&](body_writer& out) -> task<> {
      auto first = gyre::when_any(out.write(noise), enough.wait());
      co_await std::move(first);
      given_up = true;
      co_await out.write("rest");
    });
  });
  peer client(on->local_endpoint());
  client.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n" + std::string(gzip) + "\r\n");
  virtual_time.settle();
  EXPECT_FALSE(given_up);
  enough.set();
  virtual_time.turn_until([&] {
    client.receive();
    return client.ended;
  });
  EXPECT_TRUE(given_up);
  const std::size_t end = client.text.find("\r\n\r\n");
  ASSERT_NE(end, std::string::npos);
  EXPECT_TRUE(unpacked(content_coding::gzip, unchunked(client.text.substr(end + 4))) ==
              noise + "rest");
}

TEST_F(HttpCompress, LimitsTheStreams) {
  serve(
      [this](request&) {
        return response::stream("text/plain", [this](body_writer& out) { return out.write(text); });
      },
      {.max_streams = 1});
  // Each gives its permit back.
  for (int i = 0; i != 3; ++i) {
    EXPECT_EQ(unpacked(content_coding::gzip, unchunked(get(gzip).body)), text);
    EXPECT_EQ(get(gzip, "HEAD").body, "");
  }
  serve(
      [this](request&) {
        return response::stream("text/plain", [this](body_writer& out) { return out.write(text); });
      },
      {.max_streams = 0});
  EXPECT_EQ(unchunked(get(gzip).body), text);
}

TEST_F(HttpCompress, LeavesOthersAlone) {
  response (*make)(const std::string&) = nullptr;
  serve([this, &make](request&) { return make(text); });
  const auto is_left_alone = [&](response (*function)(const std::string&)) {
    make = function;
    return get(gzip).head.find("Content-Encoding: gzip") == std::string::npos;
  };
  EXPECT_FALSE(is_left_alone([](const std::string& of) { return response::text(of); }));
  EXPECT_TRUE(is_left_alone([](const std::string&) { return response::text("short"); }));
  EXPECT_TRUE(is_left_alone(
      [](const std::string& of) { return response(gyre::http::status::ok, "image/png", of); }));
  EXPECT_TRUE(is_left_alone(
      [](const std::string& of) { return response(gyre::http::status::ok, "", of); }));
  EXPECT_TRUE(is_left_alone([](const std::string& of) {
    return response::text(of).set("Cache-Control", "max-age=1, No-Transform");
  }));
  EXPECT_TRUE(is_left_alone(
      [](const std::string& of) { return response::text(of).set("Content-Encoding", "br"); }));
  EXPECT_TRUE(is_left_alone([](const std::string& of) {
    return response::text(of, gyre::http::status::partial_content)
        .set("Content-Range", "bytes 0-9999/20000");
  }));
  EXPECT_TRUE(is_left_alone([](const std::string&) {
    return gyre::http::event_stream(
        [](gyre::http::event_writer& events) { return events.send(std::string(2000, 'a')); });
  }));
  EXPECT_TRUE(is_left_alone([](const std::string&) {
    return response(gyre::http::status::not_modified).set("ETag", "\"7\"");
  }));
}

TEST_F(HttpCompress, RefusesIdentity) {
  EXPECT_THROW(static_cast<void>(gyre::http::compress({.codings = {content_coding::identity}})),
               std::invalid_argument);
}

}  // namespace
}  // namespace http_compress_test
