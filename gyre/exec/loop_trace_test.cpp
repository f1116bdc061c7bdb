// SPDX-License-Identifier: Apache-2.0
// The events of loops in the flight recorder. Functions are held until the test has seen what it
// wants, or for a time that no other function of the test needs, so no test depends on the speed of
// the machine.
#include <gyre/base/detail/process_threads.hpp>
#include <gyre/base/unique_fd.hpp>
#include <gyre/exec/executor_watchdog.hpp>
#include <gyre/exec/fd_watch.hpp>
#include <gyre/exec/loop.hpp>
#include <gyre/exec/loop_thread.hpp>
#include <gyre/exec/timer.hpp>
#include <gyre/sync/mutex.hpp>
#include <gyre/task/schedule.hpp>
#include <gyre/task/sleep.hpp>
#include <gyre/task/spawn.hpp>
#include <gyre/task/task.hpp>
#include <gyre/trace/detail/function_names.hpp>
#include <gyre/trace/detail/recorder_set.hpp>
#include <gyre/trace/detail/text_report.hpp>
#include <gyre/trace/dump.hpp>
#include <gyre/trace/recording.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <future>
#include <string>
#include <thread>
#include <vector>

namespace loop_trace_test {

// Functions with external names, which the compiler keeps.
[[gnu::noinline]] void block_for(std::chrono::milliseconds time) {
  std::this_thread::sleep_for(time);
  __asm__ volatile("" ::: "memory");
}
struct slow_callable {
  void operator()() const { block_for(std::chrono::milliseconds(20)); }
};
gyre::task<> slow_coroutine(gyre::event_loop& loop) {
  co_await gyre::schedule(loop);
  block_for(std::chrono::milliseconds(20));
}
gyre::task<> coroutine_with_lock(gyre::mutex& mutex, std::chrono::milliseconds time) {
  auto guard = co_await mutex.lock();
  co_await gyre::sleep_for(time);
}

namespace {

using namespace std::chrono_literals;
using gyre::trace::detail::event;
using gyre::trace::detail::event_kind;
using testing::HasSubstr;

// The events of the calling thread, of one kind.
std::vector<event> own_events(event_kind kind) {
  std::vector<event> events;
  for (const auto& record : gyre::trace::detail::copy_records()) {
    if (record.thread != gyre::detail::thread_id()) continue;
    for (const event& each : record.events) {
      if (each.kind == kind) events.push_back(each);
    }
  }
  return events;
}

std::string slow_text() { return gyre::trace::dump_text({.last = 1min, .slow = 15ms}); }

// Runs the posted tasks until the loop has nothing to do.
void run_all(gyre::event_loop& loop) {
  while (loop.poll()) {
  }
}

TEST(LoopTrace, NamesATaskThatHeldTheLoop) {
  gyre::loop loop;
  loop.post(slow_callable());
  run_all(loop);
  EXPECT_THAT(slow_text(), HasSubstr(" by task loop_trace_test::slow_callable"));
}

TEST(LoopTrace, NamesACoroutineThatHeldTheLoop) {
  gyre::loop loop;
  gyre::spawn(loop, slow_coroutine(loop));
  run_all(loop);
  EXPECT_THAT(slow_text(), HasSubstr(" by coroutine loop_trace_test::slow_coroutine"));
}

TEST(LoopTrace, NamesTheFunctionOfATimer) {
  gyre::loop loop;
  gyre::timer timer(loop, slow_callable());
  timer.start_after(0ms);
  while (timer.active()) loop.poll();
  EXPECT_FALSE(own_events(event_kind::timer).empty());
}

TEST(LoopTrace, RecordsTimersThatAreLate) {
  gyre::loop loop;
  gyre::timer timer(loop, [] {});
  timer.start_after(1ms);
  loop.post([] { block_for(20ms); });
  while (timer.active()) loop.poll();
  EXPECT_THAT(slow_text(), HasSubstr("late timers: "));
}

TEST(LoopTrace, ATimerWhoseDeadlineIsTheLowestIsNotLate) {
  gyre::loop loop;
  gyre::timer timer(loop, [] {});
  timer.start_at(gyre::steady_time::min());
  while (timer.active()) loop.poll();
  gyre::timer later(loop, [] {});
  later.start_at(gyre::steady_time{});
  while (later.active()) loop.poll();
}

TEST(LoopTrace, RecordsABatchOfShortTasks) {
  gyre::loop loop;
  // The first batch is short on average, so the tasks of the next one are not measured.
  for (int task = 0; task < 1000; ++task) loop.post([] {});
  run_all(loop);
  for (int task = 0; task < 1000; ++task) loop.post([] {});
  loop.post(slow_callable());
  run_all(loop);
  EXPECT_TRUE(slow_text().contains("a batch of short tasks") ||
              slow_text().contains("slow_callable"))  // if the machine was slow
      << slow_text();
}

TEST(LoopTrace, RecordsTheCallbackOfADescriptor) {
  gyre::loop loop;
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  const gyre::unique_fd reader(ends[0]);
  const gyre::unique_fd writer(ends[1]);
  bool is_done = false;
  gyre::fd_watch watch(loop, reader.get(), [&](gyre::readiness) {
    block_for(20ms);
    is_done = true;
    watch.stop();
  });
  watch.start(gyre::readiness::readable);
  ASSERT_EQ(::write(writer.get(), "x", 1), 1);
  while (!is_done) loop.run_once();
  EXPECT_FALSE(own_events(event_kind::io_callback).empty());
  EXPECT_FALSE(own_events(event_kind::io).empty());
}

TEST(LoopTrace, ShowsTheTaskThatHoldsTheLoopNow) {
  gyre::loop_thread io;
  std::promise<void> begun;
  std::promise<void> end;
  io.loop().post([&] {
    begun.set_value();
    end.get_future().wait();
  });
  begun.get_future().wait();
  EXPECT_THAT(gyre::trace::dump_text({.slow = 0ms}), HasSubstr("has been held for "));
  end.set_value();
}

TEST(LoopTrace, RecordsSleepsAndWakeUps) {
  gyre::loop_thread io;
  std::promise<void> ran;
  while (io.loop().metrics().sleeps == 0) std::this_thread::yield();
  io.loop().post([&] { ran.set_value(); });
  ran.get_future().wait();
  const std::string json = gyre::trace::dump_json();
  EXPECT_THAT(json, HasSubstr("\"name\":\"sleep\",\"cat\":\"loop\""));
  // The loop may have been about to sleep, or awake again.
  if (io.loop().metrics().wakeups > 0) {
    EXPECT_THAT(json, HasSubstr("\"name\":\"wake\",\"cat\":\"loop\""));
  }
}

TEST(LoopTrace, RecordsNothingWhileRecordingIsOff) {
  const std::size_t before = own_events(event_kind::task).size();
  gyre::trace::set_recording(false);
  gyre::loop loop;
  loop.post(slow_callable());
  run_all(loop);
  gyre::trace::set_recording(true);
  EXPECT_EQ(own_events(event_kind::task).size(), before);
}

TEST(LoopTrace, KeepsItsPlaceWhenATaskThrows) {
  int errors = 0;
  gyre::loop loop({.on_exception = [&](const std::exception_ptr&) { ++errors; }});
  int ran = 0;
  for (int task = 0; task < 10; ++task) {
    loop.post([&] {
      ++ran;
      throw 1;
    });
    loop.post([&] { ++ran; });
  }
  run_all(loop);
  EXPECT_EQ(ran, 20);
  EXPECT_EQ(errors, 10);
}

TEST(LoopTrace, RecordsWaitsForAMutex) {
  gyre::loop loop;
  gyre::mutex mutex;
  int ended = 0;
  const auto wait = [&]() -> gyre::task<> {
    co_await coroutine_with_lock(mutex, 10ms);
    if (++ended == 3) loop.stop();
  };
  for (int waiter = 0; waiter < 3; ++waiter) gyre::spawn(loop, wait());
  loop.run();
  EXPECT_THAT(slow_text(), HasSubstr("lock wait loop_trace_test::coroutine_with_lock: "));
}

TEST(WatchdogTrace, NamesTheTaskAndItsCalls) {
  gyre::loop_thread io;
  std::promise<std::string> report;
  std::atomic<bool> must_end = false;
  std::atomic<bool> is_reported = false;
  {
    gyre::executor_watchdog watchdog(
        {.limit = 1ms, .on_hold = [&](const gyre::held_executor& held) {
           if (held.activity.empty() || held.stack.empty() || is_reported.exchange(true)) {
             must_end = true;  // the loop was held before the task began
             return;
           }
           std::string text(held.activity);
           for (const std::string& each : held.stack) text.append("\n").append(each);
           report.set_value(text);
           must_end = true;
         }});
    watchdog.watch(io.loop(), "io");
    while (!is_reported) {
      must_end = false;
      std::promise<void> ended;
      io.loop().post([&] {
        while (!must_end) block_for(1ms);
        ended.set_value();
      });
      ended.get_future().wait();
    }
    watchdog.forget(io.loop());
  }
  const std::string text = report.get_future().get();
  EXPECT_THAT(text, HasSubstr("task loop_trace_test::"));
  EXPECT_THAT(text, HasSubstr("loop_trace_test::block_for ("));
  EXPECT_THAT(text, HasSubstr("gyre::event_loop::run"));
}

TEST(WatchdogTrace, LeavesASignalOfTheProgramAlone) {
  gyre::loop_thread io;
  const auto old_handler = std::signal(SIGVTALRM, SIG_IGN);
  std::promise<std::size_t> calls;
  std::atomic<bool> is_reported = false;
  std::promise<void> end;
  {
    gyre::executor_watchdog watchdog(
        {.limit = 1ms, .on_hold = [&](const gyre::held_executor& held) {
           if (!is_reported.exchange(true)) calls.set_value(held.stack.size());
         }});
    watchdog.watch(io.loop(), "io");
    io.loop().post([until = end.get_future()] { until.wait(); });
    EXPECT_EQ(calls.get_future().get(), 0U);
    end.set_value();
    watchdog.forget(io.loop());
  }
  std::signal(SIGVTALRM, old_handler);
}

}  // namespace
}  // namespace loop_trace_test
