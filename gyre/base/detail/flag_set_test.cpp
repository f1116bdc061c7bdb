// SPDX-License-Identifier: Apache-2.0
#include <gyre/base/detail/flag_set.hpp>

#include <gtest/gtest.h>

#include <cstdint>

namespace flag_set_test {
namespace {

enum class mark : std::uint8_t { red = 1, green = 2, blue = 128 };
using marks = gyre::detail::flag_set<mark>;

static_assert(sizeof(marks) == sizeof(mark));

TEST(FlagSet, BeginsEmpty) {
  const marks none;
  EXPECT_TRUE(none.empty());
  EXPECT_FALSE(none.has(mark::red));
  EXPECT_FALSE(none.has_any(marks(mark::red) | mark::green | mark::blue));
}

TEST(FlagSet, HasTheFlagsThatWereInserted) {
  marks some = mark::red;
  some.insert(mark::blue);
  EXPECT_TRUE(some.has(mark::red));
  EXPECT_FALSE(some.has(mark::green));
  EXPECT_TRUE(some.has(mark::blue));
  EXPECT_TRUE(some.has_any(marks(mark::green) | mark::blue));
  some.insert(mark::blue);
  EXPECT_EQ(some, marks(mark::red) | mark::blue);
}

TEST(FlagSet, LosesTheFlagsThatWereErased) {
  marks some = marks(mark::red) | mark::green | mark::blue;
  some.erase(mark::green);
  EXPECT_EQ(some, marks(mark::red) | mark::blue);
  some.erase(mark::green);
  EXPECT_EQ(some, marks(mark::red) | mark::blue);
  some.erase(marks(mark::red) | mark::blue);
  EXPECT_TRUE(some.empty());
}

TEST(FlagSet, ClearErasesAll) {
  marks some = marks(mark::red) | mark::green;
  some.clear();
  EXPECT_EQ(some, marks());
}

TEST(FlagSet, ADifferenceLeavesItsOperands) {
  const marks all = marks(mark::red) | mark::green | mark::blue;
  const marks left = all - (marks(mark::green) | mark::blue);
  EXPECT_EQ(left, marks(mark::red));
  EXPECT_TRUE(all.has(mark::green));
  EXPECT_EQ(left - mark::blue, left) << "what is not there cannot be taken away";
}

static_assert((marks(mark::red) | mark::blue).has(mark::blue));

}  // namespace
}  // namespace flag_set_test
