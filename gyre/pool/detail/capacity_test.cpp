// SPDX-License-Identifier: Apache-2.0
// Tests of the bound of a pool. That no interleaving loses a blocked thread is for its model test
// to show.
#include <gyre/pool/detail/places.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <limits>
#include <thread>
#include <utility>
#include <vector>

namespace places_test {
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

constexpr auto nothing_to_look_for = [] {};

class PlacesInLine : public testing::TestWithParam<std::size_t> {};

TEST_P(PlacesInLine, AreNotWaitedForBeyondTheDeadline) {
  places room(GetParam());
  ASSERT_TRUE(room.take(GetParam()));
  EXPECT_EQ(room.wait_until(long_ago, 1, nothing_to_look_for).how, admission::timed_out);
  const steady_time deadline = gyre::detail::monotonic_now() + 10ms;
  EXPECT_EQ(room.wait_until(deadline, 1, nothing_to_look_for).how, admission::timed_out);
  EXPECT_GE(gyre::detail::monotonic_now(), deadline);
  room.give_back(1);
  EXPECT_TRUE(room.take(1)) << "nobody is left in the line";
}

TEST(Places, AFreePlaceIsGrantedEvenAfterTheDeadlineOrTheEnd) {
  places room(2);
  EXPECT_EQ(room.wait_until(long_ago, 1, nothing_to_look_for).how, admission::granted);
  room.close();
  EXPECT_EQ(room.wait_until(for_ever, 1, nothing_to_look_for).how, admission::granted);
  EXPECT_EQ(room.wait_until(for_ever, 1, nothing_to_look_for).how, admission::closed);
}

TEST(Places, ClosingLetsAllGoWhoWait) {
  places room(1);
  ASSERT_TRUE(room.take(1));
  std::atomic<int> looks{0};
  {
    std::vector<std::jthread> waiting;
    for (int i = 0; i < 4; ++i) {
      waiting.emplace_back([&] {
        bool first = true;
        const auto look = [&] { looks += std::exchange(first, false) ? 1 : 0; };
        EXPECT_EQ(room.wait_until(for_ever, 1, look).how, admission::closed);
      });
    }
    while (looks < 4) std::this_thread::yield();
    room.close();
  }
  EXPECT_EQ(room.free(), 0U);
}

// Nobody else gives the place back here, as when it lay with a thread that ends.
TEST(Places, WhoWaitsLooksAgainByItself) {
  places room(1);
  ASSERT_TRUE(room.take(1));
  int looks = 0;
  const auto look = [&] {
    if (++looks == 4) room.give_back(1);
  };
  EXPECT_EQ(room.wait_until(for_ever, 1, look).how, admission::granted);
  EXPECT_EQ(looks, 4);
}

// Waits like a coroutine, and notes when it was served.
struct noted_waiter : gyre::detail::place_waiter {
  explicit noted_waiter(std::vector<noted_waiter*>& noting)
      : place_waiter([](place_waiter& self) noexcept {
          auto& served = static_cast<noted_waiter&>(self);
          served.served_.push_back(&served);
        }),
        served_(noting) {}
  std::vector<noted_waiter*>& served_;
};

// Each place that comes back goes to the line, so nobody is passed by those who try in between.
TEST_P(PlacesInLine, AreForThoseWhoWaitInTheirOrderWhoeverTries) {
  places room(GetParam());
  ASSERT_TRUE(room.take(GetParam()));
  std::vector<noted_waiter*> served;
  noted_waiter one(served);
  noted_waiter other(served);
  noted_waiter last(served);
  for (noted_waiter* const each : {&one, &other, &last}) {
    EXPECT_EQ(room.enter(*each), places::entry::waits);
    EXPECT_TRUE(room.urgent());
  }
  for (const std::size_t count : {1U, 2U, 3U}) {
    EXPECT_EQ(room.take_some(1), 0U);
    room.give_back(1);
    EXPECT_EQ(served.size(), count);
    EXPECT_FALSE(room.take(1)) << "it was given to the line";
  }
  EXPECT_EQ(served, (std::vector{&one, &other, &last}));
  EXPECT_EQ(last.granted(), 1U);
  EXPECT_FALSE(room.urgent());
  room.give_back(1);
  EXPECT_TRUE(room.take(1)) << "the line has ended";
}

TEST_P(PlacesInLine, AreNotForThoseWhoHaveLeft) {
  places room(GetParam());
  ASSERT_TRUE(room.take(GetParam()));
  std::vector<noted_waiter*> served;
  noted_waiter one(served);
  noted_waiter other(served);
  noted_waiter never(served);
  EXPECT_FALSE(room.leave(never)) << "it is not in the line";
  EXPECT_EQ(room.enter(never), places::entry::left);
  EXPECT_EQ(room.enter(one), places::entry::waits);
  EXPECT_EQ(room.enter(other), places::entry::waits);
  EXPECT_TRUE(room.leave(one));
  EXPECT_TRUE(one.has_left());
  room.give_back(1);
  EXPECT_EQ(served, std::vector{&other});
  EXPECT_FALSE(room.leave(other)) << "it was served before";
}

// A thread that waits is served though another one takes every place that it can get.
TEST_P(PlacesInLine, AreForAThreadThatWaitsWhoeverTries) {
  places room(GetParam());
  ASSERT_TRUE(room.take(GetParam()));
  for (int round = 0; round < 20; ++round) {
    std::jthread waiting([&] {
      EXPECT_EQ(room.wait_until(for_ever, 1, nothing_to_look_for).how, admission::granted);
    });
    // Until the thread is in the line.
    do {
      room.give_back(1);
    } while (room.take(1));
    waiting.join();
    EXPECT_EQ(room.free(), 0U);
  }
}

INSTANTIATE_TEST_SUITE_P(NarrowAndWide, PlacesInLine, testing::Values(3, places::wide));

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
          const auto [how, taken] =
              room.wait_until(for_ever, GetParam() / 2 + 1, nothing_to_look_for);
          ASSERT_EQ(how, admission::granted);
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
}  // namespace places_test
