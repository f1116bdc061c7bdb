// SPDX-License-Identifier: Apache-2.0
//
// Tests of the singly linked intrusive queue.
#include <gyre/base/intrusive_queue.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace intrusive_queue_test {
namespace {

struct item : gyre::intrusive_node {
  explicit item(int number) : value{number} {}
  int value;
};

using queue = gyre::intrusive_queue<item>;

std::vector<int> drained(queue& from) {
  std::vector<int> values;
  while (item* each = from.pop_front()) values.push_back(each->value);
  return values;
}

using testing::ElementsAre;

TEST(IntrusiveQueue, FirstInIsFirstOut) {
  item a{1}, b{2}, c{3};
  queue items;
  EXPECT_TRUE(items.empty());
  EXPECT_EQ(items.front(), nullptr);
  for (item* each : {&a, &b, &c}) items.push_back(*each);
  EXPECT_EQ(items.front(), &a);
  EXPECT_THAT(drained(items), ElementsAre(1, 2, 3));
  EXPECT_EQ(items.pop_front(), nullptr);
}

TEST(IntrusiveQueue, PushFrontGoesAhead) {
  item a{1}, b{2}, c{3};
  queue items;
  items.push_front(b);
  items.push_back(c);
  items.push_front(a);
  EXPECT_THAT(drained(items), ElementsAre(1, 2, 3));
}

TEST(IntrusiveQueue, ElementMayReturnAfterItWasTaken) {
  item a{1}, b{2};
  queue items;
  items.push_back(a);
  items.push_back(b);
  items.push_back(*items.pop_front());
  EXPECT_THAT(drained(items), ElementsAre(2, 1));
  items.push_back(a);
  EXPECT_THAT(drained(items), ElementsAre(1));
}

TEST(IntrusiveQueue, SpliceAppendsAllAndEmptiesTheOther) {
  item a{1}, b{2}, c{3}, d{4};
  queue first, second;
  first.splice_back(second);
  second.push_back(a);
  second.push_back(b);
  first.splice_back(second);
  EXPECT_TRUE(second.empty());
  second.push_back(c);
  first.splice_back(second);
  first.splice_back(first);
  first.push_back(d);
  EXPECT_THAT(drained(first), ElementsAre(1, 2, 3, 4));
}

TEST(IntrusiveQueue, MoveTakesTheElements) {
  item a{1}, b{2};
  queue source;
  source.push_back(a);
  queue target{std::move(source)};
  EXPECT_TRUE(source.empty());  // NOLINT(bugprone-use-after-move): stated
  source.push_back(b);
  source = std::move(target);
  EXPECT_THAT(drained(source), ElementsAre(1));
}

#if !defined(NDEBUG)
TEST(IntrusiveQueueDeathTest, SecondMembershipIsCaughtInDebugBuilds) {
  item a{1}, b{2};
  queue items, others;
  items.push_back(a);
  items.push_back(b);
  EXPECT_DEATH(others.push_back(a), "already in a queue");
  EXPECT_DEATH(items.push_back(b), "already in a queue");
}
#endif

}  // namespace
}  // namespace intrusive_queue_test
