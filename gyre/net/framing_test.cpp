// SPDX-License-Identifier: Apache-2.0
// Tests of the framings. tests/fuzz/framing.cpp cuts streams in all ways besides.
#include <gyre/net/framing.hpp>

#include <gyre/exec/loop.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/net/read_frame.hpp>
#include <gyre/task/as_expected.hpp>
#include <gyre/task/schedule.hpp>
#include <gyre/task/when_all.hpp>

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace framing_test {
namespace {

using namespace std::string_view_literals;
using gyre::io::buffer;
using gyre::io::input;
using gyre::net::delimited;
using gyre::net::fixed;
using gyre::net::for_each_frame;
using gyre::net::length_prefixed;

std::string text_of(std::span<const std::byte> bytes) { return std::string(input(bytes).text()); }

template <class Framing>
std::vector<std::string> frames_of(Framing& framing, input& in) {
  std::vector<std::string> frames;
  EXPECT_EQ(for_each_frame(framing, in, [&](auto frame) { frames.push_back(text_of(frame)); }),
            std::error_code());
  return frames;
}

template <class F>
std::error_code error_of(F&& function) {
  try {
    function();
  } catch (const std::system_error& error) {
    return error.code();
  }
  return {};
}

using texts = std::vector<std::string>;

TEST(LengthPrefixed, DecodesWhatItEncodesInEveryLayout) {
  const std::string long_text(200, 'x');
  for (const std::size_t width : {1U, 2U, 4U, 8U}) {
    for (const std::endian order : {std::endian::big, std::endian::little}) {
      for (const bool counts_itself : {false, true}) {
        length_prefixed framing({.width = width, .order = order, .counts_itself = counts_itself});
        buffer stream;
        framing.encode(stream, "one"sv);
        framing.encode(stream, ""sv);
        framing.encode(stream, long_text);
        EXPECT_EQ(stream.size(), 3 * width + 203);
        EXPECT_EQ(frames_of(framing, stream), (texts{"one", "", long_text}));
        EXPECT_TRUE(stream.empty());
      }
    }
  }
}

TEST(LengthPrefixed, LaysTheLengthOutAsAsked) {
  buffer stream;
  length_prefixed({.width = 2}).encode(stream, "ab"sv);
  length_prefixed({.width = 2, .order = std::endian::little}).encode(stream, "ab"sv);
  length_prefixed({.width = 2, .counts_itself = true}).encode(stream, "ab"sv);
  length_prefixed().encode(stream, ""sv);
  EXPECT_EQ(stream.text(), "\0\2ab\2\0ab\0\4ab\0\0\0\0"sv);
}

TEST(LengthPrefixed, WaitsForTheWholeFrameAndConsumesNothingBefore) {
  length_prefixed framing({.width = 2});
  const std::string_view stream = "\0\3abc"sv;
  for (std::size_t there = 0; there < stream.size(); ++there) {
    input in(stream.substr(0, there));
    const auto frame = framing.decode(in);
    ASSERT_TRUE(frame.has_value());
    EXPECT_EQ(*frame, std::nullopt);
    EXPECT_EQ(in.size(), there);
  }
}

TEST(LengthPrefixed, TheFrameLiesInTheInput) {
  const std::string_view stream = "\0\3abcd"sv;
  input in(stream);
  const auto frame = length_prefixed({.width = 2}).decode(in);
  ASSERT_TRUE(frame && *frame);
  EXPECT_EQ(static_cast<const void*>((*frame)->data()), stream.data() + 2);
  EXPECT_EQ(in.text(), "d");
}

TEST(LengthPrefixed, RefusesLengthsBeyondTheMaximumBeforeTheyCome) {
  length_prefixed framing({.width = 4, .maximum = 5});
  input five("\0\0\0\5"sv);
  EXPECT_TRUE(framing.decode(five).has_value());
  input six("\0\0\0\6"sv);
  for (int times = 0; times < 2; ++times) {
    const auto frame = framing.decode(six);
    ASSERT_FALSE(frame.has_value());
    EXPECT_EQ(frame.error(), std::errc::message_size);
  }
  input huge("\xff\xff\xff\xff\xff\xff\xff\xff"sv);
  constexpr auto any = std::numeric_limits<std::size_t>::max();
  const auto waits = length_prefixed({.width = 8, .maximum = any}).decode(huge);
  EXPECT_TRUE(waits.has_value());
}

TEST(LengthPrefixed, RefusesALengthThatDoesNotCountItself) {
  length_prefixed framing({.width = 2, .counts_itself = true});
  input in("\0\1a"sv);
  const auto frame = framing.decode(in);
  ASSERT_FALSE(frame.has_value());
  EXPECT_EQ(frame.error(), std::errc::bad_message);
  EXPECT_EQ(frame.error(), gyre::io::errc::bad_frame_length);
}

TEST(LengthPrefixed, RefusesPayloadsThatTheLengthCannotTell) {
  buffer out;
  const length_prefixed byte({.width = 1});
  byte.encode(out, std::string(255, 'x'));
  const std::size_t before = out.size();
  EXPECT_EQ(error_of([&] { byte.encode(out, std::string(256, 'x')); }), std::errc::message_size);
  const length_prefixed itself({.width = 1, .counts_itself = true});
  itself.encode(out, std::string(254, 'x'));
  EXPECT_EQ(error_of([&] { itself.encode(out, std::string(255, 'x')); }), std::errc::message_size);
  const length_prefixed small({.maximum = 3});
  EXPECT_EQ(error_of([&] { small.encode(out, "four"sv); }), std::errc::message_size);
  EXPECT_EQ(out.size(), before + 255);
}

TEST(LengthPrefixed, MakesAFrameOfABufferInPlace) {
  for (const std::size_t width : {1U, 2U, 4U, 8U}) {
    length_prefixed framing({.width = width});
    buffer message;
    message.append("hello"sv);
    const std::byte* const place = message.data();
    framing.encode_in_place(message);
    EXPECT_EQ(message.data() + width, place);
    EXPECT_EQ(frames_of(framing, message), texts{"hello"});
  }
}

TEST(LengthPrefixed, HasWidthsOfIntegersOnly) {
  for (const std::size_t width : {0U, 3U, 16U}) {
    EXPECT_THROW(length_prefixed({.width = width}), std::invalid_argument);
  }
}

TEST(Delimited, DecodesLinesAndLeavesTheRest) {
  delimited lines("\r\n");
  buffer stream;
  stream.append("one\r\n\r\ntw\ro\nthree\r\nrest\r"sv);
  EXPECT_EQ(frames_of(lines, stream), (texts{"one", "", "tw\ro\nthree"}));
  EXPECT_EQ(stream.text(), "rest\r");
  stream.append("\n"sv);
  EXPECT_EQ(frames_of(lines, stream), texts{"rest"});
}

TEST(Delimited, DecodesWhatComesByteByByte) {
  delimited framing("--END--");
  buffer stream;
  texts frames;
  for (const char c : "a--END-b--END----END--c--E--END--"sv) {
    stream.append(c);
    for (std::string& frame : frames_of(framing, stream)) frames.push_back(std::move(frame));
  }
  EXPECT_EQ(frames, (texts{"a--END-b", "", "c--E"}));
  EXPECT_TRUE(stream.empty());
}

TEST(Delimited, RefusesFramesBeyondTheMaximumHoweverTheyCome) {
  for (const std::string_view stream : {"12345\r\n"sv, "12345\r\n\r\n"sv, "123456789"sv}) {
    for (std::size_t first = 0; first <= stream.size(); ++first) {
      delimited lines("\r\n", 4);
      buffer in;
      in.append(stream.substr(0, first));
      auto frame = lines.decode(in);
      if (frame) {
        EXPECT_EQ(*frame, std::nullopt);
        in.append(stream.substr(first));
        frame = lines.decode(in);
      }
      ASSERT_FALSE(frame.has_value()) << stream << ' ' << first;
      EXPECT_EQ(frame.error(), std::errc::message_size);
      EXPECT_FALSE(lines.decode(in).has_value());
    }
  }
  delimited lines("\r\n", 4);
  input most("1234\r\n"sv);
  EXPECT_EQ(frames_of(lines, most), texts{"1234"});
}

// Each byte of a long line is searched once: searching all bytes again after each arrival would
// take minutes.
TEST(Delimited, LookingForTheEndOfALongFrameIsLinear) {
  constexpr std::size_t length = 2'000'000;
  delimited lines("\n", length);
  const std::string text(length, 'x');
  for (std::size_t there = 1; there < length; ++there) {
    input in(std::string_view(text).substr(0, there));
    ASSERT_TRUE(lines.decode(in).has_value());
  }
}

TEST(Delimited, SearchesFromTheFrontAgainAfterARestart) {
  delimited lines("\n");
  input first("0123456789"sv);
  EXPECT_TRUE(lines.decode(first).has_value());
  lines.restart();
  input other("a\nb\n01234567890"sv);
  EXPECT_EQ(frames_of(lines, other), (texts{"a", "b"}));
}

TEST(Delimited, RefusesPayloadsThatWouldEndEarly) {
  buffer out;
  const delimited lines("\r\n", 10);
  lines.encode(out, "GET /"sv);
  EXPECT_EQ(error_of([&] { lines.encode(out, "a\r\nb"sv); }), std::errc::invalid_argument);
  EXPECT_EQ(error_of([&] { lines.encode(out, "12345678901"sv); }), std::errc::message_size);
  lines.encode(out, "a\r"sv);
  const delimited overlapping("aa");
  EXPECT_EQ(error_of([&] { overlapping.encode(out, "ba"sv); }), std::errc::invalid_argument);
  EXPECT_EQ(out.text(), "GET /\r\na\r\r\n");

  delimited decoder("\r\n");
  EXPECT_EQ(frames_of(decoder, out), (texts{"GET /", "a\r"}));
  EXPECT_THROW(delimited(""), std::invalid_argument);
}

TEST(Fixed, DecodesWhatItEncodes) {
  fixed framing(3);
  buffer stream;
  framing.encode(stream, "abc"sv);
  framing.encode(stream, "def"sv);
  stream.append("gh"sv);
  EXPECT_EQ(frames_of(framing, stream), (texts{"abc", "def"}));
  EXPECT_EQ(stream.text(), "gh");
  EXPECT_EQ(error_of([&] { framing.encode(stream, "four"sv); }), std::errc::message_size);
  EXPECT_EQ(error_of([&] { framing.encode(stream, "four"sv); }), gyre::io::errc::wrong_frame_size);
  EXPECT_THROW(fixed(0), std::invalid_argument);
}

TEST(Framing, EncodesWhatIsInTheBufferAlready) {
  const std::string text(3000, 'a');
  for (int times = 0; times < 8; ++times) {  // so that the buffer moves its bytes more than once
    gyre::io::buffer out;
    out.append(std::string(static_cast<std::size_t>(times) * 100, '-') + text);
    const std::size_t front = out.size() - text.size();
    length_prefixed({.width = 2}).encode(out, out.bytes().subspan(front));
    EXPECT_EQ(out.text().substr(front + text.size()), "\x0b\xb8" + text);
    for (int doubled = 0; doubled < 3; ++doubled) {
      delimited("\n").encode(out, out.bytes().subspan(front, text.size()));
      EXPECT_TRUE(out.text().ends_with(text + text + "\n") ||
                  out.text().ends_with("\n" + text + "\n"));
    }
  }
}

// Writes the text into a pipe, piece by piece, and returns the frames and the final error.
std::vector<std::string> frames_of(const std::vector<std::string>& pieces, std::error_code& end) {
  gyre::loop loop;
  gyre::io::pipe ends = gyre::io::make_pipe(loop);
  std::vector<std::string> found;
  const auto read_all = [&]() -> gyre::task<> {
    delimited lines("\r\n", 16);
    gyre::io::buffer held;
    for (;;) {
      auto reading = gyre::net::read_frame(ends.read_end, lines, held);
      const auto line = co_await gyre::as_expected(std::move(reading));
      if (!line) {
        end = line.error();
        co_return;
      }
      if (!*line) co_return;
      found.emplace_back(reinterpret_cast<const char*>((*line)->data()), (*line)->size());
    }
  };
  const auto write_all = [&]() -> gyre::task<> {
    for (const std::string& piece : pieces) {
      co_await ends.write_end.write_all(piece);
      co_await gyre::yield();
    }
    ends.write_end.close();
  };
  auto both = gyre::when_all(read_all(), write_all());
  gyre::sync_wait(loop, std::move(both));
  return found;
}

TEST(ReadFrame, GivesMessagesHoweverTheyCome) {
  std::error_code end;
  EXPECT_EQ(frames_of({"one\r\ntwo\r", "\n", "\r\nthree\r\n"}, end),
            (std::vector<std::string>{"one", "two", "", "three"}));
  EXPECT_FALSE(end);
}

TEST(ReadFrame, TellsOfAStreamThatEndsWithinAMessage) {
  std::error_code end;
  EXPECT_EQ(frames_of({"one\r\ntw"}, end), std::vector<std::string>{"one"});
  EXPECT_EQ(end, gyre::io::errc::unexpected_end);
}

gyre::task<std::vector<std::string>> read_lines(gyre::io::stream& from, gyre::io::buffer& held) {
  delimited lines("\n");
  std::vector<std::string> found;
  for (;;) {
    auto reading = gyre::net::read_frame(from, lines, held);
    const auto line = co_await std::move(reading);
    if (!line) co_return found;
    found.push_back(text_of(*line));
  }
}

// Regression: small frames that arrived together exceeded the buffer.
TEST(ReadFrame, TakesManyFramesThatComeAtOnceWithinALimitOfAFew) {
  gyre::loop loop;
  auto ends = gyre::io::make_pipe(loop);
  gyre::io::buffer held({.max_size = 16});
  std::string sent;
  std::vector<std::string> expected;
  for (int i = 0; i < 1000; ++i) {
    expected.push_back(std::to_string(i));
    sent += expected.back() + '\n';
  }
  gyre::sync_wait(loop, ends.write_end.write_all(sent));
  ends.write_end.close();
  EXPECT_EQ(gyre::sync_wait(loop, read_lines(ends.read_end, held)), expected);
}

TEST(ReadFrame, TellsOfAFrameThatTheBufferMayNotHoldByAnErrorCode) {
  gyre::loop loop;
  auto ends = gyre::io::make_pipe(loop);
  gyre::io::buffer held({.max_size = 16});
  gyre::sync_wait(loop, ends.write_end.write_all("short\nlonger than sixteen bytes\n"));
  const auto read = gyre::sync_wait(loop, gyre::as_expected(read_lines(ends.read_end, held)));
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error(), gyre::io::errc::limit_exceeded);
  EXPECT_EQ(held.text(), "longer than sixt") << "nothing is lost";
}

TEST(ReadFrame, TellsOfAMessageThatIsTooLong) {
  std::error_code end;
  EXPECT_TRUE(frames_of({std::string(64, 'x')}, end).empty());
  EXPECT_EQ(end, std::errc::message_size);
  EXPECT_EQ(end, gyre::io::errc::frame_too_long);
}

}  // namespace
}  // namespace framing_test
