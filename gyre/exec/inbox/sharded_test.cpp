// SPDX-License-Identifier: Apache-2.0
// Tests of the sharded inbox; inbox_stress_test.cpp has those with many threads. In small segments
// tasks often reach the end, where segments are linked and reused.
#include <gyre/exec/inbox/sharded.hpp>

#include <gyre/exec/inbox/inbox_test_suite.hpp>
#include <gyre/exec/inbox/own_inboxes_test_support.hpp>

#include <memory>
#include <thread>
#include <vector>

namespace gyre::inbox::suite {

INSTANTIATE_TYPED_TEST_SUITE_P(sharded, InboxSuite, sharded_inboxes);

static_assert(sharded::order == ordering::per_producer);

template <class Inbox>
class Sharded : public ::testing::Test {};
TYPED_TEST_SUITE(Sharded, sharded_inboxes);

TYPED_TEST(Sharded, ALoopThatPostsToItselfPassesTheHighWaterMark) {
  const int tasks = static_cast<int>(TypeParam::high_water) + 600;
  TypeParam inbox;
  std::vector<int> seen;
  inbox.push([&] {
    for (int i = 0; i < tasks; ++i) inbox.push([&seen, i] { seen.push_back(i); });
  });
  EXPECT_EQ(run(inbox), 1 + static_cast<std::size_t>(tasks));
  EXPECT_EQ(seen, numbers_up_to(tasks));
}

TYPED_TEST(Sharded, AnInboxAtTheAddressOfADeadOneIsAnother) {
  fates told;
  alignas(TypeParam) std::byte place[sizeof(TypeParam)];
  for (int i = 0; i < 50; ++i) {
    auto* const inbox = ::new (static_cast<void*>(place)) TypeParam;
    inbox->push(sized_task<16>(told));
    EXPECT_EQ(inbox->pending(), 1U);
    if (i % 2 == 0) {
      EXPECT_EQ(run(*inbox), 1U);
    }
    std::destroy_at(inbox);
    EXPECT_EQ(told.destroyed, i + 1);
  }
  EXPECT_EQ(told.run, 25);
}

// Posts at the end of its thread, from the destructor of a thread-local.
template <class Inbox>
struct last_post {
  Inbox* inbox = nullptr;
  fates* told = nullptr;
  ~last_post() {
    if (inbox == nullptr) return;
    for (int i = 0; i < 5; ++i) inbox->push(sized_task<24>(*told));
    inbox->push(sized_task<100>(*told));
  }
};

template <class Inbox>
last_post<Inbox>& last_post_of_this_thread() {
  thread_local last_post<Inbox> posts;
  return posts;
}

TYPED_TEST(Sharded, AThreadMayPostWhileItsThreadLocalsAreDestroyed) {
  fates told;
  constexpr int threads = 20;
  {
    TypeParam inbox;
    for (int i = 0; i < threads; ++i) {
      std::thread([&, posts_before = i % 2 == 0] {
        // Made before the thread's list of shards, so destroyed after it.
        last_post<TypeParam>& last = last_post_of_this_thread<TypeParam>();
        last.inbox = &inbox;
        last.told = &told;
        if (posts_before) inbox.push(sized_task<24>(told));
      }).join();
    }
    EXPECT_EQ(inbox.pending(), threads * 6U + threads / 2);
    EXPECT_EQ(run(inbox, threads * 3), threads * 3U);
    EXPECT_EQ(told.run, threads * 3);
  }
  EXPECT_EQ(told.destroyed, threads * 6 + threads / 2) << "the rest is destroyed with the inbox";
}

TYPED_TEST(Sharded, EveryProducerHasItsTurn) {
  TypeParam inbox;
  int before_the_small_ones = 0;
  int small_ones = 0;
  std::thread([&] {
    for (int i = 0; i < 8000; ++i) inbox.push([&] { before_the_small_ones += small_ones < 5; });
  }).join();
  for (int i = 0; i < 5; ++i) std::thread([&] { inbox.push([&] { ++small_ones; }); }).join();
  EXPECT_EQ(run(inbox), 8005U);
  EXPECT_LT(before_the_small_ones, 2000) << "a producer of many tasks starves the others";
}

}  // namespace gyre::inbox::suite
