// SPDX-License-Identifier: Apache-2.0
// Tests of the read side of received bytes, and of the buffer that owns them.
#include <gyre/io/buffer.hpp>
#include <gyre/io/input.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace input_buffer_test {
namespace {

using namespace std::string_view_literals;
using gyre::io::buffer;
using gyre::io::input;

TEST(Input, ConsumesFromTheFrontAndKeepsTheRest) {
  input in("GET / HTTP"sv);
  EXPECT_EQ(in.size(), 10U);
  in.consume(4);
  EXPECT_EQ(in.text(), "/ HTTP");
  const std::span<const std::byte> taken = in.take(1);
  ASSERT_EQ(taken.size(), 1U);
  EXPECT_EQ(taken[0], std::byte{'/'});
  EXPECT_EQ(in.text(), " HTTP");
  in.consume_all();
  EXPECT_TRUE(in.empty());
}

TEST(Input, FindsBytesAndTextsFromAnOffset) {
  const input in("a\nb\r\nc\r\n"sv);
  EXPECT_EQ(in.find(std::byte{'b'}), 2U);
  EXPECT_EQ(in.find(std::byte{'x'}), input::npos);
  EXPECT_EQ(in.find_eol(), 1U);
  EXPECT_EQ(in.find_eol(2), 4U);
  EXPECT_EQ(in.find_crlf(), 3U);
  EXPECT_EQ(in.find_crlf(4), 6U);
  EXPECT_EQ(in.find_crlf(7), input::npos);
  EXPECT_EQ(in.find("b\r"), 2U);
  EXPECT_EQ(in.find("", 3), 3U);
  EXPECT_EQ(in.find("", 8), 8U);
  EXPECT_EQ(in.find("", 9), input::npos);
  EXPECT_EQ(in.find("a", 100), input::npos);
  EXPECT_EQ(in.find(std::byte{'a'}, 100), input::npos);
}

TEST(Input, WithoutBytesHasNothing) {
  input in;
  EXPECT_TRUE(in.empty());
  EXPECT_EQ(in.text(), "");
  EXPECT_EQ(in.find(std::byte{0}), input::npos);
  EXPECT_EQ(in.find("x"), input::npos);
  EXPECT_EQ(in.read<std::uint8_t>(), std::nullopt);
  in.consume(0);
  EXPECT_TRUE(in.take(0).empty());
}

template <class T>
class InputInteger : public testing::Test {};
using integers = testing::Types<std::uint8_t, std::int8_t, std::uint16_t, std::int16_t,
                                std::uint32_t, std::int32_t, std::uint64_t, std::int64_t>;
TYPED_TEST_SUITE(InputInteger, integers);

TYPED_TEST(InputInteger, IsReadAsItWasWrittenAndOnlyWhenComplete) {
  using limits = std::numeric_limits<TypeParam>;
  for (const TypeParam value :
       {limits::min(), limits::max(), TypeParam{0}, static_cast<TypeParam>(limits::max() / 3)}) {
    buffer written;
    written.append(value);
    buffer prepended;
    prepended.prepend(value);
    EXPECT_EQ(written.text(), prepended.text());

    input in(written.bytes());
    EXPECT_EQ(in.peek<TypeParam>(), value);
    EXPECT_EQ(in.size(), sizeof(TypeParam));
    EXPECT_EQ(in.read<TypeParam>(), value);
    EXPECT_TRUE(in.empty());

    input half(written.bytes().first(sizeof(TypeParam) - 1));
    EXPECT_EQ(half.read<TypeParam>(), std::nullopt);
    EXPECT_EQ(half.size(), sizeof(TypeParam) - 1);
  }
}

TEST(Input, IntegersAreInNetworkOrder) {
  const input in("\x01\x02\x03\x04"sv);
  EXPECT_EQ(in.peek<std::uint32_t>(), 0x01020304U);
  EXPECT_EQ(in.peek<std::uint16_t>(1), 0x0203U);
  EXPECT_EQ(in.peek<std::uint16_t>(3), std::nullopt);
  EXPECT_EQ(in.peek<std::uint8_t>(input::npos), std::nullopt);
}

TEST(Buffer, HoldsNoMemoryUntilItIsUsed) {
  buffer bytes;
  EXPECT_EQ(bytes.capacity(), 0U);
  bytes.append(""sv);
  bytes.clear();
  bytes.shrink_to_fit();
  EXPECT_EQ(bytes.capacity(), 0U);
  EXPECT_TRUE(bytes.empty());
  bytes.append("x"sv);
  EXPECT_GE(bytes.capacity(), 1U);
}

// A buffer with an owning raw pointer and an implicit copy would free its memory twice.
TEST(Buffer, CannotBeCopied) {
  EXPECT_FALSE(std::is_copy_constructible_v<buffer>);
  EXPECT_FALSE(std::is_copy_assignable_v<buffer>);
  EXPECT_TRUE(std::is_nothrow_move_constructible_v<buffer>);
  EXPECT_TRUE(std::is_nothrow_move_assignable_v<buffer>);
}

TEST(Buffer, MovingLeavesTheSourceEmptyAndUsable) {
  buffer source;
  source.append("one"sv);
  buffer target(std::move(source));
  EXPECT_EQ(target.text(), "one");
  EXPECT_TRUE(source.empty());
  EXPECT_EQ(source.capacity(), 0U);

  source.append("two"sv);
  target = std::move(source);
  EXPECT_EQ(target.text(), "two");
  EXPECT_TRUE(source.empty());
  source.prepend("three"sv);
  EXPECT_EQ(source.text(), "three");

  swap(source, target);
  EXPECT_EQ(source.text(), "two");
  EXPECT_EQ(target.text(), "three");

  buffer& same = target;
  target = std::move(same);
  EXPECT_EQ(target.text(), "three");
}

TEST(Buffer, PrependsAHeaderWithoutMovingTheBytes) {
  buffer message;
  message.append("hello"sv);
  const std::byte* const before = message.data();
  EXPECT_EQ(message.front_room(), 8U);
  message.prepend(std::uint64_t{5});
  EXPECT_EQ(message.data() + 8, before);
  EXPECT_EQ(message.front_room(), 0U);
  EXPECT_EQ(message.read<std::uint64_t>(), 5U);
  EXPECT_EQ(message.text(), "hello");
}

TEST(Buffer, PrependsMoreThanThereIsRoomFor) {
  buffer message({.prepend = 0});
  std::string expected;
  for (int i = 0; i < 300; ++i) {
    const std::string piece = std::to_string(i);
    message.prepend(piece);
    expected.insert(0, piece);
    message.append(static_cast<char>(i));
    expected.push_back(static_cast<char>(i));
  }
  EXPECT_EQ(message.text(), expected);
}

TEST(Buffer, PreparedBytesCountOnceCommitted) {
  buffer bytes;
  const std::span<std::byte> room = bytes.prepare(1000);
  ASSERT_EQ(room.size(), 1000U);
  EXPECT_TRUE(bytes.empty());
  std::ranges::fill(room, std::byte{'a'});
  bytes.commit(600);
  EXPECT_EQ(bytes.text(), std::string(600, 'a'));
  bytes.mutable_bytes()[0] = std::byte{'b'};
  EXPECT_EQ(bytes.text()[0], 'b');
}

TEST(Buffer, UsesWhatWasConsumedBeforeItGrows) {
  buffer bytes;
  bytes.reserve(4000);
  const std::size_t capacity = bytes.capacity();
  bytes.append(std::string(capacity, 'a'));
  bytes.consume(capacity - 100);
  bytes.append(std::string(capacity - 100, 'b'));
  EXPECT_EQ(bytes.capacity(), capacity);
  EXPECT_EQ(bytes.text(), std::string(100, 'a') + std::string(capacity - 100, 'b'));

  bytes.consume_all();
  bytes.append(std::string(capacity, 'c'));
  EXPECT_EQ(bytes.capacity(), capacity);
}

// One byte in and one byte out of a full buffer must not move all the others each time.
TEST(Buffer, MemoryOfAQueueStaysWithinTwiceItsLength) {
  buffer queue;
  constexpr std::size_t length = 10'000;
  queue.append(std::string(length, 'x'));
  const std::byte* place = nullptr;
  int moves = 0;
  for (std::size_t i = 0; i < 10 * length; ++i) {
    queue.append('y');
    if (queue.data() != place) ++moves;
    queue.consume(1);
    place = queue.data();
  }
  EXPECT_EQ(queue.size(), length);
  EXPECT_LE(queue.capacity(), 2 * length + 512);
  EXPECT_LE(moves, 15);
}

TEST(Buffer, ReserveIsEnoughForAsManyBytes) {
  buffer bytes;
  bytes.append("12345678"sv);
  bytes.reserve(100'000);
  const std::byte* const place = bytes.data();
  while (bytes.size() < 100'000) bytes.append(std::uint64_t{1});
  EXPECT_EQ(bytes.data(), place);
  bytes.reserve(10);
  EXPECT_EQ(bytes.data(), place);
}

TEST(Buffer, ShrinkingGivesMemoryBackAndKeepsTheBytes) {
  buffer bytes;
  bytes.append(std::string(100'000, 'x'));
  bytes.consume(99'000);
  bytes.shrink_to_fit();
  EXPECT_LT(bytes.capacity(), 2000U);
  EXPECT_EQ(bytes.text(), std::string(1000, 'x'));
  EXPECT_EQ(bytes.front_room(), 8U);
  bytes.consume_all();
  bytes.shrink_to_fit();
  EXPECT_EQ(bytes.capacity(), 0U);
}

TEST(Buffer, ClearKeepsTheMemoryAndThePrependSpace) {
  buffer bytes;
  bytes.append("12345"sv);
  bytes.prepend("678"sv);
  const std::size_t capacity = bytes.capacity();
  bytes.clear();
  EXPECT_TRUE(bytes.empty());
  EXPECT_EQ(bytes.capacity(), capacity);
  EXPECT_EQ(bytes.front_room(), 8U);
}

TEST(Buffer, TakesBytesOfItsOwn) {
  buffer bytes;
  bytes.append(std::string(300, 'a') + std::string(200, 'b'));
  std::string expected(bytes.text());
  for (int i = 0; i < 5; ++i) {
    bytes.append(bytes.text().substr(250, 100));
    expected += expected.substr(250, 100);
    bytes.append(bytes.bytes());
    expected += expected;
    bytes.prepend(bytes.text().substr(10, 300));
    expected.insert(0, expected.substr(10, 300));
    EXPECT_EQ(bytes.text(), expected);
  }
}

TEST(Buffer, TakesConsumedBytesOfItsOwn) {
  const std::string text = std::string(300, 'a') + std::string(200, 'b');
  for (const std::size_t consumed : {10U, 250U, 400U, 500U}) {
    for (const std::size_t count : {5U, 10U, 300U, 500U}) {
      for (const bool in_front : {false, true}) {
        buffer bytes({.prepend = 0});
        bytes.append(text);
        const std::string_view own = bytes.text().substr(0, count);
        bytes.consume(consumed);
        in_front ? bytes.prepend(own) : bytes.append(own);
        const std::string added = text.substr(0, count);
        const std::string rest = text.substr(consumed);
        EXPECT_EQ(bytes.text(), in_front ? added + rest : rest + added);
      }
    }
  }
}

TEST(Buffer, BeyondItsLargestSizeThrowsAndChangesNothing) {
  buffer bytes({.max_size = 10});
  bytes.append("12345678"sv);
  EXPECT_THROW(bytes.append("abc"sv), std::length_error);
  EXPECT_THROW(bytes.append(std::uint32_t{1}), std::length_error);
  EXPECT_THROW(bytes.prepend("abc"sv), std::length_error);
  EXPECT_THROW(bytes.prepend(std::uint64_t{1}), std::length_error);
  EXPECT_THROW(static_cast<void>(bytes.prepare(3)), std::length_error);
  EXPECT_THROW(bytes.reserve(11), std::length_error);
  EXPECT_THROW(bytes.reserve(std::numeric_limits<std::size_t>::max()), std::length_error);
  EXPECT_EQ(bytes.text(), "12345678");
  bytes.append("9"sv);
  bytes.prepend("0"sv);
  EXPECT_EQ(bytes.text(), "0123456789");
  bytes.consume(5);
  bytes.append("abcde"sv);
  EXPECT_EQ(bytes.text(), "56789abcde");

  buffer moved(std::move(bytes));
  EXPECT_EQ(bytes.max_size(), 10U);
  EXPECT_EQ(moved.max_size(), 10U);
}

TEST(Buffer, PrependSpaceMayBeLarge) {
  buffer bytes({.prepend = 10'000});
  bytes.append("x"sv);
  EXPECT_EQ(bytes.front_room(), 10'000U);
  bytes.prepend(std::string(10'000, 'h'));
  EXPECT_EQ(bytes.size(), 10'001U);
  EXPECT_EQ(bytes.text().back(), 'x');
}

TEST(Buffer, IsReadAsAnInput) {
  buffer bytes;
  bytes.append("line one\r\nline"sv);
  input& in = bytes;
  const std::size_t end = in.find_crlf();
  ASSERT_EQ(end, 8U);
  in.consume(end + 2);
  bytes.append(" two"sv);
  EXPECT_EQ(in.text(), "line two");
}

}  // namespace
}  // namespace input_buffer_test
