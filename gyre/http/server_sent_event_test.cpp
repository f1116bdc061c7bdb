// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/server_sent_event.hpp>

#include <gyre/http/format_error.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace server_sent_event_test {
namespace {

using namespace std::chrono_literals;
using namespace std::string_view_literals;
using gyre::http::append_comment;
using gyre::http::append_event;
using gyre::http::format_errc;
using gyre::http::server_sent_event;
using gyre::http::server_sent_event_reader;
using testing::ElementsAre;
using testing::IsEmpty;

std::string text_of(const server_sent_event& event) {
  std::string text;
  append_event(text, event);
  return text;
}

// The events of a stream that comes in pieces of `size` bytes, as "type/id/data".
std::vector<std::string> read_in_pieces(std::string_view text, std::size_t size) {
  server_sent_event_reader reader;
  std::vector<std::string> events;
  while (!text.empty()) {
    const std::string copy(text.substr(0, size));
    text.remove_prefix(copy.size());
    gyre::io::input piece{std::string_view(copy)};
    while (reader.next(piece).value()) {
      const server_sent_event& event = reader.event();
      events.push_back(std::string(event.event) + '/' + std::string(event.id.value()) + '/' +
                       std::string(event.data));
    }
    EXPECT_TRUE(piece.empty());
  }
  return events;
}

// Returns the events in `text`; requires that the pieces' size changes nothing.
std::vector<std::string> read(std::string_view text) {
  const std::vector<std::string> events = read_in_pieces(text, text.size());
  for (std::size_t size = 1; size < text.size(); ++size) {
    EXPECT_EQ(read_in_pieces(text, size), events) << "pieces of " << size;
  }
  return events;
}

TEST(ServerSentEvent, FieldsAreWrittenAsLines) {
  EXPECT_EQ(text_of({.data = "hello", .event = ""}), "data: hello\n\n");
  EXPECT_EQ(text_of({.data = "hello", .event = "tick", .id = "42", .retry = 1500ms}),
            "event: tick\nid: 42\nretry: 1500\ndata: hello\n\n");
  EXPECT_EQ(text_of({.data = "", .event = "tick"}), "event: tick\ndata: \n\n");
  EXPECT_EQ(text_of({.data = "", .event = "", .id = ""}), "id: \n\n");
}

TEST(ServerSentEvent, EachLineOfDataIsALine) {
  EXPECT_EQ(text_of({.data = "a\nb\r\nc\rd\n", .event = ""}),
            "data: a\ndata: b\ndata: c\ndata: d\ndata: \n\n");
}

TEST(ServerSentEvent, ACommentIsIgnored) {
  std::string text;
  append_comment(text, "ping\npong");
  EXPECT_EQ(text, ": ping\n: pong\n\n");
  EXPECT_THAT(read(text), IsEmpty());
}

TEST(ServerSentEvent, NothingInjectsAnotherField) {
  std::string text = "before";
  for (const std::string_view bad : {"a\nb", "a\rb", "\r\n"}) {
    EXPECT_THROW(append_event(text, {.data = "x", .event = bad}), std::invalid_argument);
    EXPECT_THROW(append_event(text, {.data = "x", .event = "", .id = bad}), std::invalid_argument);
  }
  EXPECT_THROW(append_event(text, {.data = "x", .event = "", .id = "a\0"sv}),
               std::invalid_argument);
  EXPECT_THROW(append_event(text, {.data = "x", .event = "", .id = {}, .retry = -1ms}),
               std::invalid_argument);
  EXPECT_EQ(text, "before");
}

// The examples of the HTML Standard, 9.2.6.
TEST(ServerSentEventReader, TheExamplesOfTheStandardAreReadAsItSays) {
  EXPECT_THAT(read("data: YHOO\ndata: +2\ndata: 10\n\n"), ElementsAre("message//YHOO\n+2\n10"));
  EXPECT_THAT(
      read(": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\n"
           "data:  third event\n\n"),
      ElementsAre("message/1/first event", "message//second event", "message// third event"));
  EXPECT_THAT(read("data\n\ndata\ndata\n\ndata:"), ElementsAre("message//", "message//\n"));
  EXPECT_THAT(read("data:test\n\ndata: test\n\n"), ElementsAre("message//test", "message//test"));
}

TEST(ServerSentEventReader, LinesEndInAnyOfThreeWays) {
  EXPECT_THAT(read("data: a\r\n\r\ndata: b\r\rdata: c\n\ndata: d\r\n\rdata: e\n\r\n"),
              ElementsAre("message//a", "message//b", "message//c", "message//d", "message//e"));
}

TEST(ServerSentEventReader, OddFieldsAreIgnored) {
  EXPECT_THAT(read("\xEF\xBB\xBF"
                   "data: a\nDATA: b\ndatax: c\n:d\nid: 1\nid: 2\0\n\n"sv),
              ElementsAre("message/1/a"));
  EXPECT_THAT(read("\xEF\xBB\xBF\xEF\xBB\xBF"
                   "data: a\n\n"),
              IsEmpty());
  EXPECT_THAT(read("event: x\n\ndata: a\n\n"), ElementsAre("message//a"));
}

TEST(ServerSentEventReader, TheLastIdAndTimeAreKept) {
  const std::string_view text =
      "id: 7\nretry: 10\n\nretry: 1x\nretry: -1\nretry:\nretry: 99999999999999999999\n\n"
      "data: a\nretry: 20\n\ndata: b\nid: 8\n";
  gyre::io::input piece(text);
  server_sent_event_reader reader;
  EXPECT_EQ(reader.last_event_id(), "");
  ASSERT_TRUE(reader.next(piece).value());
  EXPECT_EQ(reader.event().id, "7");
  EXPECT_EQ(reader.event().retry, 20ms);
  ASSERT_FALSE(reader.next(piece).value());
  EXPECT_EQ(reader.last_event_id(), "7");
  EXPECT_EQ(reader.retry(), 20ms);
}

TEST(ServerSentEventReader, AnEventAboveTheLimitIsRefused) {
  for (const std::size_t size : {1U, 3U, 100U}) {
    server_sent_event_reader reader(10);
    std::string_view text = "data: abc\n\ndata: abcd\n\ndata: abcde\n\n";
    std::size_t events = 0;
    std::error_code error;
    while (!text.empty() && !error) {
      gyre::io::input piece(text.substr(0, size));
      text.remove_prefix(piece.size());
      auto found = reader.next(piece);
      for (; found && *found; found = reader.next(piece)) ++events;
      if (!found) error = found.error();
    }
    EXPECT_EQ(events, 2U) << size;
    EXPECT_EQ(error, format_errc::too_long) << size;
    gyre::io::input more{"data: x\n\n"sv};
    EXPECT_FALSE(reader.next(more)) << size;
  }
}

TEST(ServerSentEventReader, EventsAreReadAsTheyWereWritten) {
  std::string text;
  append_event(text, {.data = "a\nb", .event = "x", .id = "1"});
  append_comment(text, "");
  append_event(text, {.data = "", .event = "y"});
  append_event(text, {.data = " :c", .event = ""});
  EXPECT_THAT(read(text), ElementsAre("x/1/a\nb", "y/1/", "message/1/ :c"));
}

}  // namespace
}  // namespace server_sent_event_test
