// SPDX-License-Identifier: Apache-2.0
// Tests of the queue of pending output.
#include <gyre/io/output_queue.hpp>

#include <gyre/base/slab.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace output_queue_test {
namespace {

using namespace std::string_view_literals;
using gyre::io::buffer;
using gyre::io::output_queue;

// A text without repetitions, so that missing or duplicated pieces are noticed.
std::string text_of(std::size_t size) {
  std::string text;
  while (text.size() < size) text += std::to_string(text.size()) + ' ';
  text.resize(size);
  return text;
}

std::vector<iovec> pieces_of(const output_queue& queue) {
  std::vector<iovec> pieces(1024);
  pieces.resize(queue.gather(pieces));
  return pieces;
}

std::string_view text_in(const iovec& piece) {
  return {static_cast<const char*>(piece.iov_base), piece.iov_len};
}

std::string text_in(const output_queue& queue) {
  std::string text;
  for (const iovec& piece : pieces_of(queue)) text += text_in(piece);
  return text;
}

TEST(OutputQueue, CostsThreeWordsAndNoMemoryWhileItIsEmpty) {
  EXPECT_LE(sizeof(output_queue), 3 * sizeof(void*));
  const std::size_t before = gyre::read_slab_stats().blocks_in_use;
  output_queue queue;
  queue.append(""sv);
  queue.append(buffer());
  EXPECT_EQ(gyre::read_slab_stats().blocks_in_use, before);
  queue.append("x"sv);
  EXPECT_GT(gyre::read_slab_stats().blocks_in_use, before);
  queue.consume(1);
  EXPECT_EQ(gyre::read_slab_stats().blocks_in_use, before);
  EXPECT_TRUE(pieces_of(queue).empty());
}

TEST(OutputQueue, GivesTheBytesInOrder) {
  output_queue queue;
  std::string expected;
  for (const std::size_t size : {1UZ, 100UZ, 4096UZ, 5000UZ, 3UZ, 300'000UZ, 0UZ, 70'000UZ}) {
    queue.append(text_of(size));
    expected += text_of(size);
    EXPECT_EQ(queue.size(), expected.size());
  }
  EXPECT_EQ(text_in(queue), expected);
}

TEST(OutputQueue, ConsumesAcrossChunksByAnyAmount) {
  for (const std::size_t step : {1UZ, 7UZ, 4096UZ, 65'537UZ, 400'000UZ}) {
    output_queue queue;
    std::string expected = text_of(step < 10 ? 10'000 : 400'000);
    queue.append(std::string_view(expected).substr(0, 5000));
    queue.append(std::string_view(expected).substr(5000));
    while (!queue.empty()) {
      const std::size_t count = std::min(step, queue.size());
      const std::string_view first = text_in(pieces_of(queue).front());
      ASSERT_EQ(first, std::string_view(expected).substr(0, first.size()));
      queue.consume(count);
      expected.erase(0, count);
      ASSERT_EQ(queue.size(), expected.size());
    }
    EXPECT_TRUE(expected.empty());
  }
}

TEST(OutputQueue, SmallPiecesShareChunks) {
  output_queue queue;
  for (int i = 0; i < 100'000; ++i) queue.append("0123456789"sv);
  EXPECT_LE(pieces_of(queue).size(), 14U);  // 4 KiB, 4, 8, … 256 KiB
}

TEST(OutputQueue, LargeOnesAreCutIntoChunksOfBoundedSize) {
  output_queue queue;
  queue.append(std::string(std::size_t{1} << 20, 'x'));
  const std::vector<iovec> pieces = pieces_of(queue);
  EXPECT_EQ(pieces.size(), 4U);
  for (const iovec& piece : pieces) EXPECT_EQ(piece.iov_len, std::size_t{256} << 10);
}

TEST(OutputQueue, AppendingDoesNotMoveWhatWaits) {
  output_queue queue;
  queue.append("in flight"sv);
  const iovec before = pieces_of(queue).front();
  for (int i = 0; i < 1000; ++i) queue.append(text_of(100));
  const iovec after = pieces_of(queue).front();
  EXPECT_EQ(before.iov_base, after.iov_base);
  EXPECT_EQ(text_in(before), "in flight");
}

TEST(OutputQueue, GathersAsManyPiecesAsThereIsRoomFor) {
  output_queue queue;
  queue.append(std::string(std::size_t{1} << 20, 'x'));
  std::array<iovec, 3> pieces{};
  EXPECT_EQ(queue.gather(pieces), 3U);
  EXPECT_EQ(queue.gather({}), 0U);
}

TEST(OutputQueue, TakesOverTheMemoryOfALargeBuffer) {
  buffer page;
  page.append(text_of(10'000));
  const std::byte* const place = page.data();
  output_queue queue;
  queue.append("header "sv);
  queue.append(std::move(page));
  EXPECT_TRUE(page.empty());
  EXPECT_EQ(page.capacity(), 0U);
  queue.append(" trailer"sv);
  EXPECT_EQ(pieces_of(queue)[1].iov_base, place);
  EXPECT_EQ(text_in(queue), "header " + text_of(10'000) + " trailer");
}

TEST(OutputQueue, CopiesABufferThatIsSmallOrMostlyUnused) {
  buffer small;
  small.append("small"sv);
  buffer unused;
  unused.append(std::string(1'000'000, 'x'));
  unused.consume(995'000);
  output_queue queue;
  queue.append(std::move(small));
  queue.append(std::move(unused));
  EXPECT_TRUE(small.empty());
  EXPECT_TRUE(unused.empty());
  EXPECT_GE(unused.capacity(), 1'000'000U);
  EXPECT_EQ(text_in(queue), "small" + std::string(5000, 'x'));
}

TEST(OutputQueue, MovesAndJoins) {
  output_queue first;
  first.append("one "sv);
  output_queue second(std::move(first));
  EXPECT_TRUE(first.empty());
  first.append("two"sv);
  second.append(std::move(first));
  EXPECT_TRUE(first.empty());
  EXPECT_EQ(text_in(second), "one two");
  first.append(std::move(second));
  EXPECT_EQ(text_in(first), "one two");
  first = output_queue();
  EXPECT_TRUE(first.empty());
  first.append("three"sv);
  first.clear();
  EXPECT_EQ(first.size(), 0U);
  EXPECT_TRUE(pieces_of(first).empty());
}

}  // namespace
}  // namespace output_queue_test
