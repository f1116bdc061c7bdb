// SPDX-License-Identifier: Apache-2.0
//
// Tests of the doubly linked intrusive list.
#include <gyre/base/intrusive_list.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace intrusive_list_test {
namespace {

struct item : gyre::intrusive_list_node {
  explicit item(int number) : value{number} {}
  int value;
};

using list = gyre::intrusive_list<item>;

std::vector<int> values(list& from) {
  std::vector<int> found;
  for (item& each : from) found.push_back(each.value);
  return found;
}

using testing::ElementsAre;

TEST(IntrusiveList, KeepsTheOrderOfPushes) {
  item a{1}, b{2}, c{3};
  list items;
  items.push_back(b);
  items.push_back(c);
  items.push_front(a);
  EXPECT_THAT(values(items), ElementsAre(1, 2, 3));
  EXPECT_EQ(items.front().value, 1);
  EXPECT_EQ(items.back().value, 3);
}

TEST(IntrusiveList, PopsFromBothEndsAndThenNothing) {
  item a{1}, b{2}, c{3};
  list items;
  for (item* each : {&a, &b, &c}) items.push_back(*each);
  EXPECT_EQ(items.pop_front(), &a);
  EXPECT_EQ(items.pop_back(), &c);
  EXPECT_EQ(items.pop_back(), &b);
  EXPECT_EQ(items.pop_back(), nullptr);
  EXPECT_EQ(items.pop_front(), nullptr);
  EXPECT_TRUE(items.empty());
}

TEST(IntrusiveList, ElementLeavesWithoutKnowingTheList) {
  item a{1}, b{2}, c{3};
  list items;
  for (item* each : {&a, &b, &c}) items.push_back(*each);
  b.unlink();
  EXPECT_FALSE(b.is_linked());
  b.unlink();
  EXPECT_THAT(values(items), ElementsAre(1, 3));
  items.push_back(b);
  EXPECT_THAT(values(items), ElementsAre(1, 3, 2));
}

TEST(IntrusiveList, InsertAndEraseAtPosition) {
  item a{1}, b{2}, c{3};
  list items;
  items.push_back(c);
  const auto at_b = items.insert(items.begin(), b);
  items.insert(at_b, a);
  EXPECT_THAT(values(items), ElementsAre(1, 2, 3));
  const auto after = items.erase(at_b);
  EXPECT_EQ(after->value, 3);
  EXPECT_THAT(values(items), ElementsAre(1, 3));
  EXPECT_EQ((--items.end())->value, 3);
}

TEST(IntrusiveList, SpliceAppendsAllAndEmptiesTheOther) {
  item a{1}, b{2}, c{3};
  list first, second;
  first.push_back(a);
  second.push_back(b);
  second.push_back(c);
  first.splice_back(second);
  EXPECT_THAT(values(first), ElementsAre(1, 2, 3));
  EXPECT_TRUE(second.empty());
  first.splice_back(second);
  first.splice_back(first);
  EXPECT_THAT(values(first), ElementsAre(1, 2, 3));
}

TEST(IntrusiveList, MoveTakesTheElements) {
  item a{1}, b{2}, c{3};
  list source;
  source.push_back(a);
  source.push_back(b);
  list target{std::move(source)};
  EXPECT_THAT(values(target), ElementsAre(1, 2));
  list assigned;
  assigned.push_back(c);
  assigned = std::move(target);
  EXPECT_THAT(values(assigned), ElementsAre(1, 2));
  EXPECT_FALSE(c.is_linked());
}

TEST(IntrusiveList, DestroyedListLetsItsElementsGo) {
  item a{1};
  {
    list items;
    items.push_back(a);
    EXPECT_TRUE(a.is_linked());
  }
  EXPECT_FALSE(a.is_linked());
}

struct by_age : gyre::intrusive_list_node {};
struct by_name : gyre::intrusive_list_node {};
struct person : by_age, by_name {};

TEST(IntrusiveList, ElementIsInTwoListsThroughTwoNodes) {
  person one, two;
  gyre::intrusive_list<person, by_age> ages;
  gyre::intrusive_list<person, by_name> names;
  ages.push_back(one);
  ages.push_back(two);
  names.push_back(two);
  names.push_back(one);
  EXPECT_EQ(&ages.front(), &one);
  EXPECT_EQ(&names.front(), &two);
  one.by_age::unlink();
  EXPECT_EQ(&ages.front(), &two);
  EXPECT_EQ(&names.back(), &one);
}

TEST(IntrusiveList, CopyOfAnElementIsInNoList) {
  item a{1};
  list items;
  items.push_back(a);
  item copy{a};
  EXPECT_FALSE(copy.is_linked());
  copy = a;
  EXPECT_FALSE(copy.is_linked());
  EXPECT_THAT(values(items), ElementsAre(1));
}

#if !defined(NDEBUG)
TEST(IntrusiveListDeathTest, SecondMembershipIsCaughtInDebugBuilds) {
  item a{1};
  list items, others;
  items.push_back(a);
  EXPECT_DEATH(others.push_back(a), "already in a list");
}

TEST(IntrusiveListDeathTest, DestroyingALinkedElementIsCaughtInDebugBuilds) {
  EXPECT_DEATH(
      {
        list items;
        item a{1};
        items.push_back(a);
      },
      "destroyed while in a list");
}
#endif

}  // namespace
}  // namespace intrusive_list_test
