// SPDX-License-Identifier: Apache-2.0
// Tests of whole programs: a runtime's main task, its other tasks, and its shutdown.
#include <gyre/runtime/runtime.hpp>

#include <gyre/base/available_parallelism.hpp>
#include <gyre/sync/event.hpp>
#include <gyre/task/context.hpp>
#include <gyre/task/live_tasks.hpp>
#include <gyre/task/schedule.hpp>
#include <gyre/task/shielded.hpp>
#include <gyre/task/sleep.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <future>
#include <mutex>
#include <optional>
#include <set>
#include <source_location>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace runtime_test {
namespace {

using namespace std::chrono_literals;
using gyre::runtime;
using gyre::runtime_options;
using gyre::shutdown_hook;
using gyre::shutdown_phase;
using gyre::shutdown_step;
using gyre::task;
using testing::ElementsAre;

runtime_options two_loops() { return {.loops = 2, .pool = {.workers = 1}}; }

// Runs until it is asked to stop.
task<> for_ever() { co_await gyre::sleep_for(std::chrono::hours{24 * 365}); }

task<int> until_stopped(runtime&) {
  co_await for_ever();
  co_return 1;
}

// A log of events, in order; from any thread.
class journal {
 public:
  void note(std::string what) {
    const std::lock_guard lock(mutex_);
    entries_.push_back(std::move(what));
  }
  std::vector<std::string> entries() {
    const std::lock_guard lock(mutex_);
    return entries_;
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> entries_;
};

TEST(Runtime, ReturnsWhatTheMainTaskReturns) {
  EXPECT_EQ(runtime::main(two_loops(), [](runtime&) -> task<int> { co_return 7; }), 7);
  EXPECT_EQ(runtime::main(two_loops(), [](runtime&) -> task<> { co_return; }), 0);
}

TEST(Runtime, ItsTasksAreInTheRecordOfLiveTasks) {
  gyre::record_live_tasks(true);
  std::vector<gyre::live_task> found;
  unsigned line = 0;
  const int code = runtime::main(two_loops(), [&](runtime& rt) -> task<> {
    line = std::source_location::current().line() + 1;
    rt.spawn(for_ever());
    found = gyre::live_tasks();
    co_return;
  });
  gyre::record_live_tasks(false);
  EXPECT_EQ(code, 0);
  ASSERT_EQ(found.size(), 2u);
  if (found[0].name.empty()) std::swap(found[0], found[1]);  // equally old
  EXPECT_EQ(found[0].name, "main task");
  EXPECT_EQ(found[1].from.line(), line);
  EXPECT_TRUE(gyre::live_tasks().empty());
}

TEST(Runtime, CountsATaskThatWaitsInDrained) {
  runtime rt(two_loops());
  std::size_t counted = 0;
  std::vector<std::string> names;
  gyre::record_live_tasks(true);
  EXPECT_EQ(rt.run([&](runtime& self) -> task<> {
    // Runs when the main task waits, on the same loop.
    self.spawn(self.loops()[0],
               [](runtime& of, std::size_t& tasks, std::vector<std::string>& live) -> task<> {
                 tasks = of.metrics().tasks;
                 for (const gyre::live_task& each : gyre::live_tasks()) live.push_back(each.name);
                 of.shutdown();
                 co_return;
               }(self, counted, names));
    co_await self.drained();
  }),
            0);
  gyre::record_live_tasks(false);
  EXPECT_EQ(counted, 2U);
  EXPECT_THAT(names, testing::UnorderedElementsAre("main task", ""));
  EXPECT_EQ(rt.metrics().tasks, 0U);
}

// Stands for stderr while it lives.
class redirected_stderr {
 public:
  redirected_stderr() : saved_(::dup(STDERR_FILENO)) {
    std::array<int, 2> ends{};
    EXPECT_EQ(::pipe(ends.data()), 0);
    read_ = ends[0];
    std::fflush(stderr);
    ::dup2(ends[1], STDERR_FILENO);
    ::close(ends[1]);
  }
  redirected_stderr& operator=(redirected_stderr&&) = delete;
  ~redirected_stderr() {
    ::dup2(saved_, STDERR_FILENO);
    ::close(saved_);
    ::close(read_);
  }
  /// Blocks until `text` has been written.
  std::string read_until(std::string_view text) const {
    std::string all;
    std::array<char, 4096> some{};
    while (all.find(text) == std::string::npos) {
      const ssize_t count = ::read(read_, some.data(), some.size());
      if (count <= 0) break;
      all.append(some.data(), static_cast<std::size_t>(count));
    }
    return all;
  }

 private:
  int saved_;
  int read_ = -1;
};

TEST(Runtime, PrintsItsLiveTasksAtTheDebugSignal) {
  runtime_options options = two_loops();
  options.debug_signal = SIGUSR1;
  std::string printed;
  {
    const redirected_stderr errors;
    const int code = runtime::main(std::move(options), [&](runtime&) -> task<> {
      ::kill(::getpid(), SIGUSR1);
      printed = errors.read_until("\"main task\"");
      co_return;
    });
    EXPECT_EQ(code, 0);
  }
  gyre::record_live_tasks(false);
  EXPECT_THAT(printed, testing::StartsWith("1 live task\n  1 of \"main task\""));
}

TEST(Runtime, HasALoopForEachUsableCpuUnlessToldOtherwise) {
  runtime all_cpus;
  EXPECT_EQ(all_cpus.loops().size(), gyre::available_parallelism());
  EXPECT_EQ(all_cpus.pool().workers(), gyre::available_parallelism());
  runtime three({.loops = 3});
  EXPECT_EQ(three.loops().size(), 3u);
}

TEST(Runtime, PinsEachLoopToACpuIfAsked) {
  runtime_options options = two_loops();
  options.pin_loops = true;
  std::atomic<int> cpus = 0;
  options.each_loop.on_start = [&](gyre::loop&, std::size_t) {
    cpu_set_t set;
    ::pthread_getaffinity_np(::pthread_self(), sizeof set, &set);
    cpus += CPU_COUNT(&set);
  };
  const runtime pinned(std::move(options));
  EXPECT_EQ(cpus, 2);
}

TEST(Runtime, RunsTheMainTaskOnItsFirstLoop) {
  runtime rt(two_loops());
  EXPECT_EQ(rt.run([](runtime& self) -> task<int> {
    co_return self.loops()[0].in_loop_thread() ? 1 : 2;
  }),
            1);
}

TEST(Runtime, ThrowsWhatTheMainTaskThrowsOnceAllHasEnded) {
  runtime rt(two_loops());
  bool ended = false;
  EXPECT_THROW(static_cast<void>(rt.run([&](runtime& self) -> task<int> {
                 self.spawn(self.loops()[0], [](bool& e) -> task<> {
                   try {
                     co_await for_ever();
                   } catch (const gyre::operation_cancelled&) {
                     e = true;
                   }
                 }(ended));
                 co_await gyre::yield();
                 throw std::runtime_error("no port");
               })),
               std::runtime_error);
  EXPECT_TRUE(ended);
}

TEST(Runtime, MainPrintsAnExceptionAndReturnsOne) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(runtime::main(two_loops(),
                          [](runtime&) -> task<int> {
                            throw std::runtime_error("no port");
                            co_return 0;
                          }),
            1);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), testing::HasSubstr("no port"));
}

TEST(Runtime, CannotBeRunTwice) {
  runtime rt(two_loops());
  const auto nothing = [](runtime&) -> task<> { co_return; };
  EXPECT_EQ(rt.run(nothing), 0);
  EXPECT_THROW(static_cast<void>(rt.run(nothing)), std::logic_error);
}

TEST(Runtime, RunsWhatWasPostedAndSubmittedBeforeItsEnd) {
  std::atomic<int> ran = 0;
  {
    runtime rt(two_loops());
    EXPECT_EQ(rt.run([&](runtime& self) -> task<> {
      for (int i = 0; i < 100; ++i) {
        self.loops().next().post([&] { ++ran; });
        self.pool().post([&] { ++ran; });
      }
      co_return;
    }),
              0);
  }
  EXPECT_EQ(ran, 200);
}

TEST(Runtime, SumsWhatLoopsAndPoolCount) {
  runtime rt(two_loops());
  EXPECT_EQ(rt.run([](runtime& self) -> task<> {
    for (std::size_t i = 0; i < 10; ++i) self.loops()[i % 2].post([] {});
    for (int i = 0; i < 10; ++i) self.pool().post([] {});
    EXPECT_EQ(self.metrics().tasks, 1u);
    co_return;
  }),
            0);
  EXPECT_GE(rt.metrics().loops.tasks_run, 10u);
  EXPECT_EQ(rt.metrics().pool.finished, 10u);
  EXPECT_EQ(rt.metrics().tasks, 0u);
}

TEST(Runtime, WatchesItsLoopsIfAsked) {
  std::promise<std::string> held;
  std::atomic<bool> first = true;
  runtime_options options = two_loops();
  options.watchdog = {.limit = std::chrono::milliseconds(1),
                      .on_hold = [&](const gyre::held_executor& each) {
                        if (first.exchange(false)) held.set_value(std::string(each.name));
                      }};
  runtime rt(std::move(options));
  const int code = rt.run([&held](runtime&) -> task<int> {
    // Holds the loop of the main task until that is reported.
    co_return held.get_future().get().empty() ? 1 : 0;
  });
  EXPECT_EQ(code, 0);
}

TEST(RuntimeSpawn, StartsTasksOnTheLoopsInTurnAndAwaitsThem) {
  std::mutex mutex;
  std::multiset<gyre::event_loop*> seen;
  runtime rt(two_loops());
  EXPECT_EQ(rt.run([&](runtime& self) -> task<> {
    for (int i = 0; i < 10; ++i) {
      self.spawn([](std::mutex& m, std::multiset<gyre::event_loop*>& s) -> task<> {
        co_await gyre::shielded(gyre::yield());
        const std::lock_guard lock(m);
        s.insert(gyre::event_loop::current());
      }(mutex, seen));
    }
    co_return;
  }),
            0);
  EXPECT_EQ(seen.count(&rt.loops()[0]), 5u);
  EXPECT_EQ(seen.count(&rt.loops()[1]), 5u);
}

TEST(RuntimeSpawn, AnErrorEndsTheRuntimeAndLeavesRun) {
  runtime rt(two_loops());
  EXPECT_THROW(static_cast<void>(rt.run([](runtime& self) -> task<> {
                 self.spawn([]() -> task<> {
                   throw std::runtime_error("lost otherwise");
                   co_return;
                 }());
                 co_await for_ever();
               })),
               std::runtime_error);
}

TEST(RuntimeSpawn, AnErrorGoesToTheHandlerIfThereIsOne) {
  std::atomic<int> errors = 0;
  runtime_options options = two_loops();
  options.on_exception = [&](const std::exception_ptr&) { ++errors; };
  EXPECT_EQ(runtime::main(std::move(options),
                          [](runtime& self) -> task<int> {
                            for (int i = 0; i < 3; ++i) {
                              self.spawn([]() -> task<> {
                                throw std::runtime_error("handled");
                                co_return;
                              }());
                            }
                            co_return 5;
                          }),
            5);
  EXPECT_EQ(errors, 3);
}

TEST(RuntimeSpawn, TasksStopInThePhaseTheyAskFor) {
  journal order;
  runtime rt(two_loops());
  gyre::manual_reset_event finish;
  const auto worker = [](journal& j, std::string name) -> task<> {
    try {
      co_await for_ever();
    } catch (const gyre::operation_cancelled&) {
      j.note(std::move(name));
    }
  };
  EXPECT_EQ(rt.run([&](runtime& self) -> task<> {
    self.spawn(worker(order, "acceptor"));
    // This task is not asked to stop, as it has time to finish.
    self.spawn(
        [](journal& j, gyre::manual_reset_event& f) -> task<> {
          co_await f.wait();
          j.note("request");
        }(order, finish),
        shutdown_phase::force);
    const shutdown_hook hook = self.on_shutdown(shutdown_phase::stop_accepting, [] {});
    self.shutdown();
    while (order.entries().empty()) {
      co_await gyre::shielded(gyre::yield());
    }
    finish.set();
  }),
            0);
  EXPECT_THAT(order.entries(), ElementsAre("acceptor", "request"));
}

TEST(RuntimeSpawn, IsRefusedAfterTheEnd) {
  runtime rt(two_loops());
  EXPECT_EQ(rt.run([](runtime&) -> task<> { co_return; }), 0);
  EXPECT_THROW(rt.spawn(for_ever()), std::system_error);
}

TEST(RuntimeEnd, AskedForByAnyThreadStopsTheMainTask) {
  runtime rt(two_loops());
  std::jthread other([&] { rt.shutdown(); });
  EXPECT_EQ(rt.run(until_stopped), 0);
  EXPECT_TRUE(rt.shutting_down());
}

TEST(RuntimeEnd, AskedForBeforeRunStopsTheMainTask) {
  runtime rt(two_loops());
  rt.shutdown();
  bool started = false;
  EXPECT_EQ(rt.run([&](runtime& self) -> task<int> {
    started = true;
    EXPECT_TRUE(self.stop_token().stop_requested());
    co_await for_ever();
    co_return 1;
  }),
            0);
  EXPECT_TRUE(started);
}

TEST(RuntimeEnd, AskedForTwiceIsNotForced) {
  runtime rt(two_loops());
  bool forced = false;
  const shutdown_hook hook = rt.on_shutdown(shutdown_phase::force, [&] { forced = true; });
  rt.shutdown();
  EXPECT_EQ(rt.run([](runtime& self) -> task<int> {
    self.shutdown();
    co_await for_ever();
    co_return 1;
  }),
            0);
  rt.shutdown();
  EXPECT_FALSE(forced);
}

TEST(RuntimeEnd, ARuntimeThatWasNeverRunEndsItsTasks) {
  std::atomic<int> ended = 0;
  {
    runtime rt(two_loops());
    for (int i = 0; i < 4; ++i) {
      rt.spawn([](std::atomic<int>& e) -> task<> {
        try {
          co_await for_ever();
        } catch (const gyre::operation_cancelled&) {
          ++e;
        }
      }(ended));
    }
  }
  EXPECT_EQ(ended, 4);
}

TEST(RuntimeEnd, CallsHooksPhaseByPhase) {
  journal order;
  runtime rt(two_loops());
  std::vector<shutdown_hook> hooks;
  const auto note = [&](const char* what) { return [&, what] { order.note(what); }; };
  hooks.push_back(rt.on_shutdown(shutdown_phase::force, note("force")));
  hooks.push_back(rt.on_shutdown(shutdown_phase::drain, rt.loops()[1], note("drain")));
  hooks.push_back(rt.on_shutdown(shutdown_phase::stop_accepting, rt.pool(), note("close")));
  rt.shutdown();
  EXPECT_EQ(rt.run(until_stopped), 0);
  EXPECT_THAT(order.entries(), ElementsAre("close", "drain"));
}

TEST(RuntimeEnd, WaitsForStepsThatAreKept) {
  journal order;
  runtime rt(two_loops());
  std::vector<shutdown_hook> hooks;
  std::optional<shutdown_step> kept;
  std::jthread closer;
  hooks.push_back(rt.on_shutdown(shutdown_phase::stop_accepting, [&](shutdown_step step) {
    EXPECT_EQ(step.phase(), shutdown_phase::stop_accepting);
    EXPECT_GT(step.deadline(), rt.loops()[0].now());
    kept.emplace(std::move(step));
    closer = std::jthread([&] {
      order.note("closed");
      kept->done();
    });
  }));
  hooks.push_back(rt.on_shutdown(shutdown_phase::drain, [&] { order.note("drain"); }));
  rt.shutdown();
  EXPECT_EQ(rt.run(until_stopped), 0);
  EXPECT_THAT(order.entries(), ElementsAre("closed", "drain"));
}

TEST(RuntimeEnd, WaitsForHooksThatAreCoroutines) {
  journal order;
  runtime rt(two_loops());
  std::vector<shutdown_hook> hooks;
  hooks.push_back(rt.on_shutdown(shutdown_phase::stop_accepting, rt.loops()[1], [&]() -> task<> {
    for (int i = 0; i < 10; ++i) co_await gyre::yield();
    order.note(rt.loops()[1].in_loop_thread() ? "closed" : "on a wrong thread");
  }));
  hooks.push_back(rt.on_shutdown(shutdown_phase::drain, [&](shutdown_step) -> task<> {
    co_await gyre::yield();
    order.note("drained");
  }));
  hooks.push_back(rt.on_shutdown(shutdown_phase::drain, rt.pool(), [&] { order.note("flush"); }));
  rt.shutdown();
  EXPECT_EQ(rt.run(until_stopped), 0);
  EXPECT_THAT(order.entries(), testing::UnorderedElementsAre("closed", "drained", "flush"));
  EXPECT_EQ(order.entries()[0], "closed");
}

TEST(RuntimeEnd, TheMainTaskMayStayUntilAllElseHasEnded) {
  runtime rt(two_loops());
  EXPECT_EQ(rt.run([&](runtime& self) -> task<int> {
    journal local;
    const shutdown_hook hook =
        self.on_shutdown(shutdown_phase::drain, [&] { local.note("drain"); });
    for (int i = 0; i < 4; ++i) {
      self.spawn([](journal& j) -> task<> {
        try {
          co_await for_ever();
        } catch (const gyre::operation_cancelled&) {
          j.note("task");
        }
      }(local));
    }
    self.loops()[1].post([&] { self.shutdown(); });
    co_await self.drained();
    co_await self.drained();
    co_return static_cast<int>(local.entries().size());
  }),
            5);
}

TEST(RuntimeEnd, TheMainTaskMayStayUntilTheForceHasEndedAllElse) {
  runtime rt(two_loops());
  rt.spawn(for_ever(), shutdown_phase::force);
  EXPECT_EQ(rt.run([](runtime& self) -> task<int> {
    self.force_shutdown();
    co_await self.drained();
    co_return 3;
  }),
            3);
}

TEST(RuntimeEnd, AHookCannotWaitForWhatWaitsForIt) {
  runtime rt(two_loops());
  const shutdown_hook hook =
      rt.on_shutdown(shutdown_phase::drain, [&]() -> task<> { co_await rt.drained(); });
  rt.shutdown();
  EXPECT_THROW(static_cast<void>(rt.run(until_stopped)), std::logic_error);
  EXPECT_EQ(rt.metrics().tasks, 0U);
}

TEST(RuntimeEnd, LeavesOutHooksThatAreGone) {
  runtime rt(two_loops());
  bool called = false;
  {
    const shutdown_hook gone = rt.on_shutdown(shutdown_phase::drain, [&] { called = true; });
  }
  shutdown_hook moved = rt.on_shutdown(shutdown_phase::drain, [&] { called = true; });
  shutdown_hook to = std::move(moved);
  to = {};
  for (int i = 0; i < 1000; ++i) {
    static_cast<void>(rt.on_shutdown(shutdown_phase::drain, [&] { called = true; }));
  }
  rt.shutdown();
  EXPECT_EQ(rt.run(until_stopped), 0);
  EXPECT_FALSE(called);
}

TEST(RuntimeEnd, AHookMayUnregisterItselfAndOutliveTheRuntime) {
  shutdown_hook own;
  shutdown_hook left_over;
  int calls = 0;
  {
    runtime rt(two_loops());
    own = rt.on_shutdown(shutdown_phase::drain, [&, freed = std::string(100, 'x')] {
      own.reset();
      calls += freed.size() == 100 ? 1 : 0;
    });
    left_over = rt.on_shutdown(shutdown_phase::force, [&] { ++calls; });
    rt.shutdown();
    EXPECT_EQ(rt.run(until_stopped), 0);
  }
  EXPECT_EQ(calls, 1);
}

TEST(RuntimeEnd, AHookThatComesLateIsCalledAtOnce) {
  journal order;
  runtime rt(two_loops());
  shutdown_hook late;
  const shutdown_hook hook = rt.on_shutdown(shutdown_phase::drain, [&] {
    late = rt.on_shutdown(shutdown_phase::stop_accepting, [&](shutdown_step step) {
      order.note(step.phase() == shutdown_phase::drain ? "late" : "in a wrong phase");
    });
  });
  rt.shutdown();
  EXPECT_EQ(rt.run(until_stopped), 0);
  EXPECT_THAT(order.entries(), ElementsAre("late"));
}

TEST(RuntimeEnd, AnErrorOfAHookEndsItsStepAndLeavesRun) {
  journal order;
  runtime rt(two_loops());
  std::vector<shutdown_hook> hooks;
  hooks.push_back(rt.on_shutdown(shutdown_phase::stop_accepting,
                                 [](shutdown_step) { throw std::runtime_error("cannot close"); }));
  hooks.push_back(rt.on_shutdown(shutdown_phase::drain, []() -> task<> {
    throw std::logic_error("comes second");
    co_return;
  }));
  hooks.push_back(rt.on_shutdown(shutdown_phase::drain, rt.pool(), [&] { order.note("drain"); }));
  rt.shutdown();
  EXPECT_THROW(static_cast<void>(rt.run(until_stopped)), std::runtime_error);
  EXPECT_THAT(order.entries(), ElementsAre("drain"));
}

TEST(RuntimeEnd, ForcesWhatHasNotEndedAtTheDeadline) {
  journal order;
  runtime_options options = two_loops();
  options.drain_time = 1ms;
  runtime rt(std::move(options));
  std::vector<shutdown_hook> hooks;
  std::optional<shutdown_step> never_done;
  hooks.push_back(rt.on_shutdown(shutdown_phase::drain, [&](shutdown_step step) {
    order.note("drain");
    never_done.emplace(std::move(step));
  }));
  hooks.push_back(rt.on_shutdown(shutdown_phase::force, [&] {
    order.note("force");
    never_done.reset();
  }));
  rt.spawn(for_ever(), shutdown_phase::force);
  rt.shutdown();
  EXPECT_EQ(rt.run(until_stopped), 0);
  EXPECT_THAT(order.entries(), ElementsAre("drain", "force"));
}

TEST(RuntimeEnd, AsksHooksThatAreCoroutinesToStopWhenItIsForced) {
  runtime_options options = two_loops();
  options.drain_time = 1ms;
  runtime rt(std::move(options));
  bool ended = false;
  const shutdown_hook hook = rt.on_shutdown(shutdown_phase::drain, [&]() -> task<> {
    try {
      co_await for_ever();
    } catch (const gyre::operation_cancelled&) {
      ended = true;
      throw;
    }
  });
  rt.shutdown();
  EXPECT_EQ(rt.run(until_stopped), 0);
  EXPECT_TRUE(ended);
}

TEST(RuntimeEnd, RefusesTasksOnceItIsForced) {
  runtime rt(two_loops());
  bool refused = false;
  const shutdown_hook hook = rt.on_shutdown(shutdown_phase::force, [&] {
    EXPECT_THROW(rt.spawn(for_ever()), std::system_error);
    refused = true;
  });
  rt.force_shutdown();
  EXPECT_EQ(rt.run(until_stopped), 0);
  EXPECT_TRUE(refused);
}

TEST(RuntimeEnd, ForceSkipsTheDrainAndItsHooksButCallsLateOnes) {
  runtime rt(two_loops());
  std::atomic<int> accepting = 0;
  std::atomic<int> draining = 0;
  std::atomic<int> late = 0;
  const shutdown_hook first = rt.on_shutdown(shutdown_phase::stop_accepting, [&] { ++accepting; });
  const shutdown_hook skipped = rt.on_shutdown(shutdown_phase::drain, [&] { ++draining; });
  shutdown_hook too_late;
  const shutdown_hook forcing = rt.on_shutdown(shutdown_phase::force, [&] {
    too_late = rt.on_shutdown(shutdown_phase::drain, [&](const shutdown_step& step) {
      EXPECT_EQ(step.phase(), shutdown_phase::force);
      ++late;
    });
  });
  rt.force_shutdown();
  EXPECT_EQ(rt.run(until_stopped), 0);
  EXPECT_EQ(accepting, 1);
  EXPECT_EQ(draining, 0);
  EXPECT_EQ(late, 1);
}

TEST(RuntimeEnd, CanBeForcedAtOnce) {
  runtime rt(two_loops());
  rt.spawn(for_ever(), shutdown_phase::force);
  rt.force_shutdown();
  EXPECT_EQ(rt.run(until_stopped), 0);
}

TEST(RuntimeEnd, HooksAndTasksThatComeAndGoMeanwhileAreServedOnceOrRefused) {
  std::atomic<int> spawned = 0;
  std::atomic<int> ended = 0;
  std::atomic<int> called_twice = 0;
  runtime rt(two_loops());
  const auto come_and_go = [&] {
    std::array<shutdown_hook, 4> hooks;
    int more = 100;
    for (std::size_t i = 0; !rt.shutting_down() || more-- > 0; ++i) {
      const auto phase = i % 2 == 0 ? shutdown_phase::stop_accepting : shutdown_phase::drain;
      hooks[i % hooks.size()] =
          rt.on_shutdown(phase, rt.loops().next(), [&called_twice, calls = 0]() mutable {
            if (++calls > 1) ++called_twice;
          });
      try {
        rt.spawn([](std::atomic<int>& e) -> task<> {
          co_await gyre::shielded(gyre::yield());
          ++e;
        }(ended));
        ++spawned;
      } catch (const std::system_error&) {
        return;
      }
    }
  };
  std::vector<std::jthread> others;
  for (int i = 0; i < 3; ++i) others.emplace_back(come_and_go);
  EXPECT_EQ(rt.run([&](runtime& self) -> task<> {
    while (ended < 100) co_await gyre::yield();
    self.shutdown();
  }),
            0);
  others.clear();
  EXPECT_EQ(spawned, ended);
  EXPECT_EQ(called_twice, 0);
}

TEST(RuntimeSignals, EndTheRuntimeInOrder) {
  for (const int signal : {SIGINT, SIGTERM}) {
    runtime rt(two_loops());
    bool drained = false;
    const shutdown_hook hook = rt.on_shutdown(shutdown_phase::drain, [&] { drained = true; });
    EXPECT_EQ(rt.run([&](runtime&) -> task<int> {
      ::kill(::getpid(), signal);
      co_await for_ever();
      co_return 1;
    }),
              0);
    EXPECT_TRUE(drained);
  }
}

TEST(RuntimeSignals, CanBeChosen) {
  runtime_options options = two_loops();
  options.signals = {SIGUSR1};
  runtime rt(std::move(options));
  ::kill(::getpid(), SIGUSR1);
  EXPECT_EQ(rt.run(until_stopped), 0);
  runtime_options wrong;
  wrong.signals = {SIGKILL};
  EXPECT_THROW(runtime{std::move(wrong)}, std::system_error);
}

TEST(RuntimeSignals, ASecondOneForcesTheEnd) {
  runtime rt(two_loops());
  std::vector<shutdown_hook> hooks;
  std::optional<shutdown_step> never_done;
  hooks.push_back(rt.on_shutdown(shutdown_phase::drain, [&](shutdown_step step) {
    never_done.emplace(std::move(step));
    ::kill(::getpid(), SIGTERM);
  }));
  hooks.push_back(rt.on_shutdown(shutdown_phase::force, [&] { never_done.reset(); }));
  EXPECT_EQ(rt.run([](runtime&) -> task<int> {
    ::kill(::getpid(), SIGTERM);
    co_await for_ever();
    co_return 1;
  }),
            0);
}

runtime* told_by_handler = nullptr;

TEST(RuntimeSignals, ShutdownMayBeCalledByAHandler) {
  runtime rt(two_loops());
  told_by_handler = &rt;
  const auto before = std::signal(SIGUSR2, [](int) { told_by_handler->shutdown(); });
  EXPECT_EQ(rt.run([](runtime&) -> task<int> {
    ::kill(::getpid(), SIGUSR2);
    co_await for_ever();
    co_return 1;
  }),
            0);
  std::signal(SIGUSR2, before);
}

TEST(RuntimeSignals, TakeTheirOrdinaryEffectAgainAfterIt) {
  sigset_t mask;
  {
    const runtime rt(two_loops());
  }
  ASSERT_EQ(::pthread_sigmask(SIG_SETMASK, nullptr, &mask), 0);
  EXPECT_EQ(sigismember(&mask, SIGINT), 0);
  EXPECT_EQ(sigismember(&mask, SIGTERM), 0);
}

void (*action_for(int signal))(int) {
  struct sigaction now{};
  ::sigaction(signal, nullptr, &now);
  return now.sa_handler;
}

TEST(RuntimeSignals, APipeWithoutReaderIsAnErrorAndNoSignal) {
  ASSERT_EQ(action_for(SIGPIPE), SIG_DFL);
  {
    const runtime rt(two_loops());
    EXPECT_EQ(action_for(SIGPIPE), SIG_IGN);
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    ::close(ends[0]);
    EXPECT_EQ(::write(ends[1], "x", 1), -1);
    EXPECT_EQ(errno, EPIPE);
    ::close(ends[1]);
  }
  EXPECT_EQ(action_for(SIGPIPE), SIG_DFL);
  runtime_options options = two_loops();
  options.ignore_sigpipe = false;
  const runtime other(std::move(options));
  EXPECT_EQ(action_for(SIGPIPE), SIG_DFL);
}

TEST(RuntimeSignals, APipeWithoutReaderIsNoSignalAsLongAsOneRuntimeLives) {
  auto first = std::make_unique<runtime>(two_loops());
  {
    const runtime second(two_loops());
    first.reset();
    EXPECT_EQ(action_for(SIGPIPE), SIG_IGN);
  }
  EXPECT_EQ(action_for(SIGPIPE), SIG_DFL);
}

class RuntimeDeath : public testing::Test {
 protected:
  RuntimeDeath() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(RuntimeDeath, GivesUpOnWhatDoesNotEndWhenForced) {
  const auto hang = [] {
    runtime_options options = two_loops();
    options.drain_time = 0ms;
    options.force_time = 1ms;
    runtime rt(std::move(options));
    std::optional<shutdown_step> never_done;
    const shutdown_hook hook = rt.on_shutdown(
        shutdown_phase::force, [&](shutdown_step step) { never_done.emplace(std::move(step)); });
    rt.shutdown();
    static_cast<void>(rt.run([](runtime&) -> task<> {
      gyre::manual_reset_event deaf;
      static_cast<void>(co_await gyre::as_task([](gyre::manual_reset_event& e) -> task<int> {
        co_await e.wait();
        co_return 0;
      }(deaf)));
    }));
  };
  // One, or two if the hook has not returned yet.
  EXPECT_EXIT(hang(), testing::ExitedWithCode(EXIT_FAILURE),
              "[12] shutdown hooks did not end\ngyre::record_live_tasks\\(true\\)");
  const auto hang_recorded = [&] {
    gyre::record_live_tasks(true);
    hang();
  };
  EXPECT_EXIT(hang_recorded(), testing::ExitedWithCode(EXIT_FAILURE),
              "gave up: [01] tasks and [12] shutdown hooks did not end\n[01] live task");
}

TEST_F(RuntimeDeath, NamesTheTasksThatItGivesUp) {
  const auto hang = [] {
    gyre::record_live_tasks(true);
    runtime_options options = two_loops();
    options.drain_time = 0ms;
    options.force_time = 1ms;
    runtime rt(std::move(options));
    rt.shutdown();
    static_cast<void>(rt.run([](runtime& self) -> task<> {
      auto deaf = gyre::shielded([]() -> task<> {
        gyre::manual_reset_event never;
        co_await never.wait();
      }());
      static_cast<void>(self);
      co_await std::move(deaf);
    }));
  };
  EXPECT_EXIT(hang(), testing::ExitedWithCode(EXIT_FAILURE),
              "gave up: 1 tasks and 0 shutdown hooks did not end\n"
              "1 live task\n  1 of \"main task\" from ");
}

TEST_F(RuntimeDeath, AThirdSignalTakesItsOrdinaryEffect) {
  const auto hang = [] {
    runtime rt(two_loops());
    std::vector<shutdown_hook> hooks;
    std::optional<shutdown_step> never_done;
    hooks.push_back(rt.on_shutdown(shutdown_phase::drain, [&](shutdown_step step) {
      never_done.emplace(std::move(step));
      ::kill(::getpid(), SIGTERM);
    }));
    hooks.push_back(rt.on_shutdown(shutdown_phase::force, [] { ::kill(::getpid(), SIGTERM); }));
    ::kill(::getpid(), SIGTERM);
    static_cast<void>(rt.run(until_stopped));
  };
  EXPECT_EXIT(hang(), testing::KilledBySignal(SIGTERM), "");
}

}  // namespace
}  // namespace runtime_test
