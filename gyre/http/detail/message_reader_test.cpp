// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/detail/message_reader.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace message_reader_test {
namespace {

using namespace gyre::http;
using namespace gyre::http::detail;
using gyre::io::input;

constexpr message_framing of_length(std::uint64_t length) {
  return {.body = body_kind::length, .length = length};
}
constexpr message_framing chunked{.body = body_kind::chunked};
constexpr message_framing until_close{.body = body_kind::until_close};
constexpr message_framing no_body{.body = body_kind::none};

// The reader of a message whose head has come.
message_reader begun(const message_framing& framing, bool awaits_continue = false) {
  message_reader reader;
  EXPECT_EQ(reader.begin(framing, message_reader::unlimited, awaits_continue), errc{});
  return reader;
}

// Reads all that the bytes hold; the reader's error ends the text.
std::string read_all(message_reader& reader, input& bytes) {
  std::string text;
  for (;;) {
    const auto piece = reader.next(bytes, {});
    if (!piece) return text + "!" + std::to_string(static_cast<int>(piece.error()));
    if (piece->empty()) return text;
    text += input(*piece).text();
  }
}

TEST(MessageReader, AMessageWithoutABodyEndsWithItsHead) {
  for (const message_framing& framing : {no_body, of_length(0)}) {
    message_reader reader;
    EXPECT_EQ(reader.state(), reading::head);
    EXPECT_FALSE(reader.expects_body());
    EXPECT_EQ(reader.begin(framing, 0, true), errc{});
    EXPECT_EQ(reader.state(), reading::ended);
    input next("next");
    EXPECT_EQ(read_all(reader, next), "");
    EXPECT_EQ(next.text(), "next");
    EXPECT_EQ(reader.end_input(), errc{});
  }
}

TEST(MessageReader, ABodyOfKnownLengthLeavesTheBytesThatFollow) {
  message_reader reader = begun(of_length(5));
  EXPECT_EQ(reader.state(), reading::body);
  EXPECT_EQ(reader.remaining(), 5U);
  input bytes("helloNEXT");
  EXPECT_EQ(read_all(reader, bytes), "hello");
  EXPECT_EQ(bytes.text(), "NEXT");
  EXPECT_EQ(reader.state(), reading::ended);
  EXPECT_EQ(reader.received(), 5U);
  EXPECT_EQ(reader.remaining(), 0U);
}

TEST(MessageReader, APieceIsNotLongerThanAskedFor) {
  message_reader reader = begun(of_length(5));
  input bytes("hello");
  EXPECT_EQ(reader.next(bytes, {}, 2)->size(), 2U);
  EXPECT_EQ(bytes.text(), "llo");
  EXPECT_EQ(reader.remaining(), 3U);
  EXPECT_EQ(reader.state(), reading::body);
}

TEST(MessageReader, PiecesAreViewsOfTheInput) {
  for (const message_framing& framing : {of_length(3), until_close}) {
    const std::string text = "abc";
    input bytes{std::string_view(text)};
    message_reader reader = begun(framing);
    EXPECT_EQ(static_cast<const void*>(reader.next(bytes, {})->data()), text.data());
  }
}

TEST(MessageReader, AChunkedBodyEndsBehindItsTrailers) {
  message_reader reader = begun(chunked);
  {
    const std::string text =
        "5\r\nhello\r\n0\r\nX: y\r\nZ: long enough for the heap, surely\r\n\r\nNEXT";
    input bytes{std::string_view(text)};
    EXPECT_EQ(read_all(reader, bytes), "hello");
    EXPECT_EQ(bytes.text(), "NEXT");
  }
  EXPECT_EQ(reader.state(), reading::ended);
  ASSERT_EQ(reader.trailers().size(), 2U);  // they outlive the input
  EXPECT_EQ(reader.trailers().get("X"), "y");
  EXPECT_EQ(reader.trailers().get("z"), "long enough for the heap, surely");
  input more("0\r\n\r\n");
  EXPECT_EQ(read_all(reader, more), "");
  EXPECT_EQ(reader.trailers().get("X"), "y");
}

TEST(MessageReader, ABodyUntilTheCloseEndsWithTheInput) {
  message_reader reader = begun(until_close);
  input bytes("0\r\n\r\n");
  EXPECT_EQ(read_all(reader, bytes), "0\r\n\r\n");
  EXPECT_EQ(reader.state(), reading::body);
  EXPECT_EQ(reader.end_input(), errc{});
  EXPECT_EQ(reader.state(), reading::ended);
  EXPECT_EQ(reader.error(), errc{});
}

TEST(MessageReader, AnEndOfInputWithinAMessageTruncatesIt) {
  for (message_reader reader :
       {message_reader(), begun(of_length(1)), begun(chunked), begun(of_length(1), true)}) {
    EXPECT_EQ(reader.end_input(), errc::truncated);
    EXPECT_EQ(reader.state(), reading::ended);
    EXPECT_EQ(reader.error(), errc::truncated);
  }
}

TEST(MessageReader, BodiesAboveTheLimitAreRefused) {
  message_reader announced;
  EXPECT_EQ(announced.begin(of_length(5), 5), errc{});
  announced.reset();
  EXPECT_EQ(announced.begin(of_length(6), 5), errc::body_too_large);
  EXPECT_TRUE(announced.expects_body());  // its bytes still stand in the way

  for (const std::size_t limit : {std::size_t{5}, std::size_t{4}}) {
    message_reader reader;
    EXPECT_EQ(reader.begin(chunked, limit), errc{});
    input bytes("3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n");
    const std::string text = read_all(reader, bytes);
    const std::string refused = "hel!" + std::to_string(static_cast<int>(errc::body_too_large));
    EXPECT_EQ(text, limit == 5 ? "hello" : refused);
  }
}

TEST(MessageReader, ContinueIsTakenOnce) {
  message_reader reader = begun(of_length(2), true);
  EXPECT_EQ(reader.state(), reading::awaiting_continue);
  EXPECT_TRUE(reader.expects_body());
  EXPECT_TRUE(reader.take_continue());
  EXPECT_EQ(reader.state(), reading::body);
  EXPECT_FALSE(reader.take_continue());
  EXPECT_FALSE(message_reader().take_continue());
}

TEST(MessageReader, APeerThatDoesNotWaitForContinueGetsNone) {
  message_reader reader = begun(of_length(2), true);
  input none;
  EXPECT_TRUE(reader.next(none, {})->empty());
  EXPECT_EQ(reader.state(), reading::awaiting_continue);
  input first("a");
  EXPECT_EQ(read_all(reader, first), "a");
  EXPECT_EQ(reader.state(), reading::body);
  EXPECT_FALSE(reader.take_continue());
}

TEST(MessageReader, InterimResponsesAreCounted) {
  message_reader reader;
  EXPECT_EQ(reader.skip_interim(103, 2), errc{});
  EXPECT_EQ(reader.skip_interim(100, 2), errc{});
  EXPECT_EQ(reader.state(), reading::head);
  EXPECT_EQ(reader.skip_interim(103, 2), errc::unexpected_status);
  reader.reset();
  EXPECT_EQ(reader.skip_interim(103, 2), errc{});
  EXPECT_EQ(reader.skip_interim(101, 2), errc::unexpected_status);
}

TEST(MessageReader, AllBytesAfterAnUpgradeAreABody) {
  message_reader reader = begun(no_body);
  reader.begin_upgraded();
  EXPECT_TRUE(reader.expects_body());
  EXPECT_EQ(reader.remaining(), 0U);  // the length is not known
  input bytes("GET / HTTP/1.1\r\n\r\n");
  EXPECT_EQ(read_all(reader, bytes), "GET / HTTP/1.1\r\n\r\n");
  EXPECT_EQ(reader.end_input(), errc{});
}

TEST(MessageReader, AFailureEndsTheBody) {
  message_reader reader = begun(of_length(5));
  reader.fail(errc::timed_out);
  EXPECT_EQ(reader.error(), errc::timed_out);
  EXPECT_FALSE(reader.expects_body());
  input late("hello");
  EXPECT_EQ(read_all(reader, late), "");
  EXPECT_EQ(late.text(), "hello");
}

TEST(MessageReader, AResetReaderReadsAnotherMessage) {
  message_reader reader = begun(chunked);
  input cut("5\r\nhel");
  EXPECT_EQ(read_all(reader, cut), "hel");
  reader.fail(errc::truncated);
  reader.reset();
  EXPECT_EQ(reader.state(), reading::head);
  EXPECT_EQ(reader.error(), errc{});
  EXPECT_EQ(reader.received(), 0U);
  EXPECT_TRUE(reader.trailers().empty());
  EXPECT_EQ(reader.begin(chunked, message_reader::unlimited), errc{});
  input whole("2\r\nok\r\n0\r\n\r\n");
  EXPECT_EQ(read_all(reader, whole), "ok");
  EXPECT_EQ(reader.state(), reading::ended);
}

struct example {
  message_framing framing;
  std::string_view bytes;
  std::string_view body;
  std::string_view rest;
};

constexpr example examples[] = {
    {of_length(5), "helloNEXT", "hello", "NEXT"},
    {chunked, "5;a=\"b\"\r\nhello\r\n1\r\n!\r\n0\r\nX: y\r\n\r\nNEXT", "hello!", "NEXT"},
    {chunked, "0\r\n\r\n", "", ""},
    {until_close, "hello", "hello", ""},
    {no_body, "NEXT", "", "NEXT"},
};

// All bytes that have come and were not consumed stand at the front of the next input, as those of
// a connection do.
std::string read_in_parts(message_reader& reader, std::string_view bytes,
                          const std::vector<std::size_t>& ends, std::string& rest) {
  std::string body;
  std::size_t consumed = 0;
  for (const std::size_t end : ends) {
    const std::string copy(bytes.substr(consumed, end - consumed));
    input part{std::string_view(copy)};
    body += read_all(reader, part);
    consumed = end - part.size();
  }
  rest = bytes.substr(consumed);
  return body;
}

TEST(MessageReader, ABodyDoesNotDependOnWhereItIsCut) {
  for (const example& each : examples) {
    for (std::size_t first = 0; first <= each.bytes.size(); ++first) {
      for (std::size_t second = first; second <= each.bytes.size(); ++second) {
        message_reader reader = begun(each.framing, first % 2 == 0);
        std::string rest;
        ASSERT_EQ(read_in_parts(reader, each.bytes, {first, second, each.bytes.size()}, rest),
                  each.body);
        ASSERT_EQ(rest, each.rest);
        ASSERT_EQ(reader.received(), each.body.size());
        ASSERT_EQ(reader.end_input(), errc{}) << each.bytes << " cut at " << first;
      }
    }
  }
}

TEST(MessageReader, EveryProperPrefixOfAFramedBodyIsTruncated) {
  for (const example& each : examples) {
    const bool is_framed =
        each.framing.body == body_kind::length || each.framing.body == body_kind::chunked;
    if (!is_framed) continue;
    const std::size_t whole = each.bytes.size() - each.rest.size();
    for (std::size_t size = 0; size < whole; ++size) {
      message_reader reader = begun(each.framing);
      std::string rest;
      const std::string body = read_in_parts(reader, each.bytes, {size}, rest);
      ASSERT_TRUE(each.body.starts_with(body));
      ASSERT_EQ(reader.end_input(), errc::truncated) << each.bytes.substr(0, size);
    }
  }
}

}  // namespace
}  // namespace message_reader_test
