// SPDX-License-Identifier: Apache-2.0
// Tests of what a loop's sleep costs: no barrier on other threads where none of them posts.
#include <gyre/exec/loop.hpp>

#include <gyre/base/fence.hpp>
#include <gyre/exec/timer.hpp>
#include <tests/support/refused_system_calls.hpp>

#include <gtest/gtest.h>

#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <semaphore>
#include <thread>

// Writes the coverage profile, in a build that keeps one: _exit() does not.
extern "C" [[gnu::weak]] int __llvm_profile_write_file();

namespace event_loop_sleep_test {
namespace {

using namespace std::chrono_literals;

[[noreturn]] void end_process(bool success) {
  if (__llvm_profile_write_file != nullptr) __llvm_profile_write_file();
  ::_exit(success ? 0 : 1);
}

enum class with_tasks : bool { no, yes };

// Has the loop sleep until it has done so `times` times more, and post tasks to itself or not.
class sleeper {
 public:
  sleeper(gyre::loop& loop, int times, with_tasks posts)
      : loop_(loop), posts_(posts), until_(loop.metrics().sleeps + static_cast<unsigned>(times)) {}

  void run() {
    loop_.restart();
    timer_.start_after(pause);
    loop_.run();
  }

 private:
  static constexpr auto pause = 100us;

  void expired() {
    posts_ == with_tasks::yes ? loop_.post([this] { go_on(); }) : go_on();
  }
  void go_on() { loop_.metrics().sleeps < until_ ? timer_.start_after(pause) : loop_.stop(); }

  gyre::loop& loop_;
  const with_tasks posts_;
  const std::uint64_t until_;
  gyre::timer timer_{loop_, [this] { expired(); }};
};

class EventLoopSleepDeathTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!gyre::asymmetric_fence_uses_membarrier() || !gyre::test::can_refuse_system_calls()) {
      GTEST_SKIP() << "needs membarrier(2) and seccomp";
    }
  }
  // A heavy fence that the kernel refuses ends the process.
  static bool refuse_barriers() { return gyre::test::refuse({SYS_membarrier, EPERM}); }
  static auto succeeds() { return testing::ExitedWithCode(0); }
};

TEST_F(EventLoopSleepDeathTest, NeedsNoBarrierWhereNoOtherThreadPosts) {
  const auto sleep_without_barriers = [] {
    gyre::loop loop;
    const bool refused = refuse_barriers();
    sleeper(loop, 5, with_tasks::yes).run();
    end_process(refused);
  };
  EXPECT_EXIT(sleep_without_barriers(), succeeds(), "");
}

TEST_F(EventLoopSleepDeathTest, NeedsNoBarrierOnceOtherThreadsPostNoMore) {
  // It ceases to expect posts after a sleep without tasks, or else after 64 sleeps.
  const auto sleep_without_barriers = [](with_tasks tasks, int sleeps_before) {
    gyre::loop loop;
    {
      const std::jthread other([&] {
        std::binary_semaphore ran(0);
        for (int i = 0; i < 100; ++i) {
          loop.post([&] { ran.release(); });
          ran.acquire();
        }
        loop.stop();
      });
      loop.run();
    }
    sleeper(loop, sleeps_before, tasks).run();
    const bool refused = refuse_barriers();
    sleeper(loop, 5, with_tasks::yes).run();
    end_process(refused);
  };
  EXPECT_EXIT(sleep_without_barriers(with_tasks::no, 4), succeeds(), "");
  EXPECT_EXIT(sleep_without_barriers(with_tasks::yes, 100), succeeds(), "");
}

}  // namespace
}  // namespace event_loop_sleep_test
