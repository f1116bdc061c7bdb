// SPDX-License-Identifier: Apache-2.0
#include <gyre/exec/inbox/inbox.hpp>

#include <gtest/gtest.h>

namespace inbox_test {
namespace {

using gyre::inbox::batch;

TEST(InboxBatch, HasRoomUntilATaskEndsIt) {
  batch some(2);
  EXPECT_TRUE(some.more());
  EXPECT_FALSE(some.full());
  EXPECT_EQ(some.ran(), 0U);
  some.end();
  EXPECT_FALSE(some.more());
  EXPECT_EQ(some.ran(), 0U);
}

TEST(InboxBatch, AnEmptyBatchIsFull) {
  const batch none(0);
  EXPECT_FALSE(none.more());
  EXPECT_TRUE(none.full());
}

}  // namespace
}  // namespace inbox_test
