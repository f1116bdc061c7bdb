// SPDX-License-Identifier: Apache-2.0
//
// Waiting for places under every schedule: whoever waits in line gets a place that was given back
// before anybody who comes later, or hears that nobody waits any more, or has left. Deadlines do not
// pass here: nobody is saved by looking again.
//
// Tried by hand: each of these changes makes a test fail. No release in give_back() or no acquire in
// take_between(); a waiter that enters without looking whether a place is free, or the room closed;
// giving back without serving the line; serving one waiter for several places; taking in spite of
// the line; leaving that does not see that it was served; entering that does not see that it has
// left; a wide room that waits for more than half, or serves before.
#include <gyre/pool/detail/places.hpp>

#include <gtest/gtest.h>
#include <gyre/base/atomic.hpp>
#include <gyre/base/clock.hpp>
#include <tests/model/model.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace {

namespace model = gyre::model;
using gyre::steady_time;
using gyre::detail::admission;

constexpr steady_time for_ever = steady_time::max();

// futex(2): looks at the word and lies down in one step, as seen by wakers.
struct model_futex {
  using word = gyre::detail::places_futex::word;
  static void wait(const word& on, std::uint32_t expected, steady_time /*deadline*/) {
    model::event bed;
    {
      const std::lock_guard bucket(kernel);
      if (on.load(std::memory_order_relaxed) != expected) return;
      sleepers.at(asleep++) = {&on, &bed};
    }
    bed.wait();
  }
  static void wake(const word* on) {
    const std::lock_guard bucket(kernel);
    ++calls;
    for (std::size_t i = 0; i < asleep; ++i) {
      if (sleepers.at(i).on != on) continue;
      sleepers.at(i).bed->wake();
      sleepers.at(i) = sleepers.at(--asleep);
      return;
    }
  }
  static steady_time now() { return steady_time{}; }

  struct sleeper {
    const word* on;
    model::event* bed;
  };
  static inline std::mutex kernel;
  static inline std::array<sleeper, 8> sleepers{};
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
    return room.wait_until(for_ever, 1, [] {}).how;
  }
  void wait_for_granted() { model::assert_that(wait() == admission::granted, "granted"); }

  places room;
};

// Waits in line like a coroutine.
struct line_waiter : gyre::detail::place_waiter {
  line_waiter()
      : place_waiter(
            [](place_waiter& self) noexcept { static_cast<line_waiter&>(self).served.wake(); }) {}
  model::event served;
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

TEST(PlacesModel, AsManyAreServedAsThereArePlaces) {
  const auto checked = model::check({.preemptions = 2, .stale_reads = 1}, [] {
    full_room full(2);
    model::thread one([&] { full.wait_for_granted(); });
    model::thread other([&] { full.wait_for_granted(); });
    full.room.give_back(2);
  });
  EXPECT_TRUE(checked) << checked;
}

TEST(PlacesModel, EachOfSeveralPlacesFindsSomebodyWhoWaits) {
  const auto checked = model::check({.preemptions = 2, .stale_reads = 1}, [] {
    full_room full(2);
    model::thread one([&] { full.wait_for_granted(); });
    model::thread other([&] { full.wait_for_granted(); });
    full.room.give_back(1);
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
    full.room.give_back(1);
    visit();
  });
  EXPECT_TRUE(checked) << checked;
}

TEST(PlacesModel, WhoComesLaterDoesNotPassWhoWaits) {
  const auto checked = model::check({.preemptions = 3, .stale_reads = 2}, [] {
    full_room full(1);
    line_waiter first;
    model::assert_that(full.room.enter(first) == places::entry::waits, "the room is full");
    model::thread barger([&] { model::assert_that(!full.room.take(1), "there is a line"); });
    full.room.give_back(1);
    first.served.wait();
    model::assert_that(first.granted() == 1, "it was given to the first");
  });
  EXPECT_TRUE(checked) << checked;
}

TEST(PlacesModel, WhoLeavesIsNotServedAndLosesNoPlace) {
  const auto checked = model::check({.preemptions = 3, .stale_reads = 2}, [] {
    full_room full(1);
    line_waiter first;
    model::assert_that(full.room.enter(first) == places::entry::waits, "the room is full");
    model::thread giver([&] { full.room.give_back(1); });
    const bool left = full.room.leave(first);
    if (!left) first.served.wait();
    giver.join();
    model::assert_that(first.has_left() == left && first.granted() == (left ? 0U : 1U), "or");
    model::assert_that(full.room.take(left ? 1 : 0), "what it did not take is free");
  });
  EXPECT_TRUE(checked) << checked;
}

TEST(PlacesModel, WhoLeavesBeforeItEntersDoesNotWait) {
  const auto checked = model::check({.preemptions = 3, .stale_reads = 2}, [] {
    full_room full(1);
    line_waiter waiter;
    bool left = false;
    {
      model::thread canceller([&] { left = full.room.leave(waiter); });
      const auto became = full.room.enter(waiter);
      canceller.join();
      model::assert_that(left == (became == places::entry::waits), "one of both has seen it");
    }
    full.room.give_back(1);
    model::assert_that(full.room.take(1), "and there is no line");
  });
  EXPECT_TRUE(checked) << checked;
}

TEST(PlacesModel, OfAWideRoomHalfMustBeFreeToEndTheWait) {
  const auto checked = model::check({.preemptions = 3, .stale_reads = 2}, [] {
    full_room full(places::wide);
    model::thread waiter([&] { full.wait_for_granted(); });
    full.room.give_back(places::wide / 4);
    model::assert_that(model_futex::calls == 0, "nobody is woken for a quarter");
    full.room.give_back(places::wide / 4);
    waiter.join();
    model::assert_that(model_futex::calls <= 1, "one system call for thousands of places");
  });
  EXPECT_TRUE(checked) << checked;
}

TEST(PlacesModel, ClosingLetsAllGo) {
  const auto checked = model::check({.preemptions = 2, .stale_reads = 1}, [] {
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
