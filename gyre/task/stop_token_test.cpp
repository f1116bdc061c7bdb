// SPDX-License-Identifier: Apache-2.0
// Tests of stop tokens, some with races on real threads; the model test covers all schedules.
#include <gyre/task/stop_token.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <deque>
#include <functional>
#include <iterator>
#include <latch>
#include <memory>
#include <optional>
#include <stdexcept>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace stop_token_test {
namespace {

using gyre::inplace_stop_callback;
using gyre::inplace_stop_source;
using gyre::inplace_stop_token;
using gyre::never_stop_token;
using gyre::detail::linked_stop_source;
using ::testing::ElementsAre;

static_assert(sizeof(inplace_stop_token) == sizeof(void*));
static_assert(std::is_trivially_copyable_v<inplace_stop_token>);
static_assert(sizeof(inplace_stop_source) == sizeof(void*));
static_assert(!std::is_copy_constructible_v<inplace_stop_source>);
static_assert(!std::is_move_constructible_v<inplace_stop_callback<void (*)()>>);
static_assert(std::is_same_v<inplace_stop_token::callback_type<void (*)()>,
                             inplace_stop_callback<void (*)()>>);
static_assert(!never_stop_token::stop_possible() && !never_stop_token::stop_requested());
static_assert(never_stop_token() == never_stop_token());

constinit inplace_stop_source static_source;  // needs no start-up code

TEST(StopToken, WithoutSourceNeverStops) {
  constexpr inplace_stop_token token;
  EXPECT_FALSE(token.stop_possible());
  EXPECT_FALSE(token.stop_requested());
  bool called = false;
  {
    inplace_stop_callback callback(token, [&] { called = true; });
  }
  EXPECT_FALSE(called);
}

TEST(StopToken, ReportsTheStopOfItsSource) {
  inplace_stop_source source;
  const inplace_stop_token token = source.get_token();
  EXPECT_TRUE(token.stop_possible());
  EXPECT_FALSE(token.stop_requested());
  EXPECT_FALSE(source.stop_requested());
  EXPECT_TRUE(source.request_stop());
  EXPECT_TRUE(token.stop_requested());
  EXPECT_TRUE(source.stop_requested());
}

TEST(StopToken, IsEqualWhenItHasTheSameSource) {
  inplace_stop_source one;
  inplace_stop_source other;
  EXPECT_EQ(inplace_stop_token(), inplace_stop_token());
  EXPECT_EQ(one.get_token(), one.get_token());
  EXPECT_NE(one.get_token(), other.get_token());
  EXPECT_NE(one.get_token(), inplace_stop_token());
  inplace_stop_token token = one.get_token();
  inplace_stop_token swapped;
  token.swap(swapped);
  EXPECT_EQ(swapped, one.get_token());
  EXPECT_EQ(token, inplace_stop_token());
}

TEST(StopToken, ATokenFromAStaticSourceCanBeUsed) {
  EXPECT_FALSE(static_source.get_token().stop_requested());
}

TEST(StopToken, NeverStopTokenKeepsNoCallback) {
  bool called = false;
  auto call = [&] { called = true; };
  using callback = never_stop_token::callback_type<decltype(call)>;
  static_assert(std::is_empty_v<callback>);
  {
    callback unused(never_stop_token(), call);
  }
  EXPECT_FALSE(called);
}

TEST(StopSource, StopsOnce) {
  inplace_stop_source source;
  EXPECT_TRUE(source.stop_possible());
  int calls = 0;
  inplace_stop_callback callback(source.get_token(), [&] { ++calls; });
  EXPECT_TRUE(source.request_stop());
  EXPECT_FALSE(source.request_stop());
  EXPECT_EQ(calls, 1);
}

TEST(StopSource, CallsCallbacksOnTheThreadThatRequests) {
  inplace_stop_source source;
  std::thread::id called_on;
  inplace_stop_callback callback(source.get_token(),
                                 [&] { called_on = std::this_thread::get_id(); });
  std::thread::id requested_on;
  std::jthread([&] {
    requested_on = std::this_thread::get_id();
    source.request_stop();
  }).join();
  EXPECT_EQ(called_on, requested_on);
}

TEST(StopSource, HasStoppedWhenItsCallbacksRun) {
  inplace_stop_source source;
  bool stopped = false;
  bool first_request = true;
  inplace_stop_callback callback(source.get_token(), [&] {
    stopped = source.stop_requested();
    first_request = source.request_stop();
  });
  source.request_stop();
  EXPECT_TRUE(stopped);
  EXPECT_FALSE(first_request);
}

// Registers callbacks 0, 1, … that record their numbers.
struct numbered_callbacks {
  struct write_down {
    std::vector<int>* order;
    int number;
    void operator()() const { order->push_back(number); }
  };
  explicit numbered_callbacks(inplace_stop_source& source) {
    for (int i = 0; i < 4; ++i) {
      callbacks[static_cast<std::size_t>(i)].emplace(source.get_token(), write_down{&order, i});
    }
  }
  std::vector<int> order;
  std::array<std::optional<inplace_stop_callback<write_down>>, 4> callbacks;
};

TEST(StopSource, CallsTheYoungestCallbackFirst) {
  inplace_stop_source source;
  numbered_callbacks numbered(source);
  source.request_stop();
  EXPECT_THAT(numbered.order, ElementsAre(3, 2, 1, 0));
}

TEST(StopCallback, IsNotCalledAfterItsEnd) {
  for (std::size_t gone = 0; gone < 4; ++gone) {
    inplace_stop_source source;
    numbered_callbacks numbered(source);
    numbered.callbacks[gone].reset();
    source.request_stop();
    EXPECT_EQ(numbered.order.size(), 3);
    EXPECT_THAT(numbered.order, testing::Not(testing::Contains(static_cast<int>(gone))));
  }
}

TEST(StopCallback, MayReferToTheClassThatHasIt) {
  struct stoppable {
    void operator()() noexcept { stopped = true; }
    bool stopped = false;
    std::optional<gyre::inplace_stop_callback<stoppable&>> callback;
  };
  gyre::inplace_stop_source source;
  stoppable object;
  object.callback.emplace(source.get_token(), object);
  source.request_stop();
  EXPECT_TRUE(object.stopped);
}

TEST(StopCallback, LeavesInAnyOrder) {
  std::array<std::size_t, 4> order{0, 1, 2, 3};
  do {
    inplace_stop_source source;
    numbered_callbacks numbered(source);
    for (std::size_t left = 4; const std::size_t each : order) {
      numbered.callbacks[each].reset();
      if (--left == 1) break;
    }
    source.request_stop();
    EXPECT_THAT(numbered.order, ElementsAre(static_cast<int>(order.back())));
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST(StopCallback, RunsInItsConstructorAfterTheStop) {
  inplace_stop_source source;
  source.request_stop();
  int calls = 0;
  {
    inplace_stop_callback callback(source.get_token(), [&] { ++calls; });
    EXPECT_EQ(calls, 1);
  }
  EXPECT_EQ(calls, 1);
}

TEST(StopCallback, MayDestroyItself) {
  inplace_stop_source source;
  struct reset {
    std::unique_ptr<inplace_stop_callback<reset>>* self;
    void operator()() const { self->reset(); }
  };
  std::unique_ptr<inplace_stop_callback<reset>> callback;
  callback = std::make_unique<inplace_stop_callback<reset>>(source.get_token(), reset{&callback});
  source.request_stop();
  EXPECT_EQ(callback, nullptr);
}

TEST(StopCallback, MayDestroyOthers) {
  inplace_stop_source source;
  int calls = 0;
  auto count = [&] { ++calls; };
  using counting = inplace_stop_callback<decltype(count)>;
  std::optional<counting> older;
  std::optional<counting> younger;
  older.emplace(source.get_token(), count);
  inplace_stop_callback callback(source.get_token(), [&] {
    older.reset();    // still to be called
    younger.reset();  // was called
    EXPECT_TRUE(source.stop_requested());
    EXPECT_FALSE(source.request_stop());
  });
  younger.emplace(source.get_token(), count);
  source.request_stop();
  EXPECT_EQ(calls, 1);
}

TEST(StopCallback, MayRegisterOthers) {
  inplace_stop_source source;
  std::vector<int> order;
  inplace_stop_callback last(source.get_token(), [&] { order.push_back(3); });
  inplace_stop_callback callback(source.get_token(), [&] {
    order.push_back(1);
    inplace_stop_callback inner(source.get_token(), [&] { order.push_back(2); });
  });
  source.request_stop();
  EXPECT_THAT(order, ElementsAre(1, 2, 3));
}

TEST(StopCallback, DestructorWaitsWhileItRunsOnAnotherThread) {
  inplace_stop_source source;
  std::latch running(1);
  std::latch may_return(1);
  bool returned = false;  // not atomic: the destructor orders it
  auto slow = [&] {
    running.count_down();
    may_return.wait();
    returned = true;
  };
  std::optional<inplace_stop_callback<decltype(slow)&>> callback(std::in_place, source.get_token(),
                                                                 slow);
  std::jthread requester([&] { source.request_stop(); });
  running.wait();
  std::jthread destroyer([&] {
    callback.reset();
    EXPECT_TRUE(returned);
  });
  may_return.count_down();
}

TEST(StopCallback, DestructorDoesNotWaitForOthers) {
  inplace_stop_source source;
  std::latch running(1);
  std::latch may_return(1);
  int calls = 0;
  auto count = [&] { ++calls; };
  std::optional<inplace_stop_callback<decltype(count)>> older(std::in_place, source.get_token(),
                                                              count);
  inplace_stop_callback slow(source.get_token(), [&] {
    running.count_down();
    may_return.wait();
  });
  std::optional<inplace_stop_callback<decltype(count)>> younger(std::in_place, source.get_token(),
                                                                count);
  std::jthread requester([&] { source.request_stop(); });
  running.wait();
  older.reset();
  younger.reset();
  EXPECT_EQ(calls, 1);
  may_return.count_down();
}

TEST(StopCallback, KeepsNothingWhenItsFunctionThrowsWhileItIsMade) {
  struct throws {
    explicit throws(int) { throw std::runtime_error("no"); }
    void operator()() const { ADD_FAILURE() << "called"; }
  };
  inplace_stop_source source;
  static_assert(
      !std::is_nothrow_constructible_v<inplace_stop_callback<throws>, inplace_stop_token, int>);
  EXPECT_THROW(inplace_stop_callback<throws>(source.get_token(), 1), std::runtime_error);
  EXPECT_TRUE(source.request_stop());
}

TEST(StopCallback, CallsItsFunctionAsAnRvalue) {
  struct once {
    bool* called;
    void operator()() && { *called = true; }
  };
  inplace_stop_source source;
  bool called = false;
  inplace_stop_callback callback(source.get_token(), once{&called});
  source.request_stop();
  EXPECT_TRUE(called);
}

TEST(StopCallbackDeathTest, TerminatesWhenItsFunctionThrows) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        inplace_stop_source source;
        inplace_stop_callback callback(source.get_token(), [] { throw std::runtime_error("no"); });
        source.request_stop();
      },
      "");
}

#ifndef NDEBUG
TEST(StopSourceDeathTest, DestroyedBeforeACallbackSaysHowLongToKeepIt) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        std::optional<inplace_stop_source> source(std::in_place);
        inplace_stop_callback callback(source->get_token(), [] {});
        source.reset();
      },
      "keep it until the wait, .*scope or callback that got the token has ended");
}
#endif

TEST(LinkedStopSource, StopsWithItsParent) {
  inplace_stop_source parent;
  linked_stop_source child(parent.get_token());
  linked_stop_source grandchild(child.get_token());
  EXPECT_FALSE(grandchild.stop_requested());
  parent.request_stop();
  EXPECT_TRUE(child.stop_requested());
  EXPECT_TRUE(grandchild.stop_requested());
}

TEST(LinkedStopSource, StopsAloneWithoutItsParent) {
  inplace_stop_source parent;
  linked_stop_source child(parent.get_token());
  EXPECT_TRUE(child.request_stop());
  EXPECT_FALSE(parent.stop_requested());
  EXPECT_TRUE(parent.request_stop());
}

TEST(LinkedStopSource, AStoppedParentStopsItAtOnce) {
  inplace_stop_source parent;
  parent.request_stop();
  linked_stop_source child(parent.get_token());
  EXPECT_TRUE(child.stop_requested());
}

TEST(LinkedStopSource, NeedsNoParent) {
  linked_stop_source child{inplace_stop_token()};
  EXPECT_FALSE(child.stop_requested());
  EXPECT_TRUE(child.request_stop());
}

TEST(LinkedStopSource, CallsCallbacksThatCameBeforeAndAfterAStopOfItsParent) {
  inplace_stop_source parent;
  linked_stop_source child(parent.get_token());
  linked_stop_source grandchild(child.get_token());
  int calls = 0;
  const auto count = [&] { ++calls; };
  const inplace_stop_callback before(grandchild.get_token(), count);
  const inplace_stop_callback between(child.get_token(), count);
  parent.request_stop();
  EXPECT_EQ(calls, 2);
  const inplace_stop_callback after(grandchild.get_token(), count);
  EXPECT_EQ(calls, 3);
}

TEST(LinkedStopSource, ACallbackOfAStoppedGrandparentIsCalledAtOnce) {
  inplace_stop_source parent;
  linked_stop_source child(parent.get_token());
  linked_stop_source grandchild(child.get_token());
  parent.request_stop();
  bool called = false;
  const inplace_stop_callback callback(grandchild.get_token(), [&] { called = true; });
  EXPECT_TRUE(called);
}

// The links are made in a loop: a thousand nested joins must not need a thousand calls' stack.
TEST(LinkedStopSource, LinksAnyNumberOfAncestors) {
  constexpr int generations = 200'000;
  inplace_stop_source first;
  std::deque<linked_stop_source> chain;
  inplace_stop_token youngest = first.get_token();
  for (int i = 0; i < generations; ++i) youngest = chain.emplace_back(youngest).get_token();
  {
    bool called = false;
    const inplace_stop_callback callback(youngest, [&] { called = true; });
    EXPECT_FALSE(youngest.stop_requested());
    EXPECT_FALSE(called);
  }
  while (!chain.empty()) chain.pop_back();
}

// Threads register and destroy callbacks while another thread requests the stop: each callback is
// called at most once, and never after its destruction.
TEST(StopTokenStress, CallbackIsCalledAtMostOnceAndNeverAfterItsEnd) {
  constexpr int rounds = 1500;
  for (int round = 0; round < rounds; ++round) {
    inplace_stop_source source;
    std::latch start(3);
    auto come_and_go = [&] {
      start.arrive_and_wait();
      bool stopped = false;
      for (int i = 0; i < 100 && !stopped; ++i) {
        stopped = source.stop_requested();
        // Not atomic: each callback's destructor orders its count. There are two counts because a
        // callback registered after the stop is called by its own thread, while the other may be
        // called by the stopping thread.
        int calls_of_one = 0;
        int calls_of_other = 0;
        {
          inplace_stop_callback one(source.get_token(), [&] { ++calls_of_one; });
          inplace_stop_callback other(source.get_token(), [&] { ++calls_of_other; });
        }
        EXPECT_LE(calls_of_one, 1);
        EXPECT_LE(calls_of_other, 1);
        if (stopped) {
          EXPECT_EQ(calls_of_one + calls_of_other, 2);
        }
      }
    };
    std::jthread one(come_and_go);
    std::jthread other(come_and_go);
    start.arrive_and_wait();
    EXPECT_TRUE(source.request_stop());
  }
}

// Callbacks that stay are called exactly once, however many threads register and request at once.
TEST(StopTokenStress, EveryCallbackThatStaysIsCalledOnce) {
  constexpr int rounds = 1000;
  for (int round = 0; round < rounds; ++round) {
    inplace_stop_source source;
    std::latch start(4);
    std::latch done(4);
    std::atomic<int> calls = 0;
    std::atomic<int> stops = 0;
    auto register_and_stay = [&] {
      auto count = [&] { calls.fetch_add(1, std::memory_order_relaxed); };
      start.arrive_and_wait();
      inplace_stop_callback one(source.get_token(), count);
      {
        inplace_stop_callback passing(source.get_token(), [] {});
      }
      inplace_stop_callback other(source.get_token(), count);
      done.arrive_and_wait();
    };
    auto request = [&] {
      start.arrive_and_wait();
      if (source.request_stop()) ++stops;
      done.arrive_and_wait();
    };
    {
      std::jthread one(register_and_stay);
      std::jthread other(register_and_stay);
      std::jthread first(request);
      std::jthread second(request);
    }
    EXPECT_EQ(calls, 4);
    EXPECT_EQ(stops, 1);
  }
}

TEST(InplaceStopSource, MayBeDestroyedByItsLastCallback) {
  struct owner {
    gyre::inplace_stop_source source;
    std::optional<gyre::inplace_stop_callback<std::function<void()>>> callback;
  };
  auto owned = std::make_unique<owner>();
  gyre::inplace_stop_source& source = owned->source;
  owned->callback.emplace(source.get_token(), [&owned] {
    auto last = std::move(owned);
    last->callback.reset();
  });
  EXPECT_TRUE(source.request_stop());
  EXPECT_EQ(owned, nullptr);
}

}  // namespace
}  // namespace stop_token_test
