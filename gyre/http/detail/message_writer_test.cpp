// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/detail/message_writer.hpp>

#include <gyre/http/detail/message_reader.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

namespace message_writer_test {
namespace {

using namespace gyre::http;
using namespace gyre::http::detail;

struct response_case {
  status code;
  bool is_head_request;
  unsigned minor_version;
  body_kind content;
  std::uint64_t length;
  // The expected framing:
  std::optional<std::uint64_t> content_length;
  bool is_chunked;
  bool has_body;
  bool ends_with_connection;
};

constexpr body_kind none = body_kind::none;
constexpr body_kind length = body_kind::length;
constexpr body_kind chunked = body_kind::chunked;

constexpr response_case responses[] = {
    // An ordinary body.
    {status::ok, false, 1, length, 5, 5, false, true, false},
    {status::ok, false, 0, length, 5, 5, false, true, false},
    {status::not_found, false, 1, length, 0, 0, false, true, false},
    // A body of unknown length: chunks in 1.1, the end of the connection in 1.0.
    {status::ok, false, 1, chunked, 0, std::nullopt, true, true, false},
    {status::ok, false, 0, chunked, 0, std::nullopt, false, true, true},
    // HEAD announces, and sends nothing.
    {status::ok, true, 1, length, 5, 5, false, false, false},
    {status::ok, true, 1, chunked, 0, std::nullopt, true, false, false},
    {status::ok, true, 0, chunked, 0, std::nullopt, false, false, false},
    {status::ok, true, 1, none, 0, std::nullopt, false, false, false},
    // Statuses without a body, whatever the handler gave.
    {status::no_content, false, 1, length, 5, std::nullopt, false, false, false},
    {status::not_modified, false, 1, chunked, 0, std::nullopt, false, false, false},
    {status::switching_protocols, false, 1, length, 0, std::nullopt, false, false, false},
    // A 205 is framed, and empty.
    {status::reset_content, false, 1, length, 5, 0, false, false, false},
    {status::reset_content, false, 0, chunked, 0, 0, false, false, false},
    {status::reset_content, true, 1, none, 0, 0, false, false, false},
};

TEST(MessageWriter, TheFramingOfAResponseFollowsFromStatusMethodAndVersion) {
  for (const response_case& each : responses) {
    message_writer writer;
    EXPECT_EQ(writer.state(), writing::head);
    writer.begin_response(each.code, each.is_head_request, each.minor_version, each.content,
                          each.length);
    const auto shown = testing::Message()
                       << "status " << to_number(each.code) << " HEAD " << each.is_head_request
                       << " HTTP/1." << each.minor_version;
    EXPECT_EQ(writer.content_length(), each.content_length) << shown;
    EXPECT_EQ(writer.is_chunked(), each.is_chunked) << shown;
    EXPECT_EQ(writer.state(), each.has_body ? writing::body : writing::ended) << shown;
    EXPECT_EQ(writer.ends_with_connection(), each.ends_with_connection) << shown;
  }
}

TEST(MessageWriter, ARequestWithoutABodyIsCompleteWhenItsHeadWasSent) {
  message_writer writer;
  writer.begin_request(none, 0, false);
  EXPECT_FALSE(writer.is_complete());
  EXPECT_EQ(writer.content_length(), std::nullopt);
  writer.complete();
  EXPECT_TRUE(writer.is_complete());
  writer.continue_body();
  EXPECT_TRUE(writer.is_complete());
}

TEST(MessageWriter, ABodyThatAwaitsContinueIsSentAfterIt) {
  for (const body_kind content : {length, chunked}) {
    message_writer writer;
    writer.begin_request(content, 5, true);
    EXPECT_EQ(writer.state(), writing::awaiting_continue);
    EXPECT_FALSE(writer.is_complete());
    writer.continue_body();
    EXPECT_EQ(writer.state(), writing::body);
    writer.continue_body();
    EXPECT_EQ(writer.state(), writing::body);
  }
  message_writer at_once;
  at_once.begin_request(length, 5, false);
  EXPECT_EQ(at_once.state(), writing::body);
}

TEST(MessageWriter, AnAnnouncedLengthIsKept) {
  message_writer writer;
  writer.begin_request(length, 5, false);
  EXPECT_EQ(writer.add(3), errc{});
  EXPECT_EQ(writer.missing(), 2U);
  EXPECT_EQ(writer.add(3), errc::body_mismatch);
  EXPECT_EQ(writer.written(), 3U);
  EXPECT_EQ(writer.add(2), errc{});
  EXPECT_EQ(writer.missing(), 0U);
  EXPECT_FALSE(writer.is_complete());  // until the program says so
  writer.complete();
  EXPECT_TRUE(writer.is_complete());
  EXPECT_EQ(writer.add(std::numeric_limits<std::uint64_t>::max()), errc::body_mismatch);
}

TEST(MessageWriter, ABodyThatIsWrittenAtOnceHasItsWholeLength) {
  message_writer writer;
  writer.begin_response(status::ok, false, 1, length, 5);
  writer.complete();
  EXPECT_EQ(writer.written(), 5U);
  EXPECT_EQ(writer.missing(), 0U);
}

TEST(MessageWriter, BodiesWithoutAnAnnouncedLengthMayHaveAny) {
  message_writer writer;
  writer.begin_response(status::ok, false, 1, chunked, 0);
  EXPECT_EQ(writer.add(1U << 30U), errc{});
  EXPECT_EQ(writer.missing(), 0U);
  EXPECT_EQ(writer.written(), 1U << 30U);
}

TEST(MessageWriter, AnUpgradedMessageHasNoFraming) {
  message_writer writer;
  writer.begin_response(status::switching_protocols, false, 1, length, 0);
  EXPECT_TRUE(writer.is_complete());
  writer.begin_upgraded();
  EXPECT_EQ(writer.state(), writing::body);
  EXPECT_FALSE(writer.is_chunked());
  EXPECT_EQ(writer.add(100), errc{});
  EXPECT_EQ(writer.missing(), 0U);
}

TEST(MessageWriter, AResetWriterWritesAnotherMessage) {
  message_writer writer;
  writer.begin_request(length, 5, false);
  EXPECT_EQ(writer.add(5), errc{});
  writer.reset();
  EXPECT_EQ(writer.state(), writing::head);
  EXPECT_EQ(writer.written(), 0U);
}

TEST(MessageWriter, AChunkLineHasTheSizeInHexadecimalDigits) {
  message_writer writer;
  EXPECT_EQ(writer.format_chunk_header(1), "1\r\n");
  EXPECT_EQ(writer.format_chunk_header(0x1a2b), "1a2b\r\n");
  EXPECT_EQ(writer.format_chunk_header(std::numeric_limits<std::uint64_t>::max()),
            "ffffffffffffffff\r\n");
}

// The bytes of a body of several pieces, as a connection gets them.
std::string written(message_writer& writer, std::string_view body, std::size_t piece_size,
                    std::string_view trailers) {
  std::string bytes;
  for (std::string_view rest = body; !rest.empty();) {
    const std::string_view piece = rest.substr(0, piece_size);
    EXPECT_EQ(writer.add(piece.size()), errc{});
    if (writer.is_chunked()) bytes.append(writer.format_chunk_header(piece.size()));
    bytes.append(piece);
    if (writer.is_chunked()) bytes.append("\r\n");
    rest.remove_prefix(piece.size());
  }
  EXPECT_EQ(writer.missing(), 0U);
  writer.append_end(bytes, trailers);
  return bytes;
}

TEST(MessageWriter, AReaderReadsTheSameBodyAndTrailers) {
  const std::string body(300, 'x');
  for (const body_kind content : {length, chunked, body_kind::until_close}) {
    for (std::size_t piece_size = 1; piece_size <= body.size(); ++piece_size) {
      message_writer writer;
      const unsigned minor = content == body_kind::until_close ? 0 : 1;
      writer.begin_response(status::ok, false, minor, content == length ? length : chunked,
                            body.size());
      const std::string bytes = written(writer, body, piece_size, "X: y\r\n");
      message_reader reader;
      ASSERT_EQ(reader.begin({.body = content, .length = body.size()}, message_reader::unlimited),
                errc{});
      gyre::io::input input{std::string_view(bytes)};
      std::string received;
      for (auto piece = reader.next(input, {}); piece && !piece->empty();
           piece = reader.next(input, {})) {
        received += gyre::io::input(*piece).text();
      }
      ASSERT_EQ(received, body);
      ASSERT_TRUE(input.empty());
      ASSERT_EQ(reader.end_input(), errc{});
      ASSERT_EQ(reader.trailers().size(), content == chunked ? 1U : 0U);
    }
  }
}

}  // namespace
}  // namespace message_writer_test
