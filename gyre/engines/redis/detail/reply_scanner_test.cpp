// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/redis/detail/reply_scanner.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace reply_scanner_test {
namespace {

using namespace std::string_literals;
using gyre::redis::errc;
using gyre::redis::detail::reply_scanner;

constexpr std::size_t max_size = 1000;

// Every kind of value, as complete replies.
const std::vector<std::string> complete = {
    "+OK\r\n",
    "-ERR no\r\n",
    ":-12\r\n",
    ":+9223372036854775807\r\n",
    "$0\r\n\r\n",
    "$5\r\na\r\nb\0\r\n"s,
    "$-1\r\n",
    "*-1\r\n",
    "*0\r\n",
    "*2\r\n:1\r\n*1\r\n+x\r\n",
    "_\r\n",
    "#t\r\n",
    ",3.25\r\n",
    ",inf\r\n",
    ",-inf\r\n",
    ",nan\r\n",
    "(3492890328409238509324850943850943825024385\r\n",
    "!5\r\nERR x\r\n",
    "=7\r\ntxt:abc\r\n",
    "%2\r\n+a\r\n:1\r\n+b\r\n~1\r\n:2\r\n",
    "|1\r\n+ttl\r\n:3600\r\n:1\r\n",
    "*2\r\n|1\r\n+ttl\r\n*1\r\n:1\r\n:7\r\n:8\r\n",
    ">2\r\n+message\r\n+x\r\n",
};

TEST(ReplyScanner, FindsTheEndOfEachKind) {
  for (const std::string& reply : complete) {
    reply_scanner scanner(max_size);
    const auto length = scanner.scan(reply + "+next\r\n");
    ASSERT_TRUE(length && *length) << reply;
    EXPECT_EQ(**length, reply.size()) << reply;
  }
}

TEST(ReplyScanner, NeedsTheLastByteOfEachKind) {
  for (const std::string& reply : complete) {
    reply_scanner scanner(max_size);
    for (std::size_t size = 0; size < reply.size(); ++size) {
      const auto length = scanner.scan(std::string_view(reply).substr(0, size));
      ASSERT_TRUE(length) << reply;
      EXPECT_FALSE(*length) << reply << size;
    }
    EXPECT_EQ(scanner.scan(reply), reply.size());
  }
}

TEST(ReplyScanner, ScansReplyAfterReply) {
  std::string bytes;
  for (const std::string& reply : complete) bytes += reply;
  reply_scanner scanner(max_size);
  std::string_view left = bytes;
  for (const std::string& reply : complete) {
    const auto length = scanner.scan(left);
    ASSERT_TRUE(length && *length) << reply;
    EXPECT_EQ(left.substr(0, **length), reply);
    left.remove_prefix(**length);
  }
}

TEST(ReplyScanner, RefusesBytesOfAnotherProtocol) {
  for (const char* bytes : {"HTTP/1.1 400 Bad Request\r\n",
                            "H",
                            ":\r\n",
                            ":1x\r\n",
                            ":99999999999999999999\r\n",
                            "$x\r\n",
                            "$-2\r\n",
                            "*-2\r\n",
                            "%-1\r\n",
                            "_x\r\n",
                            "#y\r\n",
                            ",\r\n",
                            ",1x\r\n",
                            "(1.5\r\n",
                            "(\r\n",
                            "$2\r\nabcd",
                            "=3\r\ntxt\r\n",
                            "=7\r\ntxtabcd\r\n",
                            "$?\r\n",
                            "*1\r\nx\r\n",
                            "x99999\r\n"}) {
    reply_scanner scanner(max_size);
    const auto length = scanner.scan(bytes);
    ASSERT_FALSE(length) << bytes;
    EXPECT_EQ(length.error(), errc::bad_reply) << bytes;
  }
}

TEST(ReplyScanner, RefusesALineWithoutEnd) {
  reply_scanner scanner(std::size_t{1} << 20);
  const auto length = scanner.scan(std::string(std::size_t{1} << 17, '+'));
  ASSERT_FALSE(length);
  EXPECT_EQ(length.error(), errc::bad_reply);
}

TEST(ReplyScanner, RefusesTooLargeRepliesBeforeTheyCome) {
  for (const char* bytes : {"$1001\r\n", "*1001\r\n", "%501\r\n", "$9223372036854775807\r\n",
                            "*2\r\n$600\r\n", "%9223372036854775807\r\n"}) {
    reply_scanner scanner(max_size);
    std::string text = bytes;
    if (text.starts_with("*2"))
      text += std::string(600, 'x') + "\r\n$600\r\n" + std::string(600, 'x');
    if (text.starts_with("%501")) {
      for (int each = 0; each < 400; ++each) text += "_\r\n";
    }
    const auto length = scanner.scan(text);
    ASSERT_FALSE(length) << bytes;
    EXPECT_EQ(length.error(), errc::reply_too_large) << bytes;
  }
}

TEST(ReplyScanner, BoundsTheDepth) {
  const auto nested = [](std::size_t depth) {
    std::string bytes;
    for (std::size_t each = 0; each < depth; ++each) bytes += "*1\r\n";
    return bytes + ":1\r\n";
  };
  reply_scanner scanner(max_size);
  EXPECT_EQ(scanner.scan(nested(reply_scanner::max_depth)),
            nested(reply_scanner::max_depth).size());
  const auto length = reply_scanner(max_size).scan(nested(reply_scanner::max_depth + 1));
  ASSERT_FALSE(length);
  EXPECT_EQ(length.error(), errc::bad_reply);
}

}  // namespace
}  // namespace reply_scanner_test
