// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/redis/reply_traits.hpp>

#include <gyre/engines/redis/reply.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <expected>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

namespace reply_traits_test {
namespace {

using namespace gyre::redis;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;
using testing::UnorderedElementsAre;

template <class T>
T read(std::string_view bytes) {
  reply_cursor values(bytes);
  if constexpr (std::is_void_v<T>) {
    read_reply<T>(values);
    EXPECT_TRUE(values.empty());
  } else {
    T value = read_reply<T>(values);
    EXPECT_TRUE(values.empty());
    return value;
  }
}

// The error of a value that is no T, and its message.
template <class T>
std::pair<std::error_code, std::string> error_of(std::string_view bytes) {
  try {
    reply_cursor values(bytes);
    static_cast<void>(read_reply<T>(values));
  } catch (const std::system_error& error) {
    return {error.code(), error.what()};
  }
  return {};
}

TEST(ReplyTraits, ReadTexts) {
  EXPECT_EQ(read<std::string>("$5\r\nhello\r\n"), "hello");
  EXPECT_EQ(read<std::string>("+OK\r\n"), "OK");
  EXPECT_EQ(read<std::string>("=7\r\ntxt:abc\r\n"), "abc");
  EXPECT_EQ(read<std::string>("(123\r\n"), "123");
}

TEST(ReplyTraits, ReadNumbers) {
  EXPECT_EQ(read<int>(":41\r\n"), 41);
  EXPECT_EQ(read<int>("$3\r\n-41\r\n"), -41);
  EXPECT_EQ(read<std::uint64_t>("$20\r\n18446744073709551615\r\n"),
            std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(read<double>(",3.25\r\n"), 3.25);
  EXPECT_EQ(read<double>("$4\r\n3.25\r\n"), 3.25);
  EXPECT_EQ(read<double>(":3\r\n"), 3.0);
  EXPECT_EQ(read<double>(",inf\r\n"), std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(read<double>(",nan\r\n")));
}

TEST(ReplyTraits, RefuseNumbersThatDoNotFit) {
  EXPECT_EQ(error_of<std::int8_t>(":128\r\n").first, errc::out_of_range);
  EXPECT_EQ(error_of<std::int8_t>(":-129\r\n").first, errc::out_of_range);
  EXPECT_EQ(error_of<unsigned>(":-1\r\n").first, errc::out_of_range);
  EXPECT_EQ(error_of<std::int64_t>("$19\r\n9223372036854775808\r\n").first, errc::out_of_range);
  EXPECT_THAT(error_of<std::int8_t>(":128\r\n").second, HasSubstr("128"));
}

TEST(ReplyTraits, ReadBooleans) {
  for (const char* bytes : {"#t\r\n", ":1\r\n", "+OK\r\n"}) EXPECT_TRUE(read<bool>(bytes)) << bytes;
  for (const char* bytes : {"#f\r\n", ":0\r\n", "_\r\n", "$-1\r\n"}) {
    EXPECT_FALSE(read<bool>(bytes)) << bytes;
  }
  EXPECT_EQ(error_of<bool>(":2\r\n").first, errc::out_of_range);
  EXPECT_EQ(error_of<bool>("+QUEUED\r\n").first, errc::unexpected_type);
}

TEST(ReplyTraits, ReadOptionals) {
  EXPECT_EQ(read<std::optional<int>>("_\r\n"), std::nullopt);
  EXPECT_EQ(read<std::optional<int>>("$-1\r\n"), std::nullopt);
  EXPECT_EQ(read<std::optional<int>>("*-1\r\n"), std::nullopt);
  EXPECT_EQ(read<std::optional<int>>(":1\r\n"), 1);
  const auto [code, text] = error_of<std::string>("$-1\r\n");
  EXPECT_EQ(code, errc::null_reply);
  EXPECT_THAT(text, HasSubstr("std::optional"));
}

TEST(ReplyTraits, ReadSequencesAndMaps) {
  EXPECT_THAT(read<std::vector<int>>("*2\r\n:1\r\n:2\r\n"), ElementsAre(1, 2));
  EXPECT_THAT(read<std::set<std::string>>("~2\r\n+b\r\n+a\r\n"), ElementsAre("a", "b"));
  EXPECT_THAT((read<std::map<std::string, int>>("%1\r\n+a\r\n:1\r\n")), ElementsAre(Pair("a", 1)));
  EXPECT_THAT((read<std::unordered_map<std::string, int>>("*4\r\n+a\r\n:1\r\n+b\r\n:2\r\n")),
              UnorderedElementsAre(Pair("a", 1), Pair("b", 2)));
  EXPECT_THAT((read<std::map<std::string, int>>("*1\r\n*2\r\n+a\r\n:1\r\n")),
              ElementsAre(Pair("a", 1)));
  EXPECT_EQ((error_of<std::map<std::string, int>>("*3\r\n+a\r\n:1\r\n+b\r\n").first),
            errc::unexpected_type);
  EXPECT_EQ(error_of<std::vector<int>>(":1\r\n").first, errc::unexpected_type);
}

TEST(ReplyTraits, ReadTuples) {
  EXPECT_EQ((read<std::tuple<int, std::string>>("*2\r\n:1\r\n+a\r\n")), (std::tuple(1, "a")));
  EXPECT_EQ((read<std::pair<int, int>>("*2\r\n:1\r\n:2\r\n")), std::pair(1, 2));
  EXPECT_EQ((read<std::array<int, 2>>("*2\r\n:1\r\n:2\r\n")), (std::array{1, 2}));
  const auto [code, text] = error_of<std::pair<int, int>>("*3\r\n:1\r\n:2\r\n:3\r\n");
  EXPECT_EQ(code, errc::unexpected_type);
  EXPECT_THAT(text, HasSubstr("3 values instead of 2"));
}

TEST(ReplyTraits, GiveErrorsOfTheServer) {
  const std::string_view bytes = "-WRONGTYPE Operation against another kind\r\n";
  EXPECT_EQ(error_of<int>(bytes).first, errc::wrong_type);
  EXPECT_EQ(error_of<std::optional<int>>(bytes).first, errc::wrong_type);
  EXPECT_EQ(error_of<std::vector<int>>("*1\r\n-NOSCRIPT x\r\n").first, errc::no_script);
  EXPECT_EQ(error_of<std::string>("-BLUB x\r\n").first, errc::server);
  EXPECT_THROW(read<void>(bytes), server_error);
  EXPECT_THAT(error_of<int>(bytes).second, HasSubstr("Operation against another kind"));
  const auto expected = read<std::expected<int, server_error>>(bytes);
  ASSERT_FALSE(expected);
  EXPECT_EQ(expected.error().text(), bytes.substr(1, bytes.size() - 3));
  EXPECT_EQ((read<std::expected<int, server_error>>(":1\r\n")), 1);
  EXPECT_NO_THROW(static_cast<void>(read<ignored>(bytes)));
}

TEST(ReplyTraits, PassOverAttributes) {
  EXPECT_THAT(
      read<std::vector<int>>("|1\r\n+ttl\r\n:9\r\n*2\r\n:1\r\n|1\r\n+a\r\n*1\r\n:5\r\n:2\r\n"),
      ElementsAre(1, 2));
}

TEST(ReplyTraits, ReadAnyShape) {
  const reply value = read<reply>("*3\r\n%1\r\n+a\r\n:1\r\n-ERR x\r\n_\r\n");
  ASSERT_EQ(value.kind, reply_kind::array);
  ASSERT_EQ(value.values.size(), 3U);
  EXPECT_EQ(value.values[0].kind, reply_kind::map);
  ASSERT_EQ(value.values[0].values.size(), 2U);
  EXPECT_EQ(value.values[0].values[0].text, "a");
  EXPECT_EQ(value.values[0].values[1].integer, 1);
  EXPECT_EQ(value.values[1].kind, reply_kind::error);
  EXPECT_EQ(value.values[2].kind, reply_kind::null);
}

}  // namespace
}  // namespace reply_traits_test
