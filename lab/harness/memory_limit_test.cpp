// SPDX-License-Identifier: Apache-2.0
#include <lab/harness/memory_limit.hpp>

#include <lab/harness/memory.hpp>

#include <gtest/gtest.h>

#include <sys/resource.h>

#include <csignal>
#include <cstddef>
#include <iostream>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace lab {
namespace memory_limit_test {
namespace {

class MemoryLimitDeathTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!allocations()) GTEST_SKIP() << "the sanitizer has its own malloc";
  }

  static void say(const std::string& what) { std::cerr << "said: " << what << std::endl; }

  static std::size_t fill() {
    std::vector<std::unique_ptr<std::vector<char>>> hoard;
    for (;;) hoard.push_back(std::make_unique<std::vector<char>>(1 << 20, 'x'));
  }
};

TEST_F(MemoryLimitDeathTest, ThreadThatFindsNoMemoryEndsTheProcessInGoodOrder) {
  EXPECT_EXIT(
      {
        const memory_limit limit(200, say);
        std::jthread(fill).join();
      },
      testing::ExitedWithCode(memory_limit::exit_status),
      "said: out of memory after [0-9.]+ s with 200 MiB");
}

TEST_F(MemoryLimitDeathTest, SeveralThreadsThatFindNoMemorySpeakOnce) {
  EXPECT_EXIT(
      {
        const memory_limit limit(300, say);
        std::vector<std::jthread> threads;
        for (int i = 0; i < 4; ++i) threads.emplace_back(fill);
      },
      testing::ExitedWithCode(memory_limit::exit_status), "^said: [^\n]*\n$");
}

TEST_F(MemoryLimitDeathTest, LastWordsHaveMemoryAgain) {
  EXPECT_EXIT(
      {
        const memory_limit limit(200, [](const std::string& what) {
          say(what + std::string(std::vector<char>(300 << 20).size() > 0 ? ", and more" : ""));
        });
        std::jthread(fill).join();
      },
      testing::ExitedWithCode(memory_limit::exit_status), "and more");
}

TEST_F(MemoryLimitDeathTest, OtherUncaughtExceptionsStillAbort) {
  EXPECT_EXIT(
      {
        const memory_limit limit(200, say);
        std::jthread([] { throw std::runtime_error("something else"); }).join();
      },
      testing::KilledBySignal(SIGABRT), "something else");
}

TEST(MemoryLimit, IsLiftedAtItsEnd) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_DATA, &before), 0);
  {
    const memory_limit limit(before.rlim_cur == RLIM_INFINITY ? 1ull << 30 : before.rlim_cur >> 21,
                             [](const std::string&) {});
    rlimit during{};
    ASSERT_EQ(getrlimit(RLIMIT_DATA, &during), 0);
    EXPECT_LT(during.rlim_cur, before.rlim_cur);
  }
  rlimit after{};
  ASSERT_EQ(getrlimit(RLIMIT_DATA, &after), 0);
  EXPECT_EQ(after.rlim_cur, before.rlim_cur);
}

}  // namespace
}  // namespace memory_limit_test
}  // namespace lab
