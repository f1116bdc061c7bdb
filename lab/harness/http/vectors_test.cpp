// SPDX-License-Identifier: Apache-2.0
#include <lab/harness/http/vectors.hpp>

#include <gtest/gtest.h>

#include <stdexcept>
#include <string_view>

namespace lab::http {
namespace {

TEST(HttpVectors, EscapesAreBytes) {
  EXPECT_EQ(unescaped(R"(a\r\n\t\\\x41)"), "a\r\n\t\\A");
  EXPECT_EQ(unescaped(R"(\*3{ab\x43}d)"), "abCabCabCd");
  EXPECT_EQ(unescaped(R"(\0)"), std::string_view("\0", 1));
  for (const char* const bad : {R"(\q)", R"(\)", R"(\xZZ)", R"(\*3a)"}) {
    EXPECT_THROW(unescaped(bad), std::runtime_error) << bad;
  }
}

TEST(HttpVectors, AreRequestsAndChunkedBodies) {
  const auto vectors = read_request_vectors();
  EXPECT_GT(vectors.size(), 300U);
  for (const request_vector& each : vectors) {
    EXPECT_FALSE(each.name.starts_with("response-")) << each.name;
  }
}

TEST(HttpVectors, VerdictIsThatOfTheFinalStatus) {
  EXPECT_EQ(verdict_of(""), verdict::incomplete);
  EXPECT_EQ(verdict_of("HTTP/1.1 2"), verdict::incomplete);
  EXPECT_EQ(verdict_of("HTTP/1.1 200 OK\r\n"), verdict::accepts);
  EXPECT_EQ(verdict_of("HTTP/1.1 404 Not Found\r\n"), verdict::accepts);
  EXPECT_EQ(verdict_of("HTTP/1.1 400 Bad Request\r\n"), verdict::refuses);
  EXPECT_EQ(verdict_of("HTTP/1.1 100 Continue\r\n\r\n"), verdict::incomplete);
  EXPECT_EQ(verdict_of("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 400 No\r\n"), verdict::refuses);
  EXPECT_EQ(verdict_of("Hello, World!"), verdict::accepts);
}

}  // namespace
}  // namespace lab::http
