// SPDX-License-Identifier: Apache-2.0
#include <gyre/task/generator.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <concepts>
#include <cstddef>
#include <iterator>
#include <list>
#include <memory>
#include <memory_resource>
#include <ranges>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace generator_test {
namespace {

using gyre::elements_of;
using gyre::generator;
using testing::ElementsAre;

static_assert(std::ranges::input_range<generator<int>>);
static_assert(std::ranges::view<generator<int>>);
static_assert(!std::ranges::forward_range<generator<int>>);
static_assert(!std::copy_constructible<generator<int>>);
static_assert(std::same_as<std::ranges::range_reference_t<generator<int>>, int&&>);
static_assert(std::same_as<std::ranges::range_reference_t<generator<const int&>>, const int&>);
static_assert(std::same_as<std::ranges::range_reference_t<generator<int&>>, int&>);
static_assert(std::same_as<std::ranges::range_value_t<generator<int&>>, int>);
static_assert(std::same_as<std::ranges::range_reference_t<generator<int, long>>, int>);
static_assert(std::same_as<std::ranges::range_value_t<generator<int, long>>, long>);

template <class Range>
auto to_vector(Range&& range) {
  std::vector<std::ranges::range_value_t<Range>> values;
  for (auto&& value : range) values.push_back(std::forward<decltype(value)>(value));
  return values;
}

generator<int> count_to(int last) {
  for (int i = 1; i <= last; ++i) co_yield i;
}

generator<int> nothing() { co_return; }

TEST(Generator, YieldsItsValuesInOrder) {
  EXPECT_THAT(to_vector(count_to(3)), ElementsAre(1, 2, 3));
}

TEST(Generator, AGeneratorThatYieldsNothingIsEmpty) { EXPECT_TRUE(to_vector(nothing()).empty()); }

TEST(Generator, RunsOnlyAsFarAsItIsAsked) {
  int reached = 0;
  auto make = [](int& step) -> generator<int> {
    step = 1;
    co_yield 10;
    step = 2;
    co_yield 20;
    step = 3;
  };
  auto values = make(reached);
  EXPECT_EQ(reached, 0);
  auto each = values.begin();
  EXPECT_EQ(reached, 1);
  EXPECT_EQ(*each, 10);
  ++each;
  EXPECT_EQ(reached, 2);
  EXPECT_EQ(*each, 20);
  ++each;
  EXPECT_EQ(reached, 3);
  EXPECT_EQ(each, values.end());
}

TEST(Generator, WorksWithViews) {
  auto doubled = count_to(1'000'000'000) | std::views::take(3) |
                 std::views::transform([](int value) { return 2 * value; });
  EXPECT_THAT(to_vector(doubled), ElementsAre(2, 4, 6));
}

TEST(Generator, ReferencesReferToTheObjectsThemselves) {
  std::vector<int> numbers{1, 2, 3};
  auto each_of = [](std::vector<int>& of) -> generator<int&> {
    for (int& number : of) co_yield number;
  };
  for (int& number : each_of(numbers)) number *= 10;
  EXPECT_THAT(numbers, ElementsAre(10, 20, 30));
}

TEST(Generator, ValuesAreCopiedUnlessTheyAreTemporaries) {
  auto twice = [](const std::string& kept) -> generator<std::string> {
    co_yield kept;
    co_yield kept;
  };
  const std::string kept(100, 'x');
  std::vector<std::string> taken;
  for (std::string&& text : twice(kept)) taken.push_back(std::move(text));
  EXPECT_THAT(taken, ElementsAre(std::string(100, 'x'), std::string(100, 'x')));
}

TEST(Generator, YieldsWhatCanOnlyBeMoved) {
  auto make = []() -> generator<std::unique_ptr<int>> {
    co_yield std::make_unique<int>(1);
    auto second = std::make_unique<int>(2);
    co_yield std::move(second);
  };
  int sum = 0;
  for (std::unique_ptr<int> number : make()) sum += *number;
  EXPECT_EQ(sum, 3);
}

TEST(Generator, YieldsConvertedTemporariesByReference) {
  auto make = []() -> generator<const std::string&> {
    co_yield "one";
    co_yield std::string("two");
  };
  EXPECT_THAT(to_vector(make()), ElementsAre("one", "two"));
}

TEST(Generator, ThrowsWhatItsBodyThrowsAndIsThenAtItsEnd) {
  auto make = []() -> generator<int> {
    co_yield 1;
    throw std::runtime_error("broken");
  };
  auto values = make();
  auto each = values.begin();
  EXPECT_THROW(++each, std::runtime_error);
  EXPECT_EQ(each, values.end());
  auto failing = []() -> generator<int> {
    throw std::runtime_error("broken");
    co_return;
  }();
  EXPECT_THROW(failing.begin(), std::runtime_error);
}

TEST(Generator, DestroyedInTheMiddleDestroysItsLocals) {
  auto alive = std::make_shared<int>();
  {
    auto make = [](std::shared_ptr<int> held) -> generator<int> {
      const auto local = held;
      for (int i = 0;; ++i) co_yield i;
    };
    auto values = make(alive);
    auto each = values.begin();
    ++each;
    EXPECT_EQ(alive.use_count(), 3);
  }
  EXPECT_EQ(alive.use_count(), 1);
}

TEST(Generator, MovesAndSwaps) {
  auto first = count_to(2);
  auto second = std::move(first);
  first = count_to(3);
  std::swap(first, second);
  EXPECT_THAT(to_vector(first), ElementsAre(1, 2));
  EXPECT_THAT(to_vector(second), ElementsAre(1, 2, 3));
}

generator<int> walk_down(int depth) {
  co_yield depth;
  if (depth > 0) co_yield elements_of(walk_down(depth - 1));
  co_yield -depth;
}

TEST(Generator, NestsItself) {
  EXPECT_THAT(to_vector(walk_down(2)), ElementsAre(2, 1, 0, 0, -1, -2));
}

TEST(Generator, NestsDeeply) {
  constexpr int depth = 2000;
  int steps = 0;
  for (int value : walk_down(depth)) {
    ASSERT_EQ(value, steps <= depth ? depth - steps : depth + 1 - steps);
    ++steps;
  }
  EXPECT_EQ(steps, 2 * (depth + 1));
}

TEST(Generator, PassesAMillionEmptyOnesInConstantStack) {
  auto make = []() -> generator<int> {
    for (int i = 0; i < 1'000'000; ++i) co_yield elements_of(nothing());
    co_yield 1;
  };
  EXPECT_THAT(to_vector(make()), ElementsAre(1));
}

TEST(Generator, YieldsTheElementsOfOtherRanges) {
  auto make = [](std::vector<int>& some) -> generator<int> {
    co_yield elements_of(some);
    co_yield elements_of(std::list<int>(2, 7));
    co_yield elements_of(std::views::iota(20, 22));
  };
  std::vector<int> some{1, 2};
  EXPECT_THAT(to_vector(make(some)), ElementsAre(1, 2, 7, 7, 20, 21));
}

TEST(Generator, YieldsTheElementsOfAGeneratorOfAnotherType) {
  auto make = []() -> generator<long> { co_yield elements_of(count_to(2)); };
  EXPECT_THAT(to_vector(make()), ElementsAre(1L, 2L));
}

TEST(Generator, ElementsOfAnEmptiedGeneratorAreNone) {
  auto make = []() -> generator<int> {
    auto gone = count_to(3);
    const auto elsewhere = std::move(gone);
    co_yield elements_of(std::move(gone));
    co_yield 4;
  };
  EXPECT_THAT(to_vector(make()), ElementsAre(4));
}

TEST(Generator, CatchesWhatANestedOneThrowsAndGoesOn) {
  auto make = []() -> generator<int> {
    auto failing = []() -> generator<int> {
      co_yield 1;
      throw std::runtime_error("broken");
    };
    try {
      co_yield elements_of(failing());
    } catch (const std::runtime_error&) {
    }
    co_yield 2;
  };
  EXPECT_THAT(to_vector(make()), ElementsAre(1, 2));
}

TEST(Generator, PassesOnWhatANestedOneThrows) {
  auto make = []() -> generator<int> {
    co_yield elements_of([]() -> generator<int> {
      co_yield 1;
      throw std::runtime_error("broken");
    }());
    co_yield 2;
  };
  auto values = make();
  auto each = values.begin();
  EXPECT_THROW(++each, std::runtime_error);
  EXPECT_EQ(each, values.end());
}

TEST(Generator, DestroyedInTheMiddleDestroysNestedOnes) {
  auto alive = std::make_shared<int>(0);
  auto inner = [](std::shared_ptr<int> held) -> generator<int> {
    co_yield *held;
    co_yield *held;
  };
  auto outer = [&](std::shared_ptr<int> held) -> generator<int> {
    co_yield elements_of(inner(held));
  };
  {
    auto values = outer(alive);
    EXPECT_EQ(*values.begin(), 0);
    EXPECT_EQ(alive.use_count(), 3);
  }
  EXPECT_EQ(alive.use_count(), 1);
}

class counting_resource final : public std::pmr::memory_resource {
 public:
  std::size_t allocated = 0;
  std::size_t freed = 0;

 private:
  void* do_allocate(std::size_t bytes, std::size_t alignment) override {
    allocated += bytes;
    return std::pmr::new_delete_resource()->allocate(bytes, alignment);
  }
  void do_deallocate(void* memory, std::size_t bytes, std::size_t alignment) override {
    freed += bytes;
    std::pmr::new_delete_resource()->deallocate(memory, bytes, alignment);
  }
  bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }
};

// Not inlined: otherwise Clang elides the frame.
[[gnu::noinline]] generator<int> count_with(std::allocator_arg_t, std::pmr::polymorphic_allocator<>,
                                            int last) {
  for (int i = 1; i <= last; ++i) co_yield i;
}

TEST(Generator, TakesItsFrameFromAnAllocator) {
  counting_resource memory;
  EXPECT_THAT(to_vector(count_with(std::allocator_arg, &memory, 2)), ElementsAre(1, 2));
  EXPECT_GT(memory.allocated, 0U);
  EXPECT_EQ(memory.freed, memory.allocated);
}

TEST(Generator, WalksOverARangeInAFrameFromTheAllocatorOfElementsOf) {
  counting_resource memory;
  auto make = [](std::vector<int> some, std::pmr::polymorphic_allocator<> from) -> generator<int> {
    co_yield elements_of(some, from);
  };
  EXPECT_THAT(to_vector(make({1, 2}, &memory)), ElementsAre(1, 2));
  EXPECT_GT(memory.allocated, 0U);
  EXPECT_EQ(memory.freed, memory.allocated);
}

}  // namespace
}  // namespace generator_test
