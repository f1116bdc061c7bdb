// SPDX-License-Identifier: Apache-2.0
// Tests of the strategy by which a loop lets tasks gather before a batch: how often it looks, and
// how large the batch is. The inbox follows a script, so that they do not depend on time.
#include <gyre/exec/detail/wait_strategy.hpp>

#include <gyre/exec/inbox/inbox.hpp>
#include <gyre/exec/loop.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <utility>
#include <vector>

namespace wait_strategy_test {
namespace {

using gyre::detail::wait_strategy;

// Has no tasks; each look at how many wait takes the next number of the script, or its last one.
class scripted_inbox {
 public:
  static constexpr auto order = gyre::inbox::ordering::total;

  static inline std::vector<std::size_t> script;
  static inline std::size_t looks = 0;
  static inline gyre::event_loop* stopped_at_end = nullptr;  // by the last look of the script

  template <class F>
  void push(F&&) {}
  static void run(gyre::inbox::batch&) {}
  static bool ready() noexcept { return false; }
  static std::size_t pending() noexcept {
    const std::size_t look = looks++;
    if (stopped_at_end != nullptr && look + 1 == script.size()) stopped_at_end->stop();
    return script[std::min(look, script.size() - 1)];
  }
};

class Gathering : public testing::Test {
 protected:
  static constexpr std::size_t limit = 10'000;
  static constexpr std::size_t large_batch = 16;

  ~Gathering() override { scripted_inbox::stopped_at_end = nullptr; }

  std::size_t next_batch(std::vector<std::size_t> waiting, bool is_watching = false) {
    scripted_inbox::script = std::move(waiting);
    scripted_inbox::looks = 0;
    return strategy_.next_batch(loop_, is_watching, limit);
  }
  static std::size_t looks() { return scripted_inbox::looks; }

  gyre::basic_loop<scripted_inbox> loop_;
  wait_strategy strategy_{std::chrono::nanoseconds::zero()};
};

TEST_F(Gathering, IsForLargeBatchesOfALoopThatWatchesNothing) {
  EXPECT_EQ(next_batch({1}), limit);
  EXPECT_EQ(looks(), 0u) << "no batch has run yet";
  strategy_.record_batch(large_batch - 1);
  EXPECT_EQ(next_batch({1}), limit);
  EXPECT_EQ(looks(), 0u) << "the last batch was small";
  strategy_.record_batch(large_batch);
  EXPECT_EQ(next_batch({1}, true), limit);
  EXPECT_EQ(looks(), 0u) << "descriptors must not wait for tasks";
  EXPECT_EQ(next_batch({1}), limit);
  EXPECT_GT(looks(), 0u);
}

TEST_F(Gathering, TasksThatWaitInLargeNumbersMakeABatchAtOnce) {
  strategy_.record_batch(large_batch);
  EXPECT_EQ(next_batch({256, 300}), 256u);
  EXPECT_EQ(looks(), 1u);
  EXPECT_EQ(next_batch({2 * limit}), limit);
}

TEST_F(Gathering, LastsWhileTasksComeUntilEnoughWait) {
  strategy_.record_batch(large_batch);
  EXPECT_EQ(next_batch({10, 1000, 2000, 2048, 3000}), 2048u);
  EXPECT_EQ(looks(), 4u);
}

TEST_F(Gathering, EndsWhenNoMoreTasksCome) {
  strategy_.record_batch(large_batch);
  EXPECT_EQ(next_batch({10, 500, 500, 600}), 500u);
  EXPECT_EQ(looks(), 3u);
}

TEST_F(Gathering, AFewTasksAreNoLimit) {
  strategy_.record_batch(large_batch);
  EXPECT_EQ(next_batch({10, 20, 20}), limit) << "those that come meanwhile run in the same batch";
}

TEST_F(Gathering, EndsAfterSomeLooksThoughTasksComeSlowly) {
  strategy_.record_batch(large_batch);
  std::vector<std::size_t> one_by_one(1000);
  for (std::size_t i = 0; i < one_by_one.size(); ++i) one_by_one[i] = i;
  EXPECT_EQ(next_batch(one_by_one), limit);
  EXPECT_EQ(looks(), 33u) << "one before it begins, and 32 while it lasts";
}

TEST_F(Gathering, EndsWhenTheLoopIsStopped) {
  strategy_.record_batch(large_batch);
  scripted_inbox::stopped_at_end = &loop_;
  EXPECT_EQ(next_batch({10, 20, 300}), 300u);
  EXPECT_EQ(looks(), 3u);
}

TEST_F(Gathering, IsTriedLessOftenWhileItIsInVain) {
  strategy_.record_batch(large_batch);
  const auto looks_of = [&](int opportunities) {
    std::size_t sum = 0;
    for (int i = 0; i < opportunities; ++i) {
      next_batch({10, 10});
      sum += looks() - 1;  // besides the one before it begins
    }
    return sum;
  };
  EXPECT_EQ(looks_of(1), 1u);
  EXPECT_EQ(looks_of(7), 0u);
  EXPECT_EQ(looks_of(1), 1u);
  EXPECT_EQ(looks_of(15), 0u) << "the pauses become longer";
  EXPECT_EQ(looks_of(1), 1u);
  EXPECT_EQ(looks_of(31), 0u);
  next_batch({10, 20, 20});  // some come, and it pays again
  EXPECT_EQ(looks(), 3u);
  EXPECT_EQ(looks_of(1), 1u);
}

}  // namespace
}  // namespace wait_strategy_test
