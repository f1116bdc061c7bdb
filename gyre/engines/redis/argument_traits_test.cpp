// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/redis/argument_traits.hpp>

#include <gyre/io/buffer.hpp>

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace argument_traits_test {
namespace {

using namespace std::string_literals;

template <class... Arguments>
std::string written(std::string_view name, const Arguments&... arguments) {
  gyre::io::buffer output;
  gyre::redis::write_command(output, name, arguments...);
  return std::string(output.text());
}

TEST(ArgumentTraits, WriteTextsAndBytes) {
  EXPECT_EQ(written("PING"), "*1\r\n$4\r\nPING\r\n");
  EXPECT_EQ(written("SET", "key"s, std::string_view("a\r\nb\0", 5)),
            "*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$5\r\na\r\nb\0\r\n"s);
  const std::array<std::byte, 2> bytes = {std::byte{'x'}, std::byte{0}};
  EXPECT_EQ(written("E", std::span<const std::byte>(bytes)), "*2\r\n$1\r\nE\r\n$2\r\nx\0\r\n"s);
  EXPECT_EQ(written("E", ""), "*2\r\n$1\r\nE\r\n$0\r\n\r\n");
}

TEST(ArgumentTraits, WriteNumbers) {
  EXPECT_EQ(written("E", -41, 18446744073709551615U),
            "*3\r\n$1\r\nE\r\n$3\r\n-41\r\n$20\r\n18446744073709551615\r\n");
  EXPECT_EQ(written("E", 0.1, 1e300), "*3\r\n$1\r\nE\r\n$3\r\n0.1\r\n$6\r\n1e+300\r\n");
  EXPECT_EQ(written("E", std::numeric_limits<double>::infinity()),
            "*2\r\n$1\r\nE\r\n$3\r\ninf\r\n");
}

TEST(ArgumentTraits, WriteTheElementsOfRangesAndTuples) {
  EXPECT_EQ(written("DEL", std::vector<std::string>{"a", "b"}),
            "*3\r\n$3\r\nDEL\r\n$1\r\na\r\n$1\r\nb\r\n");
  EXPECT_EQ(written("H", std::map<std::string, int>{{"a", 1}}),
            "*3\r\n$1\r\nH\r\n$1\r\na\r\n$1\r\n1\r\n");
  EXPECT_EQ(written("Z", std::vector<std::pair<double, std::string_view>>{{1.5, "a"}}),
            "*3\r\n$1\r\nZ\r\n$3\r\n1.5\r\n$1\r\na\r\n");
  EXPECT_EQ(written("E", std::tuple("a"s, 1)), "*3\r\n$1\r\nE\r\n$1\r\na\r\n$1\r\n1\r\n");
  EXPECT_EQ(written("E", std::vector<int>()), "*1\r\n$1\r\nE\r\n");
  EXPECT_EQ(written("E", std::optional<int>(), std::optional<int>(7)),
            "*2\r\n$1\r\nE\r\n$1\r\n7\r\n");
}

static_assert(gyre::redis::command_argument<const std::string&>);
static_assert(gyre::redis::command_argument<const char (&)[4]>);
static_assert(!gyre::redis::command_argument<bool>);
static_assert(!gyre::redis::command_argument<char>);
static_assert(!gyre::redis::command_argument<std::nullptr_t>);

}  // namespace
}  // namespace argument_traits_test
