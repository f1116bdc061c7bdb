// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/nats/headers.hpp>

#include <gyre/engines/nats/detail/message_block.hpp>
#include <gyre/engines/nats/error.hpp>
#include <gyre/engines/nats/message.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace nats_headers_test {
namespace {

using gyre::nats::errc;
using gyre::nats::header;
using gyre::nats::header_view;
using gyre::nats::headers;
using gyre::nats::message;
using gyre::nats::detail::message_block;
using gyre::nats::detail::operation;
using testing::ElementsAre;
using testing::IsEmpty;

std::vector<std::string> texts_of(header_view view) {
  std::vector<std::string> texts;
  for (const auto& [name, value] : view) {
    texts.push_back(std::string(name) + '=' + std::string(value));
  }
  return texts;
}

message message_with(std::string_view block) {
  return message(message_block::make(operation{.subject = "a", .headers = block}));
}

TEST(NatsHeaders, KeepTheirOrder) {
  headers all{{"B", "1"}, {"A", "2"}};
  all.add("B", "3");
  EXPECT_THAT(texts_of(all), ElementsAre("B=1", "A=2", "B=3"));
  EXPECT_EQ(all.find("B"), "1");
  EXPECT_EQ(all.find("b"), std::nullopt);
  all.set("B", *all.find("A"));
  EXPECT_THAT(texts_of(all), ElementsAre("A=2", "B=2"));
  all.remove("A").remove("B");
  EXPECT_TRUE(all.empty());
  EXPECT_THAT(texts_of(all), IsEmpty());
}

TEST(NatsHeaders, RefuseWhatWouldBeAnotherHeader) {
  headers all;
  for (const header& each :
       {header{"", "x"}, header{"a b", "x"}, header{"a:", "x"}, header{"\xc3\xa4", "x"},
        header{"a\r\n", "x"}, header{"a", "x\r\nB: y"}, header{"a", "\n"}, header{"a", "\r"}}) {
    try {
      all.add(each.name, each.value);
      ADD_FAILURE() << each.name << each.value;
    } catch (const std::system_error& error) {
      EXPECT_EQ(error.code(), errc::bad_header);
    }
  }
  EXPECT_TRUE(all.empty());
}

TEST(NatsHeaders, AreReadFromAnyBytes) {
  EXPECT_THAT(texts_of(message_with("NATS/1.0\r\nA: 1\r\nB:2 \r\nC:\r\n\r\n").headers()),
              ElementsAre("A=1", "B=2", "C="));
  EXPECT_THAT(texts_of(message_with("NATS/1.0\r\njunk\r\n: x\r\nA: 1").headers()),
              ElementsAre("A=1"));
  for (const char* block : {"", "x", "NATS/1.0", "NATS/1.0\r\n", "NATS/1.0\r\n\r\n", "\r\n\r\n",
                            "NATS/2.0\r\nA: 1\r\n\r\n"}) {
    EXPECT_THAT(texts_of(message_with(block).headers()), IsEmpty()) << block;
    EXPECT_EQ(message_with(block).status(), 0) << block;
  }
}

TEST(NatsHeaders, HaveAStatus) {
  const message reply = message_with("NATS/1.0 404 No Messages\r\nA: 1\r\n\r\n");
  EXPECT_EQ(reply.status(), 404);
  EXPECT_EQ(reply.description(), "No Messages");
  EXPECT_THAT(texts_of(reply.headers()), ElementsAre("A=1"));
  EXPECT_EQ(message_with("NATS/1.0 503\r\n\r\n").status(), 503);
  EXPECT_EQ(message_with("NATS/1.0 503\r\n\r\n").description(), "");
  EXPECT_EQ(message_with("NATS/1.0   x\r\n\r\n").status(), 0);
}

TEST(NatsMessage, OwnsItsParts) {
  std::string bytes = "subjectreplyheadpayload";
  const std::string_view all = bytes;
  message first(message_block::make(operation{.subject = all.substr(0, 7),
                                              .reply = all.substr(7, 5),
                                              .headers = all.substr(12, 4),
                                              .payload = all.substr(16)}));
  bytes.assign(bytes.size(), 'x');
  const message moved = std::move(first);
  EXPECT_EQ(moved.subject(), "subject");
  EXPECT_EQ(moved.reply(), "reply");
  EXPECT_EQ(moved.text(), "payload");
  EXPECT_EQ(moved.bytes().size(), 7U);
  EXPECT_EQ(message().text(), "");
  EXPECT_EQ(message().status(), 0);
}

}  // namespace
}  // namespace nats_headers_test
