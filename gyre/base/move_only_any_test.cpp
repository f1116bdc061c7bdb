// SPDX-License-Identifier: Apache-2.0
#include <gyre/base/move_only_any.hpp>

#include <gyre/base/slab.hpp>

#include <gtest/gtest.h>

#include <any>
#include <array>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <typeinfo>
#include <utility>
#include <vector>

namespace move_only_any_test {
namespace {

using gyre::any_cast;
using gyre::move_only_any;

static_assert(sizeof(move_only_any) == 16);
static_assert(!std::is_copy_constructible_v<move_only_any>);
static_assert(std::is_nothrow_move_constructible_v<move_only_any>);
static_assert(std::is_nothrow_move_assignable_v<move_only_any>);

std::size_t slab_blocks() { return gyre::read_slab_stats().blocks_in_use; }

TEST(MoveOnlyAny, HoldsAValueThatCannotBeCopied) {
  move_only_any held = std::make_unique<int>(7);
  ASSERT_NE(held.get_if<std::unique_ptr<int>>(), nullptr);
  EXPECT_EQ(**held.get_if<std::unique_ptr<int>>(), 7);
  EXPECT_EQ(held.type(), typeid(std::unique_ptr<int>));
  move_only_any moved = std::move(held);
  EXPECT_FALSE(held.has_value());  // NOLINT: it is empty, as documented
  const std::unique_ptr<int> taken = any_cast<std::unique_ptr<int>>(std::move(moved));
  EXPECT_EQ(*taken, 7);
}

TEST(MoveOnlyAny, GivesNothingForAnotherType) {
  move_only_any held = 7;
  EXPECT_EQ(held.get_if<long>(), nullptr);
  EXPECT_EQ(any_cast<long>(&held), nullptr);
  EXPECT_THROW(static_cast<void>(any_cast<long>(held)), std::bad_any_cast);
  EXPECT_EQ(any_cast<int>(held), 7);
  any_cast<int&>(held) = 8;
  const move_only_any& constant = held;
  EXPECT_EQ(*constant.get_if<int>(), 8);
  EXPECT_EQ(any_cast<int>(constant), 8);
  EXPECT_EQ(*any_cast<int>(&constant), 8);
  EXPECT_EQ(any_cast<int>(static_cast<move_only_any*>(nullptr)), nullptr);
}

TEST(MoveOnlyAny, IsEmptyUntilItGetsAValueAndAfterReset) {
  move_only_any held;
  EXPECT_FALSE(held.has_value());
  EXPECT_EQ(held.type(), typeid(void));
  EXPECT_EQ(held.get_if<int>(), nullptr);
  held = std::string("text");
  EXPECT_EQ(*held.get_if<std::string>(), "text");
  held.reset();
  EXPECT_FALSE(held.has_value());
  held.reset();
}

TEST(MoveOnlyAny, KeepsSmallValuesInlineAndOthersInTheSlab) {
  const std::size_t before = slab_blocks();
  {
    move_only_any small = std::make_unique<int>(1);
    const void* const at = small.get_if<std::unique_ptr<int>>();
    EXPECT_TRUE(at >= static_cast<void*>(&small) && at < static_cast<void*>(&small + 1));
    EXPECT_EQ(slab_blocks(), before);
    move_only_any large = std::array<std::uint64_t, 4>{1, 2, 3, 4};
    EXPECT_EQ(slab_blocks(), before + 1);
    const auto* const stays = large.get_if<std::array<std::uint64_t, 4>>();
    move_only_any moved = std::move(large);
    EXPECT_EQ((moved.get_if<std::array<std::uint64_t, 4>>()), stays);
    struct alignas(64) aligned {
      char byte = 1;
    };
    move_only_any strict = aligned();
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(strict.get_if<aligned>()) % 64, 0u);
  }
  EXPECT_EQ(slab_blocks(), before);
}

TEST(MoveOnlyAny, DestroysEachValueOnce) {
  const auto counted = std::make_shared<int>();
  {
    move_only_any first = counted;  // too large for inline
    move_only_any second = std::make_unique<std::shared_ptr<int>>(counted);
    EXPECT_EQ(counted.use_count(), 3);
    std::swap(first, second);
    first.swap(second);
    swap(first, second);
    EXPECT_EQ(counted.use_count(), 3);
    second = 1;
    EXPECT_EQ(counted.use_count(), 2);
    second = std::move(first);
    move_only_any& itself = second;
    second = std::move(itself);
    EXPECT_EQ(counted.use_count(), 2);
    first.emplace<std::shared_ptr<int>>(counted);
    EXPECT_EQ(counted.use_count(), 3);
  }
  EXPECT_EQ(counted.use_count(), 1);
}

TEST(MoveOnlyAny, ConstructsInPlaceWhatCannotEvenBeMoved) {
  struct fixed {
    explicit fixed(int value) : number(value) {}
    fixed(const fixed&) = delete;
    int number;
  };
  move_only_any held(std::in_place_type<fixed>, 7);
  EXPECT_EQ(held.get_if<fixed>()->number, 7);
  EXPECT_EQ(held.emplace<fixed>(8).number, 8);
  move_only_any moved = std::move(held);
  EXPECT_EQ(moved.get_if<fixed>()->number, 8);
  EXPECT_EQ(moved.emplace<std::vector<int>>({1, 2, 3}).size(), 3u);
}

TEST(MoveOnlyAny, KeepsItsValueWhenAnotherCannotBeMade) {
  struct throwing {
    throwing() = default;
    throwing(const throwing&) { throw std::runtime_error("copied"); }
  };
  move_only_any held = 7;
  const throwing source;
  EXPECT_THROW(held = source, std::runtime_error);
  EXPECT_EQ(any_cast<int>(held), 7);
  EXPECT_THROW(held.emplace<throwing>(source), std::runtime_error);
  EXPECT_FALSE(held.has_value());
}

}  // namespace
}  // namespace move_only_any_test
