// SPDX-License-Identifier: Apache-2.0
#include <lab/harness/http/answer_reader.hpp>

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace lab::http {
namespace {

constexpr std::string_view date = "Date: Mon, 27 Jul 2009 12:28:53 GMT\r\n";

std::string head(std::string_view fields) {
  return "HTTP/1.1 200 OK\r\n" + std::string(date) + std::string(fields) + "\r\n";
}

std::string good() { return head("Content-Type: text/plain\r\nContent-Length: 5\r\n"); }

std::string checked(std::string_view fields, bool closes = false) {
  return check_head(head(fields), 5, {.closes = closes});
}

TEST(CheckHead, AcceptsWhatServersSend) {
  EXPECT_EQ(check_head(good(), 5, {}), "");
  EXPECT_EQ(checked("content-type:text/plain\r\ncontent-length:5\r\nX:\r\n"), "");
  EXPECT_EQ(checked("Content-Type: a/b\r\nContent-Length: 5\r\nConnection: keep-alive\r\n"), "");
  EXPECT_EQ(checked("Content-Type: a/b\r\nContent-Length: 5\r\nConnection: Close\r\n", true), "");
}

TEST(CheckHead, TellsMistakes) {
  const std::string type = "Content-Type: a/b\r\n";
  const std::string length = "Content-Length: 5\r\n";
  EXPECT_EQ(check_head("HTTP/1.0 200 OK\r\n\r\n", 5, {}), "a bad status line");
  EXPECT_EQ(check_head("HTTP/1.1 404 OK\r\n\r\n", 5, {}), "a bad status line");
  EXPECT_EQ(checked(type + "Content-Length: 6\r\n"), "not one Content-Length of the body");
  EXPECT_EQ(checked(type), "not one Content-Length of the body");
  EXPECT_EQ(checked(type + length + length), "not one Content-Length of the body");
  EXPECT_EQ(checked(length), "not one Date and one Content-Type");
  EXPECT_EQ(checked(type + length + std::string(date)), "not one Date and one Content-Type");
  EXPECT_EQ(checked(type + length + "Date: today\r\n"), "a bad Date");
  EXPECT_EQ(checked(type + length + "Transfer-Encoding: chunked\r\n"), "a Transfer-Encoding");
  EXPECT_EQ(checked(type + length + "X : y\r\n"), "a bad field");
  EXPECT_EQ(checked(type + length + "X\r\n"), "a bad field");
  EXPECT_EQ(checked(type + length + "X: a\nb\r\n"), "a bad value");
  EXPECT_EQ(checked(type + length, true), "no `Connection: close`");
  EXPECT_EQ(checked(type + length + "Connection: close\r\n"), "an unexpected `Connection: close`");
}

TEST(AnswerReader, ReadsAnswersInPiecesOfAnySize) {
  std::string answers;
  for (int i = 0; i < 4; ++i) answers += good() + "hello";
  for (std::size_t piece = 1; piece <= answers.size(); ++piece) {
    head_checker heads({});
    answer_reader reader("hello");
    std::size_t complete = 0;
    for (std::size_t at = 0; at < answers.size(); at += piece) {
      complete += reader.read(std::string_view(answers).substr(at, piece), 4 - complete, heads);
    }
    EXPECT_EQ(complete, 4U) << piece;
    EXPECT_TRUE(reader.between()) << piece;
    EXPECT_EQ(reader.mistake(), "") << piece;
  }
}

TEST(AnswerReader, TellsABodyThatDiffersInAnyByte) {
  for (std::size_t at = 0; at < 5; ++at) {
    head_checker heads({});
    answer_reader reader("hello");
    std::string answer = good() + "hello";
    answer[good().size() + at] = 'x';
    EXPECT_EQ(reader.read(answer, 1, heads), 0U);
    EXPECT_EQ(reader.mistake(), "a body that differs");
  }
}

TEST(AnswerReader, TellsSurplusAnswers) {
  head_checker heads({});
  answer_reader reader("hello");
  const std::string answers = good() + "hello" + good() + "hello";
  EXPECT_EQ(reader.read(answers, 1, heads), 1U);
  EXPECT_EQ(reader.mistake(), "bytes that nothing has asked for");
}

TEST(AnswerReader, LimitsHeads) {
  head_checker heads({});
  answer_reader reader("hello");
  const std::string endless(10'000, 'a');
  EXPECT_EQ(reader.read(endless, 1, heads), 0U);
  EXPECT_EQ(reader.mistake(), "a head of 8 KiB");
}

TEST(AnswerReader, ChecksAHeadThatIsOtherThanTheLast) {
  head_checker heads({});
  answer_reader reader("hello");
  EXPECT_EQ(reader.read(good() + "hello", 1, heads), 1U);
  EXPECT_EQ(reader.read(head("Content-Type: a/b\r\nContent-Length: 4\r\n"), 1, heads), 0U);
  EXPECT_EQ(reader.mistake(), "not one Content-Length of the body");
}

}  // namespace
}  // namespace lab::http
