// SPDX-License-Identifier: Apache-2.0
// Tests of a thread that runs a loop.
#include <gyre/exec/loop_thread.hpp>

#include <gyre/exec/inbox/sharded.hpp>
#include <tests/support/destruction_promise.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <pthread.h>
#include <sched.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <exception>
#include <future>
#include <latch>
#include <memory>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace loop_thread_test {
namespace {

using gyre::test::destruction_promise;
using namespace std::chrono_literals;
using gyre::loop;
using gyre::loop_thread;
using testing::ElementsAre;

gyre::loop_options rethrowing() {
  return {.on_exception = [](std::exception_ptr error) { std::rethrow_exception(error); }};
}

// Calls `ask` on the loop's thread and returns its result.
template <class Loop, class Ask>
auto answer(Loop& on, Ask ask) {
  std::promise<decltype(ask())> answered;
  on.post([&] { answered.set_value(ask()); });
  return answered.get_future().get();
}

std::string name_of_this_thread() {
  std::array<char, 16> name{};
  pthread_getname_np(pthread_self(), name.data(), name.size());
  return name.data();
}

cpu_set_t cpus_of_this_thread() {
  cpu_set_t set;
  CPU_ZERO(&set);
  EXPECT_EQ(sched_getaffinity(0, sizeof set, &set), 0);
  return set;
}

std::vector<int> allowed_cpus() {
  const cpu_set_t set = cpus_of_this_thread();
  std::vector<int> cpus;
  for (std::size_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) cpus.push_back(static_cast<int>(cpu));
  }
  return cpus;
}

TEST(LoopThread, IsReadyForPostsWhenItIsMade) {
  loop_thread thread;
  EXPECT_NE(answer(thread.loop(), [] { return std::this_thread::get_id(); }),
            std::this_thread::get_id());
  EXPECT_TRUE(answer(thread.loop(), [&] { return thread.loop().in_loop_thread(); }));
  EXPECT_FALSE(thread.loop().in_loop_thread());
}

TEST(LoopThread, TakesAnyLoop) {
  gyre::basic_loop_thread<gyre::basic_loop<gyre::inbox::sharded>> thread({.name = "sharded"});
  EXPECT_EQ(answer(thread.loop(), [] { return 7; }), 7);
}

TEST(LoopThread, HasItsNameCutToFifteenBytes) {
  loop_thread named({.name = "io"});
  EXPECT_EQ(answer(named.loop(), name_of_this_thread), "io");
  loop_thread longer({.name = "a-name-too-long-for-linux"});
  EXPECT_EQ(answer(longer.loop(), name_of_this_thread), "a-name-too-long");
  loop_thread unnamed;
  EXPECT_EQ(answer(unnamed.loop(), name_of_this_thread), name_of_this_thread());
}

TEST(LoopThread, RunsOnItsCpus) {
  const int cpu = allowed_cpus().back();
  loop_thread pinned({.cpus = {cpu}});
  const cpu_set_t set = answer(pinned.loop(), cpus_of_this_thread);
  EXPECT_EQ(CPU_COUNT(&set), 1);
  EXPECT_TRUE(CPU_ISSET(static_cast<std::size_t>(cpu), &set));
}

TEST(LoopThread, RefusesACpuThatIsNotThere) {
  for (const int cpu : {-1, CPU_SETSIZE - 1, CPU_SETSIZE, 1 << 30}) {
    try {
      loop_thread pinned({.cpus = {cpu}});
      ADD_FAILURE() << "CPU " << cpu;
    } catch (const std::system_error& error) {
      EXPECT_EQ(error.code().value(), EINVAL);
    }
  }
}

TEST(LoopThread, PassesTheLoopItsOptions) {
  loop_thread thread({.on_start = [](loop& l) { l.stop(); }, .loop = {.inbox_limit = 1}});
  thread.join();
  EXPECT_TRUE(thread.loop().try_post([] {}));
  EXPECT_FALSE(thread.loop().try_post([] {}));
}

TEST(LoopThread, CallsItsHooksOnTheThreadAroundRun) {
  std::vector<std::string> log;
  std::vector<std::thread::id> threads;
  const auto note = [&](std::string what) {
    log.push_back(std::move(what));
    threads.push_back(std::this_thread::get_id());
  };
  loop_thread thread({.name = "hooks",
                      .on_start =
                          [&](loop& l) {
                            note("start in " + name_of_this_thread());
                            l.post([&] { note("first task"); });
                          },
                      .on_stop = [&](loop& l) { note(l.stopped() ? "stop" : "stop too early"); }});
  answer(thread.loop(), [&] { return note("task"), 0; });
  thread.stop();
  thread.join();
  EXPECT_THAT(log, ElementsAre("start in hooks", "first task", "task", "stop"));
  EXPECT_THAT(threads, testing::Each(threads.front()));
  EXPECT_NE(threads.front(), std::this_thread::get_id());
}

TEST(LoopThread, OnStartHasRunWhenTheConstructorReturns) {
  bool started = false;
  loop_thread thread({.on_start = [&](loop&) { started = true; }});
  EXPECT_TRUE(started);
}

TEST(LoopThread, ExceptionsOfOnStartLeaveTheConstructor) {
  bool stopped = false;
  bool ran = false;
  const auto make = [&] {
    loop_thread({.on_start =
                     [&](loop& l) {
                       l.post([&] { ran = true; });
                       throw std::runtime_error("no start");
                     },
                 .on_stop = [&](loop&) { stopped = true; }});
  };
  EXPECT_THROW(make(), std::runtime_error);
  EXPECT_FALSE(stopped || ran);
}

TEST(LoopThread, OnStartMayStopIt) {
  loop_thread thread({.on_start = [](loop& l) { l.stop(); }});
  thread.join();
  EXPECT_TRUE(thread.loop().stopped());
}

TEST(LoopThread, StopMayBeCalledTwiceAndByAnyThread) {
  loop_thread thread;
  std::thread([&] { thread.stop(); }).join();
  thread.stop();
  thread.join();
  thread.join();
  thread.stop();
}

TEST(LoopThread, TheLoopOutlivesTheThreadAndDropsWhatIsPosted) {
  const auto held = std::make_shared<int>();
  {
    loop_thread thread;
    thread.stop();
    thread.join();
    thread.loop().post([held] { FAIL(); });
    EXPECT_EQ(held.use_count(), 2);
  }
  EXPECT_EQ(held.use_count(), 1);
}

TEST(LoopThread, TheDestructorStopsAndJoins) {
  bool stopped = false;
  {
    loop_thread thread({.on_stop = [&](loop&) { stopped = true; }});
  }
  EXPECT_TRUE(stopped);
}

TEST(LoopThread, AnExceptionThatLeavesRunLeavesJoinOnce) {
  bool hook = false;
  loop_thread thread({.on_stop = [&](loop&) { hook = true; }, .loop = rethrowing()});
  thread.loop().post([] { throw std::runtime_error("task"); });
  EXPECT_THROW(thread.join(), std::runtime_error);
  EXPECT_NO_THROW(thread.join());
  EXPECT_FALSE(hook) << "run() did not end in order";
}

TEST(LoopThread, AnExceptionOfOnStopLeavesJoinFor) {
  loop_thread thread({.on_stop = [](loop&) { throw std::runtime_error("stop"); }});
  thread.stop();
  EXPECT_THROW(static_cast<void>(thread.join_for(1h)), std::runtime_error);
  EXPECT_TRUE(thread.join_for(0s));
}

TEST(LoopThread, JoinForGivesUpAndCanBeRepeated) {
  std::latch begun(1);
  std::latch release(1);
  loop_thread thread;
  thread.loop().post([&] {
    begun.count_down();
    release.wait();
  });
  begun.wait();
  thread.stop();
  EXPECT_FALSE(thread.join_for(1ms));
  EXPECT_FALSE(thread.join_for(0s));
  EXPECT_FALSE(thread.join_for(-1h));
  release.count_down();
  EXPECT_TRUE(thread.join_for(1h));
  EXPECT_TRUE(thread.join_for(0s));
}

TEST(LoopThread, JoinForEverIsAJoin) {
  loop_thread thread;
  thread.stop();
  EXPECT_TRUE(thread.join_for(std::chrono::nanoseconds::max()));
}

TEST(LoopThread, ATaskOfItsLoopMayDestroyIt) {
  std::promise<void> freed;
  bool stopped = false;
  bool later = false;
  auto thread = std::make_unique<loop_thread>(loop_thread::options{
      .on_stop = [&stopped, breath = destruction_promise(freed)](loop&) { stopped = true; }});
  loop& running = thread->loop();
  std::latch posted(1);
  running.post([&] {
    posted.wait();  // the loop must outlive every call on it, including the post of this task
    running.post([&] { later = true; });
    thread.reset();
    running.post([&] { later = true; });  // the loop still exists
  });
  posted.count_down();
  freed.get_future().get();
  EXPECT_TRUE(stopped);
  EXPECT_FALSE(later);
  EXPECT_EQ(thread, nullptr);
}

TEST(LoopThread, OnStopMayDestroyIt) {
  std::promise<void> freed;
  std::unique_ptr<loop_thread> thread;
  thread = std::make_unique<loop_thread>(loop_thread::options{
      .on_stop = [&thread, breath = destruction_promise(freed)](loop&) { thread.reset(); }});
  loop& running = thread->loop();
  std::latch posted(1);
  running.post([&] {
    posted.wait();
    running.stop();
  });
  posted.count_down();
  freed.get_future().get();
  EXPECT_EQ(thread, nullptr);
}

TEST(LoopThread, ATaskOfALoopThatItsOwnTaskRunsMayDestroyIt) {
  std::promise<void> freed;
  auto thread = std::make_unique<loop_thread>(
      loop_thread::options{.on_stop = [breath = destruction_promise(freed)](loop&) {}});
  loop& running = thread->loop();
  std::latch posted(1);
  running.post([&] {
    posted.wait();
    loop inner;
    inner.post([&] { thread.reset(); });
    inner.poll();
  });
  posted.count_down();
  freed.get_future().get();
  EXPECT_EQ(thread, nullptr);
}

TEST(LoopThread, CannotWaitForItself) {
  loop_thread thread;
  EXPECT_TRUE(answer(thread.loop(), [&] {
    try {
      thread.join();
    } catch (const std::system_error& error) {
      return error.code() == std::errc::resource_deadlock_would_occur;
    }
    return false;
  }));
}

TEST(LoopThread, ManyComeAndGo) {
  int ran = 0;
  for (int i = 0; i < 100; ++i) {
    loop_thread thread;
    answer(thread.loop(), [&] { return ++ran; });
  }
  EXPECT_EQ(ran, 100);
}

TEST(LoopThreadDeathTest, AnExceptionThatNoJoinTakesTerminates) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        loop_thread thread({.loop = rethrowing()});
        thread.loop().post([] { throw std::runtime_error("nobody joins"); });
        while (thread.loop().metrics().exceptions == 0) std::this_thread::yield();
      },
      "");
}

}  // namespace
}  // namespace loop_thread_test
