// SPDX-License-Identifier: Apache-2.0
// Tests of the bound of a pool. That no interleaving loses a blocked thread is for its model test
// to show.
#include <gyre/exec/detail/places.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <limits>
#include <thread>
#include <vector>

namespace {

using namespace std::chrono_literals;
using gyre::steady_time;
using gyre::detail::admission;
using gyre::detail::places;

constexpr steady_time for_ever = steady_time::max();
constexpr steady_time long_ago{};

TEST(Places, AreTakenAllOrNoneAndGivenBack) {
  places room(10);
  EXPECT_EQ(room.capacity(), 10U);
  EXPECT_EQ(room.free(), 10U);
  EXPECT_TRUE(room.take(7));
  EXPECT_FALSE(room.take(4));
  EXPECT_EQ(room.free(), 3U) << "a refused request takes none";
  EXPECT_TRUE(room.take(3));
  EXPECT_FALSE(room.take(1));
  room.give_back(10);
  EXPECT_TRUE(room.take(10));
}

TEST(Places, AreTakenAsFarAsTheyGo) {
  places room(10);
  EXPECT_EQ(room.take_some(7), 7U);
  EXPECT_EQ(room.take_some(7), 3U);
  EXPECT_EQ(room.take_some(7), 0U);
  EXPECT_EQ(room.free(), 0U);
}

TEST(Places, AreTakenInChunksThatLeaveSmallCapacitiesExact) {
  EXPECT_EQ(places(1).chunk(), 1U);
  EXPECT_EQ(places(511).chunk(), 1U);
  EXPECT_EQ(places(512).chunk(), 2U);
  EXPECT_EQ(places(4096).chunk(), 16U);
  EXPECT_EQ(places(1 << 16).chunk(), 64U);
  EXPECT_EQ(places(1 << 20).chunk(), 64U);
}

TEST(Places, ThereMayBeAsManyAsAnybodyWants) {
  places room(std::numeric_limits<std::size_t>::max());
  EXPECT_GE(room.capacity(), std::size_t{1} << 39);
  EXPECT_EQ(room.free(), room.capacity());
  EXPECT_TRUE(room.take(room.capacity()));
  room.give_back(room.capacity());
  EXPECT_EQ(room.free(), room.capacity());
}

TEST(Places, WaitingEndsAtTheDeadline) {
  places room(1);
  ASSERT_TRUE(room.take(1));
  const auto attempt = [&] { return room.take(1); };
  EXPECT_EQ(room.wait_until(long_ago, attempt), admission::timed_out);
  const steady_time deadline = gyre::detail::monotonic_now() + 10ms;
  EXPECT_EQ(room.wait_until(deadline, attempt), admission::timed_out);
  EXPECT_GE(gyre::detail::monotonic_now(), deadline);
}

TEST(Places, AFreePlaceIsGrantedEvenAfterTheDeadlineOrTheEnd) {
  places room(2);
  const auto attempt = [&] { return room.take(1); };
  EXPECT_EQ(room.wait_until(long_ago, attempt), admission::granted);
  room.close();
  EXPECT_EQ(room.wait_until(for_ever, attempt), admission::granted);
  EXPECT_EQ(room.wait_until(for_ever, attempt), admission::closed);
}

TEST(Places, ClosingLetsAllGoWhoWait) {
  places room(1);
  ASSERT_TRUE(room.take(1));
  std::atomic<int> attempts{0};
  {
    std::vector<std::jthread> waiting;
    for (int i = 0; i < 4; ++i) {
      waiting.emplace_back([&] {
        const auto attempt = [&] {
          ++attempts;
          return room.take(1);
        };
        EXPECT_EQ(room.wait_until(for_ever, attempt), admission::closed);
      });
    }
    while (attempts < 4) std::this_thread::yield();
    room.close();
  }
  EXPECT_EQ(room.free(), 0U);
}

// Nobody gives the place back here, as when it lay with a thread that ends.
TEST(Places, WhoWaitsLooksAgainByItself) {
  places room(1);
  ASSERT_TRUE(room.take(1));
  std::atomic<int> attempts{0};
  std::jthread waiting([&] {
    EXPECT_EQ(room.wait_until(for_ever, [&] { return ++attempts == 4; }), admission::granted);
  });
}

class PlacesUnderLoad : public testing::TestWithParam<std::size_t> {};

TEST_P(PlacesUnderLoad, NeverMoreAreTakenThanThereAreAndNobodyIsForgotten) {
  places room(GetParam());
  constexpr int visits = 2000;
  std::atomic<std::size_t> inside{0};
  std::atomic<std::size_t> most{0};
  {
    std::vector<std::jthread> visitors;
    for (int i = 0; i < 4; ++i) {
      visitors.emplace_back([&] {
        for (int visit = 0; visit < visits; ++visit) {
          std::size_t taken = 0;
          const auto attempt = [&] {
            taken = room.take_some(GetParam() / 2 + 1);
            return taken > 0;
          };
          ASSERT_EQ(room.wait_until(for_ever, attempt), admission::granted);
          const std::size_t now = inside += taken;
          std::size_t seen = most;
          while (seen < now && !most.compare_exchange_weak(seen, now)) {
          }
          inside -= taken;
          room.give_back(taken);
        }
      });
    }
  }
  EXPECT_EQ(inside, 0U);
  EXPECT_LE(most, GetParam());
  EXPECT_EQ(room.free(), GetParam());
}

INSTANTIATE_TEST_SUITE_P(NarrowAndWide, PlacesUnderLoad, testing::Values(1, 3, places::wide));

}  // namespace
