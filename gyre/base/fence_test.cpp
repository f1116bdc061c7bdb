// SPDX-License-Identifier: Apache-2.0
//
// Tests of the asymmetric fence by Dekker's entry protocol: without a store-load barrier on both
// sides the threads miss each other's store again and again, on x86 as well.
#include <gyre/base/atomic.hpp>
#include <gyre/base/cache_line.hpp>
#include <gyre/base/fence.hpp>

#include <gtest/gtest.h>

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <iterator>
#include <thread>

namespace fence_test {
namespace {

using std::memory_order_acquire;
using std::memory_order_relaxed;
using std::memory_order_release;

struct rounds {
  alignas(gyre::false_sharing_range) std::atomic<int> hot{0};
  alignas(gyre::false_sharing_range) std::atomic<int> cold{0};
  alignas(gyre::false_sharing_range) std::atomic<int> started{0};
  alignas(gyre::false_sharing_range) std::atomic<int> done{0};
};

void wait_for(const std::atomic<int>& flag, int value) {
  for (int spins = 0; flag.load(memory_order_acquire) != value; ++spins) {
    spins < 100 ? gyre::detail::cpu_relax() : gyre::detail::thread_yield();
  }
}

// A delay of some cycles: a new round reaches the other thread after a few hundred cycles, and both
// threads should sometimes act at the same time.
void pause_for(int steps) {
  for (int i = 0; i < steps; ++i) std::atomic_signal_fence(std::memory_order_seq_cst);
}

// Plays rounds of "raise the own flag, fence, read the other's flag" and returns the number of
// rounds in which both threads missed the other's flag.
int missed_by_both(int count) {
  rounds shared;
  int hot_saw = 0;
  std::thread hot{[&] {
    for (int round = 1; round <= count; ++round) {
      wait_for(shared.started, round);
      shared.hot.store(round, memory_order_relaxed);
      gyre::asymmetric_light_fence();
      hot_saw = shared.cold.load(memory_order_relaxed);
      shared.done.store(round, memory_order_release);
    }
  }};
  int missed = 0;
  for (int round = 1; round <= count; ++round) {
    shared.started.store(round, memory_order_release);
    pause_for(round % 1024);
    shared.cold.store(round, memory_order_relaxed);
    gyre::asymmetric_heavy_fence();
    const int cold_saw = shared.hot.load(memory_order_relaxed);
    wait_for(shared.done, round);
    if (hot_saw != round && cold_saw != round) ++missed;
  }
  hot.join();
  return missed;
}

// Parameter: whether the fences are symmetric.
class AsymmetricFence : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override { gyre::detail::force_symmetric_fences(GetParam()); }
  void TearDown() override { gyre::detail::force_symmetric_fences(false); }
};

TEST_P(AsymmetricFence, OneOfTwoThreadsSeesTheOther) { EXPECT_EQ(missed_by_both(20'000), 0); }

TEST_P(AsymmetricFence, WorksInAForkedChild) {
  const bool in_parent = gyre::asymmetric_fence_uses_membarrier();
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    gyre::asymmetric_light_fence();
    gyre::asymmetric_heavy_fence();
    ::_exit(gyre::asymmetric_fence_uses_membarrier() == in_parent ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST_P(AsymmetricFence, LightFenceIsFreeOnlyWithMembarrier) {
  EXPECT_EQ(gyre::detail::light_fence_is_free.load(), gyre::asymmetric_fence_uses_membarrier());
  if (GetParam()) {
    EXPECT_FALSE(gyre::asymmetric_fence_uses_membarrier());
  }
}

INSTANTIATE_TEST_SUITE_P(Fences, AsymmetricFence, testing::Bool(), [](const auto& parameter) {
  return parameter.param ? "Symmetric" : "AsTheSystemOffers";
});

TEST(AsymmetricFenceDeathTest, EnvironmentSwitchesMembarrierOff) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";  // starts the program again
  ::setenv("GYRE_MEMBARRIER", "0", 1);
  EXPECT_EXIT(
      {
        gyre::asymmetric_heavy_fence();
        ::_exit(gyre::asymmetric_fence_uses_membarrier() ? 1 : 0);
      },
      testing::ExitedWithCode(0), "");
  ::unsetenv("GYRE_MEMBARRIER");
}

// Makes membarrier(2) fail in this process from now on, as in a sandbox.
bool forbid_membarrier() {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_membarrier, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter{.len = std::size(program), .filter = program};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

TEST(AsymmetricFenceDeathTest, LosingMembarrierEndsTheProgramInsteadOfRacing) {
  if (!gyre::asymmetric_fence_uses_membarrier()) GTEST_SKIP() << "no membarrier(2) here";
  EXPECT_DEATH(
      {
        if (forbid_membarrier()) gyre::asymmetric_heavy_fence();
      },
      "membarrier.2. was taken away");
}

}  // namespace
}  // namespace fence_test
