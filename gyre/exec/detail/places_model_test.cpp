// SPDX-License-Identifier: Apache-2.0
//
// Blocking for places under every schedule: whoever waits gets a place that was given back, or
// hears that nobody waits any more. Deadlines do not pass here: nobody is saved by looking again.
//
// Tried by hand: each of these changes makes a test fail. No release in give_back() or no acquire
// in take_between(); announce() that does not look whether a place is free or the room is closed; a
// wake-up without a new round; one wake-up for several places, or none; a wide room that waits for
// more than half, or wakes before; a thread that is counted as blocked when it no longer is; a
// round that is read after the announcement. That the acquire in give_back() and close() and the
// release in announce() are needed does not show: here no load returns what is written later.
#include <gyre/exec/detail/places.hpp>

#include <gtest/gtest.h>
#include <gyre/base/atomic.hpp>
#include <gyre/base/clock.hpp>
#include <tests/model/model.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace {

namespace model = gyre::model;
using gyre::steady_time;
using gyre::detail::admission;

constexpr steady_time for_ever = steady_time::max();

// futex(2): looks at the word and lies down in one step, as seen by wakers. Wakes the oldest first.
struct model_futex {
  static void wait(const gyre::detail::places_futex::word& round, std::uint32_t expected,
                   steady_time /*deadline*/) {
    model::event bed;
    {
      const std::lock_guard bucket(kernel);
      if (round.load(std::memory_order_relaxed) != expected) return;
      beds.at(asleep++) = &bed;
    }
    bed.wait();
  }
  static void wake(const gyre::detail::places_futex::word& /*round*/, std::size_t most) {
    const std::lock_guard bucket(kernel);
    ++calls;
    const std::size_t woken = std::min(most, asleep);
    for (std::size_t i = 0; i < woken; ++i) beds.at(i)->wake();
    std::shift_left(beds.begin(), beds.end(), static_cast<std::ptrdiff_t>(woken));
    asleep -= woken;
  }
  static steady_time now() { return steady_time{}; }

  static inline std::mutex kernel;
  static inline std::array<model::event*, 8> beds{};
  static inline std::size_t asleep = 0;
  static inline int calls = 0;
};

using places = gyre::detail::basic_places<model_futex>;

// A pool whose places are all taken.
struct full_room {
  explicit full_room(std::size_t capacity) : room(capacity) {
    model_futex::calls = 0;  // of an earlier check
    model::assert_that(room.take(capacity), "all places can be taken");
  }
  admission wait() {
    return room.wait_until(for_ever, [this] { return room.take(1); });
  }
  void wait_for_granted() { model::assert_that(wait() == admission::granted, "granted"); }

  places room;
};

TEST(PlacesModel, WhoWaitsGetsThePlaceThatIsGivenBack) {
  const auto checked = model::check({.preemptions = model::unlimited}, [] {
    full_room full(1);
    model::thread giver([&] { full.room.give_back(1); });
    full.wait_for_granted();
    giver.join();
    model::assert_that(full.room.free() == 0, "it is taken again");
    model::assert_that(model_futex::calls <= 1, "one system call at most");
    const int calls_for_the_waiter = model_futex::calls;
    full.room.give_back(1);
    model::assert_that(model_futex::calls == calls_for_the_waiter, "and none for nobody");
  });
  EXPECT_TRUE(checked) << checked;
  EXPECT_TRUE(checked.exhaustive);
}

TEST(PlacesModel, AsManyAreWokenAsThereArePlaces) {
  const auto checked = model::check({.preemptions = 3, .stale_reads = 2}, [] {
    full_room full(2);
    model::thread one([&] { full.wait_for_granted(); });
    model::thread other([&] { full.wait_for_granted(); });
    full.room.give_back(2);
  });
  EXPECT_TRUE(checked) << checked;
}

TEST(PlacesModel, EachOfSeveralPlacesFindsSomebodyWhoWaits) {
  const auto checked = model::check({.preemptions = 3, .stale_reads = 2}, [] {
    full_room full(2);
    model::thread one([&] { full.wait_for_granted(); });
    model::thread other([&] { full.wait_for_granted(); });
    full.room.give_back(1);
    full.room.give_back(1);
  });
  EXPECT_TRUE(checked) << checked;
}

TEST(PlacesModel, SeveralMayGiveBackWhileSeveralWait) {
  const auto checked = model::check({.preemptions = 2, .stale_reads = 1}, [] {
    full_room full(2);
    model::thread one([&] { full.wait_for_granted(); });
    model::thread other([&] { full.wait_for_granted(); });
    model::thread giver([&] { full.room.give_back(1); });
    full.room.give_back(1);
  });
  EXPECT_TRUE(checked) << checked;
}

TEST(PlacesModel, OnePlaceGoesFromWaiterToWaiter) {
  const auto checked = model::check({.preemptions = 2, .stale_reads = 1}, [] {
    full_room full(1);
    const auto visit = [&] {
      full.wait_for_granted();
      full.room.give_back(1);
    };
    model::thread one(visit);
    model::thread other(visit);
    full.room.give_back(1);
    visit();
  });
  EXPECT_TRUE(checked) << checked;
}

TEST(PlacesModel, OfAWideRoomHalfMustBeFreeToEndTheWait) {
  const auto checked = model::check({.preemptions = 3, .stale_reads = 2}, [] {
    full_room full(places::wide);
    model::thread waiter([&] { full.wait_for_granted(); });
    model::thread giver([&] { full.room.give_back(places::wide / 4); });
    full.room.give_back(places::wide / 4);
    waiter.join();
    giver.join();
    model::assert_that(model_futex::calls <= 1, "one system call for thousands of places");
  });
  EXPECT_TRUE(checked) << checked;
}

TEST(PlacesModel, ClosingLetsAllGo) {
  const auto checked = model::check({.preemptions = 3, .stale_reads = 2}, [] {
    full_room full(1);
    const auto wait_in_vain = [&] {
      model::assert_that(full.wait() == admission::closed, "closed");
    };
    model::thread one(wait_in_vain);
    model::thread other(wait_in_vain);
    full.room.close();
  });
  EXPECT_TRUE(checked) << checked;
}

TEST(PlacesModel, WhoTookAPlaceComesAfterWhoLeftIt) {
  const auto checked = model::check({.preemptions = model::unlimited}, [] {
    full_room full(1);
    int left_there = 0;
    model::thread giver([&] {
      left_there = 1;
      full.room.give_back(1);
    });
    full.wait_for_granted();
    model::assert_that(left_there == 1, "what was done before is visible");
  });
  EXPECT_TRUE(checked) << checked;
}

}  // namespace
