// SPDX-License-Identifier: Apache-2.0
#include <gyre/base/detail/process_threads.hpp>
#include <gyre/base/detail/ticks.hpp>
#include <gyre/trace/detail/activity_scope.hpp>
#include <gyre/trace/detail/each_or_batch.hpp>
#include <gyre/trace/detail/function_sequence.hpp>
#include <gyre/trace/detail/intern_peer_name.hpp>
#include <gyre/trace/detail/recorder.hpp>
#include <gyre/trace/detail/recorder_set.hpp>
#include <gyre/trace/label.hpp>
#include <gyre/trace/recording.hpp>
#include <gyre/trace/span.hpp>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <latch>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace recorder_test {
namespace {

namespace trace = gyre::trace;
using trace::detail::event;
using trace::detail::event_kind;

// The record of the thread, which the caller expects to have one.
trace::detail::thread_record record_of(::pid_t thread) {
  for (auto& each : trace::detail::copy_records()) {
    if (each.thread == thread) return each;
  }
  ADD_FAILURE() << "no record of thread " << thread;
  return {};
}

trace::detail::thread_record own_record() { return record_of(gyre::detail::thread_id()); }

std::vector<event> events_with_object(std::uint64_t object) {
  std::vector<event> events = own_record().events;
  std::erase_if(events, [&](const event& each) { return each.object != object; });
  return events;
}

TEST(Ticks, AgreeWithTheMonotonicClock) {
  using namespace std::chrono_literals;
  static_cast<void>(gyre::detail::measured_tick_rate());  // sets the first anchor
  const gyre::detail::tick_anchor begin = gyre::detail::tick_anchor::read();
  while (gyre::detail::monotonic_now() < begin.time + 2ms) {
  }
  const gyre::detail::tick_anchor end = gyre::detail::tick_anchor::read();
  const gyre::detail::tick_rate rate = gyre::detail::measured_tick_rate();
  const double measured = static_cast<double>(rate.to_duration(end.ticks - begin.ticks).count());
  const double expected = static_cast<double>((end.time - begin.time).count());
  EXPECT_NEAR(measured / expected, 1, 0.05);
  const auto difference = rate.to_time(end.ticks) - end.time;
  EXPECT_LT(std::chrono::abs(difference), 1ms);
  EXPECT_NEAR(static_cast<double>(rate.to_duration(rate.to_ticks(1h)).count()), 3.6e12, 1e6);
}

TEST(Ticks, ARateWithoutTimeCountsNanoseconds) {
  const gyre::detail::tick_rate rate({}, {});
  EXPECT_EQ(rate.to_duration(17).count(), 17);
  EXPECT_EQ(rate.to_ticks(std::chrono::nanoseconds(17)), 17);
}

TEST(Event, KeepsItsFieldsInFourWords) {
  const event original{.begin = 0x1234'5678'9abc'def0,
                       .length = (std::uint64_t{1} << 56) - 1,
                       .kind = event_kind::pause,
                       .object = ~std::uint64_t{0},
                       .value = 42};
  const event copy = event::unpack(original.pack());
  EXPECT_EQ(copy.begin, original.begin);
  EXPECT_EQ(copy.length, original.length);
  EXPECT_EQ(copy.kind, original.kind);
  EXPECT_EQ(copy.object, original.object);
  EXPECT_EQ(copy.value, original.value);
  EXPECT_EQ(trace::detail::info_of(static_cast<event_kind>(255)).name, "none");
}

TEST(Recorder, KeepsTheLatestEventsOfAThread) {
  std::vector<event> events;
  std::thread([&] {
    for (std::uint64_t number = 1; number <= 100'000; ++number) {
      trace::detail::record_moment(event_kind::steal, number);
    }
    events = own_record().events;
  }).join();
  ASSERT_GT(events.size(), 1000U);
  ASSERT_LT(events.size(), 10'000U);
  EXPECT_EQ(events.back().object, 100'000U);
  for (std::size_t index = 1; index < events.size(); ++index) {
    ASSERT_EQ(events[index].object, events[index - 1].object + 1);
  }
}

TEST(Recorder, KeepsLongEventsWhenShortOnesOverwriteTheRing) {
  std::vector<event> events;
  std::thread([&] {
    trace::detail::recorder* const recorder = trace::detail::recorder_here();
    ASSERT_NE(recorder, nullptr);
    const auto second = gyre::detail::measured_tick_rate().to_ticks(std::chrono::seconds(1));
    recorder->push({.begin = 1, .length = second, .kind = event_kind::task, .object = 7});
    for (std::uint64_t number = 0; number < 100'000; ++number) {
      trace::detail::record_moment(event_kind::steal, 1000 + number);
    }
    events = own_record().events;
  }).join();
  ASSERT_FALSE(events.empty());
  EXPECT_EQ(events.front().object, 7U);
}

TEST(Recorder, RecordsNothingWhileItIsOff) {
  trace::set_recording(false);
  EXPECT_FALSE(trace::is_recording());
  EXPECT_EQ(trace::detail::recorder_here(), nullptr);
  EXPECT_EQ(trace::detail::begin_now(), 0U);
  trace::detail::record_moment(event_kind::steal, 0xdead);
  {
    const trace::span span("unseen");
  }
  trace::set_recording(true);
  EXPECT_TRUE(trace::is_recording());
  trace::detail::record_moment(event_kind::steal, 0xbeef);
  EXPECT_TRUE(events_with_object(0xdead).empty());
  EXPECT_EQ(events_with_object(0xbeef).size(), 1U);
}

TEST(Recorder, AThreadThatEndsLeavesItsRecorderToTheNext) {
  std::thread([] { trace::detail::record_moment(event_kind::steal, 1); }).join();
  const std::size_t recorders = trace::detail::recorder_count();
  for (int thread = 0; thread < 100; ++thread) {
    std::thread([] {
      trace::detail::record_moment(event_kind::steal, 2);
      // Events of the earlier owner are not attributed to this thread.
      EXPECT_EQ(own_record().events.size(), 1U);
    }).join();
  }
  EXPECT_EQ(trace::detail::recorder_count(), recorders);
}

TEST(Recorder, TheRecordOfAnEndedThreadKeepsItsName) {
  std::atomic<::pid_t> thread = 0;
  std::thread([&] {
    ::pthread_setname_np(::pthread_self(), "short-lived");
    thread = gyre::detail::thread_id();
    trace::detail::record_moment(event_kind::steal, 3);
  }).join();
  const auto record = record_of(thread);
  EXPECT_TRUE(record.has_ended);
  EXPECT_EQ(record.name, "short-lived");
  EXPECT_EQ(record.events.size(), 1U);
}

TEST(Recorder, ThreadsThatEndStillMayCallIt) {
  struct late_user {
    ~late_user() { trace::detail::record_moment(event_kind::steal, 4); }
  };
  std::thread([] {
    thread_local const late_user late;  // destroyed after the recorder was given up
    static_cast<void>(late);
    trace::detail::record_moment(event_kind::steal, 5);
  }).join();
}

TEST(Recorder, ShowsTheActivityOfAThreadWhileItLasts) {
  std::latch begun(1);
  std::latch seen(1);
  std::atomic<::pid_t> thread = 0;
  std::thread worker([&] {
    thread = gyre::detail::thread_id();
    {
      const trace::detail::activity_scope outer(trace::detail::recorder_here(),
                                                event_kind::pool_task, 11);
      const trace::detail::activity_scope inner(trace::detail::recorder_here(), event_kind::handler,
                                                12);
      begun.count_down();
      seen.wait();
    }
    EXPECT_EQ(trace::detail::activity_of(thread), std::nullopt);
    const std::vector<event> events = own_record().events;
    ASSERT_EQ(events.size(), 2U);
    EXPECT_EQ(events[0].object, 11U);  // the scope that began first
    EXPECT_EQ(events[1].object, 12U);
    EXPECT_GE(events[0].length, events[1].length);
  });
  begun.wait();
  const auto activity = trace::detail::activity_of(thread);
  EXPECT_TRUE(activity.has_value());
  EXPECT_EQ(activity.value_or(trace::detail::activity_info{}).object, 12U);
  seen.count_down();
  worker.join();
}

TEST(Recorder, IsCopiedWhileThreadsRecord) {
  constexpr std::uint64_t marker = 0x5eed'0000'0000;
  std::atomic<bool> must_stop = false;
  std::latch begun(3);
  std::vector<std::thread> writers;
  for (std::uint64_t writer = 0; writer < 3; ++writer) {
    writers.emplace_back([&, writer] {
      begun.count_down();
      trace::detail::recorder* const recorder = trace::detail::recorder_here();
      for (std::uint64_t number = 1; !must_stop; ++number) {
        const std::uint64_t object = marker + writer;
        recorder->push({.begin = number,
                        .length = number & 0xffff,
                        .kind = event_kind::steal,
                        .object = object,
                        .value = number});
        recorder->set_activity({.begin = number, .kind = event_kind::task, .object = number});
      }
      recorder->set_activity({});
    });
  }
  begun.wait();
  for (int copy = 0; copy < 50; ++copy) {
    for (const auto& record : trace::detail::copy_records()) {
      std::uint64_t previous = 0;
      for (const event& each : record.events) {
        if (each.object < marker || each.object > marker + 2) continue;
        ASSERT_EQ(each.begin, each.value);
        ASSERT_EQ(each.length, each.value & 0xffff);
        ASSERT_GT(each.value, previous);
        previous = each.value;
      }
      if (record.activity && record.activity->kind == event_kind::task) {
        ASSERT_EQ(record.activity->begin, record.activity->object);
      }
    }
  }
  must_stop = true;
  for (std::thread& each : writers) each.join();
}

TEST(Recorder, AChildProcessBeginsItsOwnRecord) {
  trace::detail::record_moment(event_kind::steal, 6);
  const ::pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    trace::detail::record_moment(event_kind::steal, 7);
    const auto records = trace::detail::copy_records();
    const bool is_alone = records.size() == 1 && records[0].thread == ::getpid() &&
                          records[0].events.size() == 1 && records[0].events[0].object == 7;
    ::_exit(is_alone ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST(EachOrBatch, RecordsEachFunctionWhileTheyAreLong) {
  static_cast<void>(trace::detail::recorder_here());  // measures the rate
  const auto rate = gyre::detail::measured_tick_rate();
  trace::detail::each_or_batch mode;
  EXPECT_TRUE(mode.records_each());
  mode.end_batch(rate.to_ticks(std::chrono::microseconds(100)), 1000);
  EXPECT_FALSE(mode.records_each());
  mode.end_batch(rate.to_ticks(std::chrono::milliseconds(100)), 1000);
  EXPECT_TRUE(mode.records_each());
}

TEST(RingSize, RefusesSizesThatAreNoPowerOfTwo) {
  EXPECT_THROW(trace::set_ring_size(0), std::invalid_argument);
  EXPECT_THROW(trace::set_ring_size(2048), std::invalid_argument);
  EXPECT_THROW(trace::set_ring_size(100'000), std::invalid_argument);
  EXPECT_NO_THROW(trace::set_ring_size(trace::default_ring_size));
}

TEST(Label, RefersToALiteral) {
  constexpr trace::label name = "resize";
  EXPECT_EQ(name.text(), "resize");
  EXPECT_EQ(trace::label().text(), "");
}

TEST(Label, IsStoredOnce) {
  const trace::label first = trace::intern(std::string("GET /users/{id}"));
  const trace::label second = trace::intern(std::string("GET /users/{id}"));
  EXPECT_EQ(first.text(), "GET /users/{id}");
  EXPECT_EQ(first.c_str(), second.c_str());
  EXPECT_EQ(trace::intern(first.text()), second);
}

TEST(Label, IsOneShortLineIfItComesFromAPeer) {
  using trace::detail::intern_peer_name;
  using trace::detail::max_peer_name;
  EXPECT_EQ(intern_peer_name(" select a,\n\t b \x1b from c\n").text(), "select a, b from c");
  const std::string longest(max_peer_name, 'x');
  EXPECT_EQ(intern_peer_name(longest).text(), longest);
  EXPECT_EQ(intern_peer_name(longest + "yz").text(), longest + "...");
  // The second byte of the last character would not fit.
  const std::string shorter(max_peer_name - 1, 'x');
  EXPECT_EQ(intern_peer_name(shorter + "\u00e9t\u00e9").text(), shorter + "...");
  EXPECT_EQ(intern_peer_name("").text(), "");
}

// A program that begins with this environment records nothing until set_recording(true).
TEST(RecordingDeathTest, TheEnvironmentSwitchesItOff) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  ASSERT_EQ(::setenv("GYRE_TRACE", "off", 1), 0);
  const auto record_in_new_program = [] {
    const bool is_off = trace::detail::find_recorder() == nullptr && !trace::is_recording();
    trace::set_recording(true);
    std::exit(is_off && trace::detail::find_recorder() != nullptr ? 0 : 1);
  };
  EXPECT_EXIT(record_in_new_program(), testing::ExitedWithCode(0), "");
  ::unsetenv("GYRE_TRACE");
}

TEST(Label, MemoryIsBounded) {
  const std::string large(trace::max_interned_bytes / 4, 'x');
  int refused = 0;
  for (char letter = 'a'; letter <= 'h'; ++letter) {
    if (trace::intern(large + letter).text() == "(too many names)") ++refused;
  }
  EXPECT_GE(refused, 5);
  EXPECT_LE(refused, 8);
}

}  // namespace
}  // namespace recorder_test
