// SPDX-License-Identifier: Apache-2.0
// Tests of a loop's copy in a forked child, which reports success by its exit status.
#include <gyre/exec/loop.hpp>

#include <gyre/base/unique_fd.hpp>
#include <gyre/exec/fd_watch.hpp>
#include <gyre/exec/timer.hpp>

#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <thread>

// Writes the coverage profile, in a build that keeps one: _exit() does not.
extern "C" [[gnu::weak]] int __llvm_profile_write_file();

namespace event_loop_fork_test {
namespace {

using namespace std::chrono_literals;
using gyre::readiness;

[[noreturn]] void end_child(bool success) {
  if (__llvm_profile_write_file != nullptr) __llvm_profile_write_file();
  ::_exit(success ? 0 : 1);
}

template <class Work>
pid_t fork_to(Work&& work) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  end_child(work());
}

bool succeeded(pid_t child) {
  int status = 0;
  return ::waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

struct pipe_ends {
  pipe_ends() {
    std::array<int, 2> ends{};
    EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK), 0);
    reader = gyre::unique_fd(ends[0]);
    writer = gyre::unique_fd(ends[1]);
  }
  void write() const { EXPECT_EQ(::write(writer.get(), "x", 1), 1); }
  void read() const {
    char byte = 0;
    EXPECT_EQ(::read(reader.get(), &byte, 1), 1);
  }
  gyre::unique_fd reader;
  gyre::unique_fd writer;
};

TEST(EventLoopFork, TheChildHasTheTasksTimersAndWatches) {
  gyre::loop loop;
  const pipe_ends pipe;
  int tasks = 0;
  int timers = 0;
  int watches = 0;
  const auto all = [&] { return tasks == 1 && timers >= 2 && watches == 1; };
  gyre::timer timer(loop, [&] {
    ++timers;
    if (all()) loop.stop();
  });
  gyre::fd_watch watch(loop, pipe.reader.get(), [&](readiness ready) {
    watches += ready == readiness::readable ? 1 : 100;
    watch.stop();
  });
  timer.start_every(1ms);
  watch.start(readiness::readable);
  loop.post([&] { ++tasks; });
  pipe.write();

  const pid_t child = fork_to([&] {
    loop.after_fork_in_child();
    loop.run();
    return all();
  });
  EXPECT_TRUE(succeeded(child));
  loop.run();
  EXPECT_TRUE(all()) << "the parent's loop still has its own";
}

TEST(EventLoopFork, WatchesEndedByTheChildGoOnInTheParent) {
  gyre::loop loop;
  const pipe_ends pipe;
  int calls = 0;
  gyre::fd_watch watch(loop, pipe.reader.get(), [&](readiness) {
    ++calls;
    pipe.read();
  });
  watch.start(readiness::readable);
  const pid_t child = fork_to([&] {
    loop.after_fork_in_child();
    watch.start(readiness::writable);
    return watch.stop() && !loop.poll();
  });
  EXPECT_TRUE(succeeded(child));
  pipe.write();
  EXPECT_TRUE(loop.poll());
  EXPECT_EQ(calls, 1);
}

TEST(EventLoopFork, TheChildKeepsEdgeAndLevelApart) {
  gyre::loop loop;
  const pipe_ends level_pipe;
  const pipe_ends edge_pipe;
  int level_calls = 0;
  int edge_calls = 0;
  gyre::fd_watch level(loop, level_pipe.reader.get(), [&](readiness) { ++level_calls; });
  gyre::fd_watch edge(loop, edge_pipe.reader.get(), [&](readiness) { ++edge_calls; });
  level.start(readiness::readable);
  edge.start(readiness::readable, gyre::trigger::edge);
  level_pipe.write();
  edge_pipe.write();
  EXPECT_TRUE(succeeded(fork_to([&] {
    loop.after_fork_in_child();
    for (int turn = 0; turn < 3; ++turn) loop.poll();
    return level_calls == 3 && edge_calls == 1;
  })));
}

// Every post to one process's loop makes a wake-up call; the other process's loop must sleep
// through all of these calls, until its pipe wakes it. It does not sleep at all when it comes so
// late that the pipe is written already.
class EventLoopForkWakeups : public testing::Test {
 protected:
  void post_many() {
    for (int i = 0; i < 100; ++i) loop_.post([] {});
    while (loop_.metrics().tasks_pending > 0) loop_.poll();
  }
  bool sleeps_at_most_once_until_the_pipe_is_written() {
    gyre::fd_watch watch(loop_, pipe_.reader.get(), [&](readiness) { loop_.stop(); });
    watch.start(readiness::readable);
    const std::uint64_t before = loop_.metrics().sleeps;
    loop_.run();
    return loop_.metrics().sleeps <= before + 1;
  }
  gyre::loop loop_{gyre::loop_options{.wakeup = gyre::wakeup::per_task}};
  pipe_ends pipe_;
};

TEST_F(EventLoopForkWakeups, TheParentDoesNotWakeTheChild) {
  const pid_t child = fork_to([&] {
    loop_.after_fork_in_child();
    return sleeps_at_most_once_until_the_pipe_is_written();
  });
  post_many();
  pipe_.write();
  EXPECT_TRUE(succeeded(child));
}

TEST_F(EventLoopForkWakeups, TheChildDoesNotWakeTheParent) {
  const pid_t child = fork_to([&] {
    loop_.after_fork_in_child();
    post_many();
    pipe_.write();
    return true;
  });
  EXPECT_TRUE(sleeps_at_most_once_until_the_pipe_is_written());
  EXPECT_TRUE(succeeded(child));
}

TEST(EventLoopFork, ThreadsOfTheChildWakeItsLoop) {
  gyre::loop loop;
  EXPECT_TRUE(succeeded(fork_to([&] {
    loop.after_fork_in_child();
    int ran = 0;
    for (int round = 1; round <= 50; ++round) {
      std::jthread poster([&] { loop.post([&] { ++ran; }); });
      loop.run_once();
      if (ran != round) return false;
    }
    return true;
  })));
}

TEST(EventLoopFork, AWakeUpThatWasOnItsWayIsNotLost) {
  gyre::loop loop;
  bool ran = false;
  loop.post([&] { ran = true; });
  loop.stop();
  EXPECT_TRUE(succeeded(fork_to([&] {
    loop.after_fork_in_child();
    loop.restart();
    return loop.run_once() && ran;
  })));
}

TEST(EventLoopFork, ATaskOfTheRunningLoopMayFork) {
  gyre::loop loop;
  pid_t child = -1;
  gyre::timer timer(loop, [&] {
    if (child == 0) end_child(true);
    loop.stop();
  });
  loop.post([&] {
    child = ::fork();
    if (child == 0) loop.after_fork_in_child();
    timer.start_after(1ms);
  });
  loop.run();
  EXPECT_TRUE(succeeded(child));
}

TEST(EventLoopFork, TheChildMayDestroyTheLoopUnused) {
  auto loop = std::make_unique<gyre::loop>();
  const pipe_ends pipe;
  gyre::loop parents;
  int calls = 0;
  gyre::fd_watch watch(parents, pipe.reader.get(), [&](readiness) { ++calls; });
  watch.start(readiness::readable);
  loop->post([] {});
  EXPECT_TRUE(succeeded(fork_to([&] {
    loop.reset();
    return true;
  })));
  pipe.write();
  EXPECT_TRUE(parents.poll());
  EXPECT_TRUE(loop->poll());
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace event_loop_fork_test
