// SPDX-License-Identifier: Apache-2.0
// Tests of the thread with a name, CPUs and a join that gives up.
#include <gyre/exec/detail/named_thread.hpp>

#include <gtest/gtest.h>

#include <pthread.h>
#include <sched.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <latch>
#include <memory>
#include <string>
#include <system_error>

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
