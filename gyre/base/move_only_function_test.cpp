// SPDX-License-Identifier: Apache-2.0
//
// Tests of the move-only callable.
#include <gyre/base/move_only_function.hpp>

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace move_only_function_test {
namespace {

using gyre::move_only_function;
using function = move_only_function<int()>;

// Counts its live objects and fills `Bytes` bytes.
template <std::size_t Bytes, bool NothrowMove = true>
struct counted {
  explicit counted(int& alive) : alive_{&alive} { ++*alive_; }
  counted(counted&& other) noexcept(NothrowMove) : alive_{other.alive_}, calls_{other.calls_} {
    ++*alive_;
  }
  counted(const counted&) = delete;
  ~counted() { --*alive_; }
  int operator()() { return ++calls_; }

  int* alive_;
  int calls_ = 0;
  std::array<char, Bytes - sizeof(int*) - sizeof(int)> rest_{};
};

std::size_t slab_blocks() { return gyre::read_slab_stats().blocks_in_use; }

static_assert(sizeof(function) == 32);
static_assert(sizeof(move_only_function<int(), 56>) == 64);
static_assert(!std::is_copy_constructible_v<function>);
static_assert(std::is_nothrow_move_constructible_v<function>);
static_assert(std::is_nothrow_move_assignable_v<function>);
static_assert(std::is_nothrow_constructible_v<function, int (*)()>);
static_assert(!std::is_constructible_v<function, std::string>, "not callable");
static_assert(!std::is_constructible_v<function, void (*)()>, "void is no int");
static_assert(std::is_constructible_v<move_only_function<void()>, int (*)()>, "result discarded");
static_assert(!std::is_constructible_v<move_only_function<void() noexcept>, void (*)()>);
static_assert(std::is_constructible_v<move_only_function<void() noexcept>, void (*)() noexcept>);

TEST(MoveOnlyFunction, CallsWhatItHolds) {
  function seven = [] { return 7; };
  EXPECT_TRUE(seven);
  EXPECT_EQ(seven(), 7);
  EXPECT_EQ(seven(), 7);
}

TEST(MoveOnlyFunction, KeepsStateBetweenCalls) {
  function count = [n = 0]() mutable { return ++n; };
  EXPECT_EQ(count(), 1);
  EXPECT_EQ(count(), 2);
  function moved = std::move(count);
  EXPECT_EQ(moved(), 3);
}

TEST(MoveOnlyFunction, HoldsMoveOnlyCallables) {
  function owner = [value = std::make_unique<int>(5)] { return *value; };
  const function moved = std::move(owner);
  EXPECT_FALSE(owner);  // NOLINT(bugprone-use-after-move): stated
  EXPECT_TRUE(moved);
}

TEST(MoveOnlyFunction, ForwardsArgumentsAndResultsUnchanged) {
  move_only_function<std::unique_ptr<int>(std::unique_ptr<int>)> pass =
      [](std::unique_ptr<int> given) { return given; };
  EXPECT_EQ(*pass(std::make_unique<int>(3)), 3);

  int variable = 1;
  move_only_function<int&(int&)> same = [](int& given) -> int& { return given; };
  EXPECT_EQ(&same(variable), &variable);

  move_only_function<void(std::string&&)> takes = [](std::string&& given) {
    const std::string taken = std::move(given);
  };
  std::string text = "a text too long to be stored without an allocation";
  takes(std::move(text));
  EXPECT_TRUE(text.empty());  // NOLINT(bugprone-use-after-move): stated
}

TEST(MoveOnlyFunction, CallsPointersToFunctionsAndMembers) {
  struct point {
    long x = 4;
    long doubled() const { return 2 * x; }
  };
  move_only_function<long(const point&)> method = &point::doubled;
  move_only_function<long(const point&)> member = &point::x;
  static const point four;
  EXPECT_EQ(method(four), 8);
  EXPECT_EQ(member(four), 4);
  function plain = +[] { return 1; };
  EXPECT_EQ(plain(), 1);
}

TEST(MoveOnlyFunction, EmptyIsFalseAndItsCallThrows) {
  function none;
  EXPECT_FALSE(none);
  EXPECT_TRUE(none == nullptr);
  EXPECT_THROW(none(), std::bad_function_call);
  function null = nullptr;
  EXPECT_FALSE(null);
}

TEST(MoveOnlyFunction, NullCallablesMakeItEmpty) {
  struct point {
    int x;
  };
  EXPECT_FALSE(function{static_cast<int (*)()>(nullptr)});
  EXPECT_FALSE((move_only_function<int(const point&)>{static_cast<int point::*>(nullptr)}));
  move_only_function<int(), 56> empty;
  EXPECT_FALSE(function{std::move(empty)});
}

TEST(MoveOnlyFunction, NullptrAssignmentDestroysTheCallable) {
  int alive = 0;
  function held{std::in_place_type<counted<24>>, alive};
  EXPECT_EQ(alive, 1);
  held = nullptr;
  EXPECT_EQ(alive, 0);
  EXPECT_FALSE(held);
}

TEST(MoveOnlyFunction, AssignmentDestroysWhatWasHeldOnce) {
  int old_alive = 0, new_alive = 0;
  function held{std::in_place_type<counted<24>>, old_alive};
  held = function{std::in_place_type<counted<64>>, new_alive};
  EXPECT_EQ(old_alive, 0);
  EXPECT_EQ(new_alive, 1);
  function& same = held;
  held = std::move(same);
  EXPECT_EQ(new_alive, 1);
  EXPECT_EQ(held(), 1);
}

TEST(MoveOnlyFunction, DestructorOfTheOldCallableSeesTheNewOne) {
  function held;
  struct looks_back {
    looks_back(function& watched, int& seen) : watched_{&watched}, seen_{&seen} {}
    looks_back(looks_back&& other) noexcept
        : watched_{std::exchange(other.watched_, nullptr)}, seen_{other.seen_} {}
    ~looks_back() {
      if (watched_ != nullptr) *seen_ = (*watched_)();
    }
    int operator()() const { return 1; }
    function* watched_;
    int* seen_;
  };
  int seen = 0;
  held = function{std::in_place_type<looks_back>, held, seen};
  held = [] { return 2; };
  EXPECT_EQ(seen, 2);
}

TEST(MoveOnlyFunction, SwapExchangesAllKinds) {
  int alive = 0;
  function small{std::in_place_type<counted<24>>, alive};
  function big{std::in_place_type<counted<100>>, alive};
  function none;
  small();
  swap(small, big);
  EXPECT_EQ(big(), 2);
  EXPECT_EQ(small(), 1);
  none.swap(small);
  EXPECT_FALSE(small);
  EXPECT_EQ(none(), 2);
  none.swap(none);
  EXPECT_EQ(none(), 3);
  EXPECT_EQ(alive, 2);
}

TEST(MoveOnlyFunction, InPlaceConstructionTakesInitialiserLists) {
  struct sum {
    sum(std::initializer_list<int> numbers, int more) : numbers_{numbers}, more_{more} {}
    int operator()() const { return numbers_[0] + numbers_[1] + more_; }
    std::vector<int> numbers_;
    int more_;
  };
  function held{std::in_place_type<sum>, {1, 2}, 4};
  EXPECT_EQ(held(), 7);
}

TEST(MoveOnlyFunction, SmallCallablesLiveInsideLargeOnesInTheSlab) {
  int alive = 0;
  const std::size_t before = slab_blocks();
  {
    const function inside{std::in_place_type<counted<24>>, alive};
    EXPECT_EQ(slab_blocks(), before);
    const function outside{std::in_place_type<counted<25>>, alive};
    EXPECT_EQ(slab_blocks(), before + 1);
    const function may_throw{std::in_place_type<counted<24, false>>, alive};
    EXPECT_EQ(slab_blocks(), before + 2);
    const move_only_function<int(), 56> wide{std::in_place_type<counted<56>>, alive};
    EXPECT_EQ(slab_blocks(), before + 2);
    EXPECT_EQ(alive, 4);
  }
  EXPECT_EQ(alive, 0);
  EXPECT_EQ(slab_blocks(), before);
}

TEST(MoveOnlyFunction, MovingALargeCallableMovesNoObject) {
  struct immovable {
    immovable() = default;
    immovable(immovable&&) = delete;
    int operator()() const { return 9; }
    std::array<char, 64> bytes{};
  };
  function held{std::in_place_type<immovable>};
  function moved = std::move(held);
  EXPECT_EQ(moved(), 9);
}

TEST(MoveOnlyFunction, RespectsAnyAlignment) {
  struct alignas(16) sixteen {
    bool operator()() const { return reinterpret_cast<std::uintptr_t>(this) % 16 == 0; }
  };
  struct alignas(128) many {
    bool operator()() const { return reinterpret_cast<std::uintptr_t>(this) % 128 == 0; }
  };
  for (int i = 0; i < 10; ++i) {
    move_only_function<bool()> first = sixteen{};
    move_only_function<bool()> second = many{};
    EXPECT_TRUE(first());
    EXPECT_TRUE(second());
  }
}

TEST(MoveOnlyFunction, ThrowingConstructionLeaksNothing) {
  struct thrower {
    thrower() { throw std::runtime_error{"no"}; }
    int operator()() const { return 0; }
    std::array<char, 64> bytes{};
  };
  const std::size_t before = slab_blocks();
  EXPECT_THROW(function{std::in_place_type<thrower>}, std::runtime_error);
  EXPECT_EQ(slab_blocks(), before);
}

TEST(MoveOnlyFunction, LetsExceptionsOfTheCallablePass) {
  function thrower = []() -> int { throw std::runtime_error{"passed"}; };
  EXPECT_THROW(thrower(), std::runtime_error);
  EXPECT_TRUE(thrower);
}

TEST(MoveOnlyFunction, NoexceptSignatureIsNoexceptToCall) {
  move_only_function<int() noexcept> held = []() noexcept { return 3; };
  static_assert(noexcept(held()));
  EXPECT_EQ(held(), 3);
  EXPECT_DEATH((move_only_function<void() noexcept>{}()), "");
}

int one() { return 1; }

TEST(MoveOnlyFunction, TellsWhetherItsCallableHasState) {
  EXPECT_FALSE(function().has_state());
  EXPECT_FALSE(function(&one).has_state());
  EXPECT_FALSE(function([] { return 2; }).has_state());
  EXPECT_TRUE(function([number = 3] { return number; }).has_state());
  const std::array<int, 30> large{};
  EXPECT_TRUE(function([large] { return large[0]; }).has_state());
  struct with_destructor {
    ~with_destructor() { slab_blocks(); }
    int operator()() const { return 4; }
  };
  EXPECT_TRUE(function(with_destructor()).has_state());
  function source = [number = 3] { return number; };
  const function target(std::move(source));
  EXPECT_TRUE(target.has_state());
  EXPECT_FALSE(source.has_state());  // NOLINT(bugprone-use-after-move): it is empty
}

TEST(MoveOnlyFunction, MayDieOnAnotherThread) {
  int alive = 0;
  function held{std::in_place_type<counted<200>>, alive};
  std::thread{[moved = std::move(held)]() mutable { moved(); }}.join();
  EXPECT_EQ(alive, 0);
}

}  // namespace
}  // namespace move_only_function_test
