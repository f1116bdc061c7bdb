// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/nats/detail/parser.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <limits>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

namespace nats_parser_test {
namespace {

using gyre::nats::errc;
using gyre::nats::detail::operation;
using gyre::nats::detail::operation_kind;
using gyre::nats::detail::parser;

constexpr std::size_t max_message = 1000;

errc error_of(std::string_view bytes) {
  parser input(max_message);
  const auto found = input.parse(bytes);
  return found ? errc() : found.error();
}

bool is_incomplete(std::string_view bytes) {
  parser input(max_message);
  const auto found = input.parse(bytes);
  return found && !*found;
}

// The text of what is found in `bytes`, of which at first `first` have come, and then one more each
// time.
std::string found_in(std::string_view bytes, std::size_t first) {
  parser input(max_message);
  std::string text;
  std::size_t begin = 0;
  for (std::size_t end = first; end <= bytes.size(); ++end) {
    for (;;) {
      const auto found = input.parse(bytes.substr(begin, end - begin));
      if (!found) return text + "error";
      if (!*found) break;
      const operation& one = **found;
      text += std::to_string(static_cast<int>(one.kind)) + '[' + std::to_string(one.sid) + ' ' +
              std::string(one.subject) + ' ' + std::string(one.reply) + ' ' +
              std::string(one.headers) + ' ' + std::string(one.payload) + ' ' +
              std::string(one.text) + ']';
      begin += one.size;
    }
  }
  return text;
}

TEST(NatsParser, ReadsEachOperation) {
  parser input(max_message);
  const auto message = input.parse("MSG a.b 7 in.box 5\r\nhello\r\nPING\r\n");
  ASSERT_TRUE(message && *message);
  EXPECT_EQ((*message)->kind, operation_kind::message);
  EXPECT_EQ((*message)->subject, "a.b");
  EXPECT_EQ((*message)->sid, 7U);
  EXPECT_EQ((*message)->reply, "in.box");
  EXPECT_EQ((*message)->payload, "hello");
  EXPECT_EQ((*message)->size, 27U);
  const auto ping = input.parse("PING\r\n");
  ASSERT_TRUE(ping && *ping);
  EXPECT_EQ((*ping)->kind, operation_kind::ping);
  const auto headers = input.parse("HMSG a 1 18 20\r\nNATS/1.0\r\nA: 1\r\n\r\nhi\r\n");
  ASSERT_TRUE(headers && *headers);
  EXPECT_EQ((*headers)->headers, "NATS/1.0\r\nA: 1\r\n\r\n");
  EXPECT_EQ((*headers)->payload, "hi");
  EXPECT_EQ((*headers)->reply, "");
  const auto info = input.parse("INFO {\"port\":1} \r\n");
  ASSERT_TRUE(info && *info);
  EXPECT_EQ((*info)->text, "{\"port\":1}");
  const auto error = input.parse("-ERR 'Stale Connection'\r\n");
  ASSERT_TRUE(error && *error);
  EXPECT_EQ((*error)->kind, operation_kind::error);
  EXPECT_EQ((*error)->text, "Stale Connection");
}

TEST(NatsParser, FindsTheSameHoweverTheBytesAreCut) {
  const std::string bytes =
      "INFO {}\r\n+OK\r\nMSG a 1 0\r\n\r\nmsg\tb  2  c 3\r\n\r\n\r\r\nHMSG a 1 12 14\r\n"
      "NATS/1.0\r\n\r\nhi\r\nPONG\r\n-ERR x\r\nPING\r\n";
  const std::string whole = found_in(bytes, bytes.size());
  EXPECT_EQ(whole.find("error"), std::string::npos) << whole;
  for (std::size_t first = 0; first < bytes.size(); ++first) {
    EXPECT_EQ(found_in(bytes, first), whole) << first;
  }
}

TEST(NatsParser, RefusesWhatIsNoOperation) {
  for (const char* bytes : {"HTTP/1.1 200 OK\r\n",
                            "\r\n",
                            "\n",
                            "PING\n",
                            "PINGS\r\n",
                            "PING x\r\n",
                            "MSG\r\n",
                            "MSG a\r\n",
                            "MSG a 1\r\n",
                            "MSG a x 1\r\n",
                            "MSG a 1 -1\r\n",
                            "MSG a 1 1x\r\n",
                            "MSG a 1 b c 1\r\n",
                            "MSG a 1 99999999999999999999999\r\n",
                            "HMSG a 1 5\r\n",
                            "HMSG a 1 6 5\r\n",
                            "HMSG a 1 b c 5 6\r\n",
                            "MSG a 1 1\r\nab\r\n",
                            "MSG a 1 1\r\na\n\r",
                            "MSG a b c d e f g h 1\r\n"}) {
    EXPECT_EQ(error_of(bytes), errc::bad_message) << bytes;
  }
}

TEST(NatsParser, LimitsMessagesAndLines) {
  EXPECT_EQ(error_of("MSG a 1 1001\r\n"), errc::message_too_large);
  EXPECT_TRUE(is_incomplete("MSG a 1 1000\r\n"));
  const std::string line(parser::max_line_size, 'x');
  EXPECT_EQ(error_of(line + 'x'), errc::bad_message);
  EXPECT_TRUE(is_incomplete("-ERR " + line.substr(5)));
  EXPECT_TRUE(is_incomplete("INFO " + line));
  EXPECT_EQ(error_of("INFO " + std::string(parser::max_info_size, 'x')), errc::bad_message);
}

TEST(NatsParser, LimitsMessagesWhoseSizesOverflow) {
  constexpr std::size_t most = std::numeric_limits<std::size_t>::max();
  for (const std::size_t size : {most, most - 10, most - 40, most / 2 + 1}) {
    parser input(most);
    const auto found = input.parse("MSG a 1 " + std::to_string(size) + "\r\n0123456789\r\n");
    EXPECT_EQ(found ? errc() : found.error(), errc::message_too_large) << size;
  }
}

TEST(NatsParser, LeavesHeadersOfOtherClientsToTheReader) {
  parser input(max_message);
  const auto found = input.parse("HMSG a 1 4 5\r\njunkx\r\n");
  ASSERT_TRUE(found && *found);
  EXPECT_EQ((*found)->headers, "junk");
  EXPECT_EQ((*found)->payload, "x");
}

}  // namespace
}  // namespace nats_parser_test
