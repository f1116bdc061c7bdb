// SPDX-License-Identifier: Apache-2.0
// Tests of the thread with a name, CPUs and a join that gives up.
#include <gyre/base/detail/named_thread.hpp>

#include <gyre/base/available_parallelism.hpp>

#include <gtest/gtest.h>

#include <pthread.h>
#include <sched.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <latch>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

namespace named_thread_test {
namespace {

using namespace std::chrono_literals;
using gyre::detail::named_thread;

std::string name_of_this_thread() {
  std::array<char, 16> name{};
  pthread_getname_np(pthread_self(), name.data(), name.size());
  return name.data();
}

TEST(NamedThread, HasItsNameFromTheFirstLine) {
  std::string name;
  named_thread thread("fifteen-bytes-x and more", {}, [&] { name = name_of_this_thread(); });
  thread.join();
  EXPECT_EQ(name, "fifteen-bytes-x");
}

TEST(NamedThread, WithoutANameInheritsTheCreators) {
  std::string name;
  named_thread thread("", {}, [&] { name = name_of_this_thread(); });
  thread.join();
  EXPECT_EQ(name, name_of_this_thread());
}

TEST(NamedThread, RunsOnItsCpusFromTheFirstLine) {
  cpu_set_t allowed;
  ASSERT_EQ(sched_getaffinity(0, sizeof allowed, &allowed), 0);
  int cpu = 0;
  while (!CPU_ISSET(static_cast<std::size_t>(cpu), &allowed)) ++cpu;
  int ran_on = -1;
  named_thread thread("pinned", {cpu, cpu}, [&] { ran_on = sched_getcpu(); });
  thread.join();
  EXPECT_EQ(ran_on, cpu);
}

sigset_t signal_mask() {
  sigset_t mask;
  pthread_sigmask(SIG_SETMASK, nullptr, &mask);
  return mask;
}

TEST(UsableCpus, AreThoseOfTheCallingThread) {
  const std::vector<int> all = gyre::detail::usable_cpus();
  ASSERT_FALSE(all.empty());
  for (const int cpu : all) {
    std::vector<int> seen;
    named_thread pinned("", {cpu}, [&] { seen = gyre::detail::usable_cpus(); });
    pinned.join();
    EXPECT_EQ(seen, std::vector{cpu});
  }
}

TEST(NamedThread, BlocksAsynchronousSignalsAndNoneThatItRaisesItself) {
  const sigset_t before = signal_mask();
  sigset_t in_thread;
  named_thread thread("", {}, [&] { in_thread = signal_mask(); });
  thread.join();
  for (const int sent : {SIGTERM, SIGINT, SIGHUP, SIGCHLD, SIGUSR1, SIGALRM, SIGRTMIN, SIGRTMAX}) {
    EXPECT_EQ(sigismember(&in_thread, sent), 1) << sent;
  }
  for (const int raised : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS, SIGPIPE}) {
    EXPECT_EQ(sigismember(&in_thread, raised), 0) << raised;
  }
  EXPECT_EQ(sigismember(&in_thread, SIGPROF), 0) << "profilers see it";
  const sigset_t after = signal_mask();
  EXPECT_EQ(sigismember(&before, SIGTERM), sigismember(&after, SIGTERM)) << "the creator's";
}

TEST(NamedThread, RefusesACpuThatIsNotThereAndDropsTheWork) {
  const auto held = std::make_shared<int>();
  for (const int cpu : {-1, CPU_SETSIZE - 1, CPU_SETSIZE}) {
    try {
      named_thread thread("", {cpu}, [held] { FAIL(); });
      thread.join();
      ADD_FAILURE() << "CPU " << cpu;
    } catch (const std::system_error& error) {
      EXPECT_EQ(error.code().value(), EINVAL);
    }
  }
  EXPECT_EQ(held.use_count(), 1);
}

TEST(NamedThread, IsJoinedOnce) {
  int ran = 0;
  named_thread thread("", {}, [&] { ++ran; });
  thread.join();
  EXPECT_EQ(ran, 1) << "what the thread wrote is seen after join()";
  thread.join();
  EXPECT_TRUE(thread.join_for(0s));
}

TEST(NamedThread, JoinForGivesUpAndCanBeRepeated) {
  std::latch release(1);
  int ran = 0;
  named_thread thread("", {}, [&] {
    release.wait();
    ++ran;
  });
  EXPECT_FALSE(thread.join_for(0s));
  EXPECT_FALSE(thread.join_for(1ms));
  EXPECT_FALSE(thread.join_for(std::chrono::nanoseconds::min()));
  release.count_down();
  EXPECT_TRUE(thread.join_for(std::chrono::nanoseconds::max()));
  EXPECT_EQ(ran, 1) << "what the thread wrote is seen after join_for()";
}

TEST(NamedThread, EndsOnItsOwnWhenDetached) {
  auto ended = std::make_shared<std::latch>(1);
  {
    named_thread thread("", {}, [ended] { ended->count_down(); });
    thread.detach();
  }
  ended->wait();
}

}  // namespace
}  // namespace named_thread_test
