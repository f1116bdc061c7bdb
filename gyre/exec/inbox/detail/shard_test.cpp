// SPDX-License-Identifier: Apache-2.0
#include <gyre/exec/inbox/detail/shard.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

namespace shard_test {
namespace {

using namespace gyre::inbox::detail;

struct test_shard : shard_base {
  explicit test_shard(std::atomic<int>& destroyed) : destroyed_(destroyed) {}
  ~test_shard() override { ++destroyed_; }
  std::atomic<int>& destroyed_;
};

TEST(InboxShard, LivesUntilThreadAndInboxHaveLetGo) {
  std::atomic<int> destroyed{0};
  auto* shard = new test_shard(destroyed);
  EXPECT_FALSE(shard->abandoned());
  shard->abandon();
  EXPECT_TRUE(shard->abandoned());
  EXPECT_EQ(destroyed, 0);
  shard->close();
  EXPECT_EQ(destroyed, 1);

  shard = new test_shard(destroyed);
  EXPECT_FALSE(shard->closed());
  shard->close();
  EXPECT_TRUE(shard->closed());
  EXPECT_EQ(destroyed, 1);
  shard->abandon();
  EXPECT_EQ(destroyed, 2);
}

TEST(InboxShard, IsDestroyedOnceWhenBothLetGoTogether) {
  std::atomic<int> destroyed{0};
  for (int round = 0; round < 200; ++round) {
    auto* const shard = new test_shard(destroyed);
    std::thread thread([&] { shard->abandon(); });
    shard->close();
    thread.join();
    EXPECT_EQ(destroyed, round + 1);
  }
}

TEST(InboxShardDirectory, InboxIdsAreNeverGivenTwice) {
  std::uint64_t last = next_inbox_id();
  EXPECT_NE(last, 0U);
  for (int i = 0; i < 100; ++i) {
    const std::uint64_t next = next_inbox_id();
    EXPECT_GT(next, last);
    last = next;
  }
}

TEST(InboxShardDirectory, FindsMoreShardsThanTheCacheHolds) {
  std::atomic<int> destroyed{0};
  constexpr std::size_t count = 5 * shard_cache::size;
  std::vector<std::uint64_t> ids;
  std::vector<test_shard*> shards;
  std::thread([&] {
    for (std::size_t i = 0; i < count; ++i) {
      ids.push_back(next_inbox_id());
      EXPECT_EQ(find_shard(ids.back()), nullptr);
      shards.push_back(new test_shard(destroyed));
      EXPECT_TRUE(keep_shard(ids.back(), shards.back()));
    }
    for (std::size_t i = 0; i < count; ++i) {
      EXPECT_EQ(find_shard(ids[i]), shards[i]);
      const auto& cached = this_thread_shards.entries[ids[i] % shard_cache::size];
      EXPECT_EQ(cached.inbox, ids[i]) << "what was found is cached";
      EXPECT_EQ(cached.shard, shards[i]);
    }
  }).join();
  for (test_shard* each : shards) {
    EXPECT_TRUE(each->abandoned()) << "the thread's end abandons its shards";
    each->close();
  }
  EXPECT_EQ(destroyed, static_cast<int>(count));
}

TEST(InboxShardDirectory, BelongsToItsThread) {
  std::atomic<int> destroyed{0};
  const std::uint64_t id = next_inbox_id();
  std::thread([&] {
    auto* const mine = new test_shard(destroyed);
    ASSERT_TRUE(keep_shard(id, mine));
    std::thread([&] { EXPECT_EQ(find_shard(id), nullptr); }).join();
    EXPECT_EQ(find_shard(id), mine);
    mine->close();
  }).join();
  EXPECT_EQ(destroyed, 1);
}

TEST(InboxShardDirectory, ForgetsClosedShardsWhenANewOneComes) {
  std::atomic<int> destroyed{0};
  std::thread([&] {
    const std::uint64_t closed = next_inbox_id();
    const std::uint64_t open = next_inbox_id();
    auto* const first = new test_shard(destroyed);
    ASSERT_TRUE(keep_shard(closed, first));
    first->close();
    EXPECT_EQ(destroyed, 0);
    auto* const second = new test_shard(destroyed);
    ASSERT_TRUE(keep_shard(open, second));
    EXPECT_EQ(destroyed, 1);
    EXPECT_EQ(find_shard(closed), nullptr);
    EXPECT_EQ(find_shard(open), second);
    EXPECT_EQ(this_thread_shards.entries[closed % shard_cache::size].inbox == closed, false);
    second->close();
  }).join();
  EXPECT_EQ(destroyed, 2);
}

}  // namespace
}  // namespace shard_test
