// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/detail/chunked_decoder.hpp>
#include <gyre/http/detail/message_parser.hpp>

#include <tests/http/http_vectors.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <numeric>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace message_parser_test {
namespace {

using namespace std::string_view_literals;
using namespace gyre::http;
using namespace gyre::http::detail;
using gyre::http::test::http_vector;
using gyre::http::test::message_judge;
using gyre::http::test::read_http_vectors;

std::string judge_in_pieces(const http_vector& vector, const std::vector<std::size_t>& ends) {
  message_judge judge(vector.direction);
  for (const std::size_t end : ends) {
    if (!judge.feed(std::string_view(vector.bytes).substr(0, end))) break;
  }
  return judge.verdict();
}

TEST(MessageParser, EachVectorIsJudgedAsExpected) {
  const std::vector<http_vector> vectors = read_http_vectors();
  EXPECT_GE(vectors.size(), 200U);
  for (const http_vector& each : vectors) {
    EXPECT_EQ(judge_in_pieces(each, {each.bytes.size()}), each.expected) << each.name;
  }
}

// Vectors of several KiB test limits, whose surroundings suffice.
std::vector<std::size_t> interesting_cuts(const http_vector& vector) {
  std::vector<std::size_t> cuts;
  const std::size_t step = vector.bytes.size() > 2000 ? 97 : 1;
  for (std::size_t cut = 0; cut < vector.bytes.size(); ++cut) {
    if (cut % step == 0 || cut < 40 || cut + 40 > vector.bytes.size()) cuts.push_back(cut);
  }
  return cuts;
}

TEST(MessageParser, AVerdictDoesNotDependOnWhereAMessageIsCut) {
  for (const http_vector& each : read_http_vectors()) {
    for (const std::size_t cut : interesting_cuts(each)) {
      ASSERT_EQ(judge_in_pieces(each, {cut, each.bytes.size()}), each.expected)
          << each.name << " cut at " << cut;
    }
  }
}

TEST(MessageParser, AVerdictIsTheSameForOneByteAtATime) {
  for (const http_vector& each : read_http_vectors()) {
    std::vector<std::size_t> ends(each.bytes.size() + 1);
    std::iota(ends.begin(), ends.end(), std::size_t{0});
    EXPECT_EQ(judge_in_pieces(each, ends), each.expected) << each.name;
  }
}

TEST(MessageParser, NamesOfVectorsAreUniqueAndEachHasASource) {
  std::set<std::string> names;
  for (const http_vector& each : read_http_vectors()) {
    EXPECT_TRUE(names.insert(each.name).second) << each.name;
    EXPECT_NE(each.source, "") << each.name;
    EXPECT_NE(each.expected, "") << each.name;
  }
}

TEST(MessageParser, FieldsKeepTheirMemoryFromHeadToHead) {
  request_head head;
  const std::string_view text = "GET / HTTP/1.1\r\nHost: a\r\nX: y\r\n\r\n";
  ASSERT_EQ(parse_request_head(text, {}, head), errc{});
  const field_view* const memory = head.fields.data();
  ASSERT_EQ(parse_request_head(text, {}, head), errc{});
  EXPECT_EQ(head.fields.data(), memory);
  EXPECT_EQ(head.fields.size(), 2U);
}

TEST(MessageParser, AHeadThatNoScannerFoundIsRefused) {
  request_head head;
  for (const std::string_view text :
       {"", "\r", "\r\n", "GET", "GET / HTTP/1.1\r\n", "GET / HTTP/1.1\r\nHost: a\r\n",
        "GET / HTTP/1.1\r\n\r\nX: y\r\n", "GET / HTTP/1.1\r\nHost: a\nX: y\r\n\r\n"}) {
    EXPECT_NE(parse_request_head(text, {}, head), errc{}) << text;
  }
  std::vector<field_view> fields;
  EXPECT_NE(parse_trailers("", {}, fields), errc{});
  EXPECT_NE(parse_trailers("X: y\r\n", {}, fields), errc{});
}

TEST(MessageParser, LimitsAreSettable) {
  const std::string_view text = "GET /a HTTP/1.1\r\nHost: a\r\nX: y\r\n\r\n";
  head_scanner scanner;
  EXPECT_EQ(scanner.find_end(text, {.start_line = 17}), text.size());
  EXPECT_EQ(scanner.find_end(text, {.start_line = 16}), std::unexpected(errc::target_too_long));
  EXPECT_EQ(scanner.find_end(text, {.fields = 15}), text.size());
  EXPECT_EQ(scanner.find_end(text, {.fields = 14}), std::unexpected(errc::fields_too_large));
  EXPECT_EQ(scanner.find_end(text, {.field_count = 2}), text.size());
  EXPECT_EQ(scanner.find_end(text, {.field_count = 1}), std::unexpected(errc::fields_too_large));
}

TEST(MessageParser, AScannerStartsAnewBehindAHead) {
  const std::string one = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
  const std::string two = one + one;
  head_scanner scanner;
  EXPECT_EQ(scanner.find_end(two, {}), one.size());
  EXPECT_EQ(scanner.find_end(std::string_view(two).substr(one.size()), {}), one.size());
}

TEST(MessageParser, AScannerStartsAnewBehindAnError) {
  const std::string_view valid_head = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
  head_scanner scanner;
  for (const std::string_view bad :
       {"GET / HTTP/1.1\r\nHost: a\n"sv, "GET / HTTP/1.1\r\nHost: a\rb"sv, "GET / HTTP/1.1\n"sv,
        "\r\n\r\n"sv, "GET / HTTP/1.1\r\nA: \0"sv, "\0"sv}) {
    EXPECT_FALSE(scanner.find_end(bad, {})) << bad;
    EXPECT_EQ(scanner.find_end(valid_head, {}), valid_head.size()) << "after " << bad;
  }
  EXPECT_FALSE(scanner.find_end(valid_head, {.start_line = 4}));
  EXPECT_FALSE(scanner.find_end(valid_head, {.fields = 4}));
  EXPECT_FALSE(scanner.find_end(valid_head, {.field_count = 0}));
  EXPECT_EQ(scanner.find_end(valid_head, {}), valid_head.size());
}

TEST(MessageParser, DecodedDataIsNotCopied) {
  const std::string text = "5\r\nhello\r\n0\r\n\r\nnext";
  gyre::io::input in{std::string_view(text)};
  std::vector<field_view> trailers;
  chunked_decoder decoder;
  const auto first = decoder.next(in, {}, trailers);
  ASSERT_TRUE(first);
  EXPECT_EQ(static_cast<const void*>(first->data.data()), text.data() + 3);
  EXPECT_FALSE(first->is_last);
  const auto last = decoder.next(in, {}, trailers);
  ASSERT_TRUE(last);
  EXPECT_TRUE(last->is_last);
  EXPECT_EQ(in.text(), "next");
}

}  // namespace
}  // namespace message_parser_test
