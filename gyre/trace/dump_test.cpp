// SPDX-License-Identifier: Apache-2.0
#include <gyre/base/detail/process_threads.hpp>
#include <gyre/base/detail/ticks.hpp>
#include <gyre/trace/detail/function_names.hpp>
#include <gyre/trace/detail/json_report.hpp>
#include <gyre/trace/detail/recorder.hpp>
#include <gyre/trace/detail/snapshot.hpp>
#include <gyre/trace/detail/text_report.hpp>
#include <gyre/trace/dump.hpp>
#include <gyre/trace/span.hpp>
#include <tests/support/small_elf_file.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace dump_test {

// Named by the tests of symbols; external, so that the compiler keeps the name.
[[gnu::noinline]] int function_with_a_name(int argument) { return argument + 1; }

namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::Not;
namespace trace = gyre::trace;
using trace::detail::event_kind;
using trace::detail::shorten_function_name;
using trace::detail::snapshot;
using trace::detail::timed_event;

constexpr gyre::steady_time noon{std::chrono::hours(12)};

timed_event ended_before(std::chrono::nanoseconds age, std::chrono::nanoseconds length,
                         event_kind kind, std::uint64_t object, std::uint64_t value = 0) {
  return {.begin = noon - age - length,
          .length = length,
          .kind = kind,
          .object = object,
          .value = value};
}

std::uint64_t label_object(const char* text) { return trace::detail::address_of(text); }

snapshot with_one_thread(std::vector<timed_event> events) {
  snapshot taken{.process = 4711, .name = "server", .time = noon, .threads = {}};
  taken.threads.push_back({.thread = 4712,
                           .name = "network",
                           .has_ended = false,
                           .activity = {},
                           .events = std::move(events)});
  return taken;
}

std::string text_of(const snapshot& records) {
  trace::detail::function_names names;
  return trace::detail::report_as_text(records, 5ms, names);
}

std::string json_of(const snapshot& records) {
  trace::detail::function_names names;
  return trace::detail::report_as_json(records, names);
}

TEST(DumpText, NamesTheHandlerThatHeldAThread) {
  const std::uint64_t report = label_object("GET /report");
  const std::string text = text_of(with_one_thread({
      ended_before(10s, 20ms, event_kind::handler, report),
      ended_before(2s, 312ms, event_kind::handler, report),
      ended_before(1s, 1ms, event_kind::handler, label_object("GET /fast")),
  }));
  EXPECT_THAT(text, HasSubstr("thread 'network' (4712) was held 312 ms by handler GET /report (2 "
                              "times, 332 ms in total, the latest 2.00 s ago)"));
  EXPECT_THAT(text, Not(HasSubstr("GET /fast")));
}

TEST(DumpText, NamesTheInnerEventInsteadOfTheBatchAroundIt) {
  const std::string text = text_of(with_one_thread({
      ended_before(1s, 101ms, event_kind::io, 0, 3),
      ended_before(1s, 100ms, event_kind::handler, label_object("GET /slow")),
      ended_before(500ms, 50ms, event_kind::batch, 0, 900),
  }));
  EXPECT_THAT(text, Not(HasSubstr("ready descriptors")));
  EXPECT_THAT(text, HasSubstr("held 100 ms by handler GET /slow"));
  EXPECT_THAT(text, HasSubstr("held 50.0 ms by a batch of short tasks"));
}

TEST(DumpText, TellsWhatHoldsAThreadNow) {
  snapshot taken = with_one_thread({});
  taken.threads[0].activity = timed_event{.begin = noon - 3200ms,
                                          .length = 3200ms,
                                          .kind = event_kind::handler,
                                          .object = label_object("GET /stuck"),
                                          .value = 0};
  EXPECT_THAT(text_of(taken), HasSubstr("thread 'network' (4712) has been held for 3.20 s by "
                                        "handler GET /stuck"));
}

TEST(DumpText, ListsWaitsAndPauses) {
  const std::string text = text_of(with_one_thread({
      ended_before(4s, 5s, event_kind::resolve, label_object("slow.example")),
      ended_before(1s, 2s, event_kind::pause, 0),
      ended_before(1s, 312ms, event_kind::late_timers, 0, 2),
      ended_before(100ms, 2s, event_kind::sleep, 0x1000),
  }));
  EXPECT_THAT(text, HasSubstr("resolve slow.example: 5.00 s (4.00 s ago)"));
  EXPECT_THAT(text, HasSubstr("The process did not run for 2.00 s, 1.00 s ago"));
  EXPECT_THAT(text, HasSubstr("late timers: 312 ms"));
  EXPECT_THAT(text, Not(HasSubstr("sleep")));
}

TEST(DumpText, ListsSpansThatHaveNotEnded) {
  const std::string text = text_of(with_one_thread({
      ended_before(3s, 0s, event_kind::span_begin, label_object("resize"), 1),
      ended_before(2s, 0s, event_kind::span_begin, label_object("upload"), 2),
      ended_before(1s, 1s, event_kind::span, label_object("upload"), 2),
  }));
  EXPECT_THAT(text, HasSubstr("span resize: begun 3.00 s before"));
  EXPECT_THAT(text, HasSubstr("span upload: 1.00 s (1.00 s ago)"));
  EXPECT_THAT(text, Not(HasSubstr("upload: begun")));
}

TEST(DumpText, SaysThatNothingWasSlow) {
  EXPECT_THAT(text_of(with_one_thread({})), HasSubstr("Nothing took 5.00 ms or longer."));
}

TEST(DumpText, PrintsNamesWithinOneLineInUtf8) {
  snapshot taken = with_one_thread(
      {ended_before(2s, 1s, event_kind::handler, label_object("GET /\n\x1b[31m\xff")),
       ended_before(1s, 5s, event_kind::resolve, label_object("\xc2\x9b.example"))});
  taken.name = "a\nserver";
  taken.threads[0].name = "net\x1bwork\xc3";
  taken.threads[0].activity = timed_event{.begin = noon - 2s,
                                          .length = 2s,
                                          .kind = event_kind::handler,
                                          .object = label_object("GET /\rnow"),
                                          .value = 0};
  const std::string text = text_of(taken);
  EXPECT_THAT(text, HasSubstr(R"(process 'a\nserver')"));
  EXPECT_THAT(text, HasSubstr(R"(thread 'net\x1bwork\xc3' (4712) was held 1.00 s by handler GET )"
                              R"(/\n\x1b[31m\xff ()"));
  EXPECT_THAT(text, HasSubstr(R"(  resolve \xc2\x9b.example: 5.00 s)"));
  EXPECT_THAT(text, HasSubstr(R"(thread 'net\x1bwork\xc3' (4712) has been held for 2.00 s by )"
                              R"(handler GET /\x0dnow)"));
}

TEST(DumpText, NamesAFunctionThatTheProgramDoesNotExport) {
  const std::uint64_t function = trace::detail::address_of(&function_with_a_name);
  const std::string text =
      text_of(with_one_thread({ended_before(1s, 40ms, event_kind::task, function)}));
  EXPECT_THAT(text, HasSubstr("by task dump_test::function_with_a_name ("));
}

TEST(DumpText, DescribesLengthsWithThreeDigits) {
  using trace::detail::describe_duration;
  EXPECT_EQ(describe_duration(0ns), "0 ns");
  EXPECT_EQ(describe_duration(999ns), "999 ns");
  EXPECT_EQ(describe_duration(1500ns), "1.50 us");
  EXPECT_EQ(describe_duration(20'300us), "20.3 ms");
  EXPECT_EQ(describe_duration(3h), "10800 s");
}

TEST(DumpJson, WritesThreadsEventsAndArguments) {
  const std::string json = json_of(with_one_thread({
      ended_before(1s, 1500ns, event_kind::batch, 0, 12),
      ended_before(500ms, 2ms, event_kind::resolve, label_object("a \"quoted\"\n name")),
  }));
  EXPECT_THAT(json, HasSubstr(R"({"ph":"M","name":"process_name","pid":4711,"tid":0,"args":)"
                              R"({"name":"server"}})"));
  EXPECT_THAT(json, HasSubstr(R"("tid":4712,"args":{"name":"network"})"));
  EXPECT_THAT(json, HasSubstr(R"("ph":"X","name":"batch","cat":"loop","pid":4711,"tid":4712)"));
  EXPECT_THAT(json, HasSubstr(R"("ts":43198999998.500,"dur":1.500,"args":{"kind":"batch",)"
                              R"("tasks":12})"));
  EXPECT_THAT(json, HasSubstr(R"("name":"resolve a \"quoted\"\u000a name")"));
  EXPECT_THAT(json, HasSubstr(R"("ph":"b")"));
  EXPECT_THAT(json, HasSubstr(R"("ph":"e")"));
}

TEST(DumpJson, IsUtf8WhateverTheNamesAre) {
  snapshot taken =
      with_one_thread({ended_before(1s, 2ms, event_kind::resolve, label_object("\xff.example"))});
  taken.name = "server\xc3";
  taken.threads[0].name = "net\xe2\x82work";
  const std::string json = json_of(taken);
  EXPECT_THAT(json, HasSubstr("\"args\":{\"name\":\"server\uFFFD\"}"));
  EXPECT_THAT(json, HasSubstr("\"args\":{\"name\":\"net\uFFFD\uFFFDwork\"}"));
  EXPECT_THAT(json, HasSubstr("\"name\":\"resolve \uFFFD.example\""));
}

TEST(DumpJson, DrawsAnArrowFromAWakeUpToTheSleepThatItEnds) {
  snapshot taken = with_one_thread({ended_before(1s, 0s, event_kind::wake, 0x100)});
  taken.threads.push_back({.thread = 4713,
                           .name = "sleeper",
                           .has_ended = false,
                           .activity = {},
                           .events = {ended_before(5s, 1s, event_kind::sleep, 0x100),
                                      ended_before(999ms, 3s, event_kind::sleep, 0x100)}});
  const std::string json = json_of(taken);
  EXPECT_THAT(json, HasSubstr(R"("ph":"s","name":"wake","cat":"flow","pid":4711,"tid":4712)"));
  EXPECT_THAT(json, HasSubstr(R"("ph":"f","name":"wake","cat":"flow","pid":4711,"tid":4713,)"
                              R"("ts":43199000999.999)"));
}

TEST(Dump, ContainsWhatTheProgramHasRecorded) {
  std::thread([] {
    const trace::span span("seen");
    static_cast<void>(span);
    trace::detail::record_since(trace::detail::begin_now(), event_kind::handler,
                                label_object("GET /seen"));
    EXPECT_THAT(trace::dump_json(), HasSubstr("\"name\":\"handler GET /seen\""));
  }).join();
  const std::string json = trace::dump_json();
  EXPECT_THAT(json, HasSubstr("\"name\":\"span seen\""));
  EXPECT_THAT(trace::dump_text({.last = 1h, .slow = 0s}), HasSubstr("span seen"));
  EXPECT_THAT(trace::dump_text({.last = 0s, .slow = 1h}), HasSubstr("Nothing took 3600 s"));
}

TEST(FunctionNames, AreShort) {
  EXPECT_EQ(shorten_function_name("serve(gyre::http::request&)"), "serve");
  EXPECT_EQ(shorten_function_name("main::{lambda()#1}::operator()() const"), "main::{lambda()#1}");
  EXPECT_EQ(shorten_function_name("app::(anonymous namespace)::run(int)"),
            "app::(anonymous namespace)::run");
  EXPECT_EQ(shorten_function_name("gyre::task<int> load<int, (kind)3>(std::string)"),
            "load<int, (kind)3>");
  EXPECT_EQ(shorten_function_name("serve(serve(int)::_Z5servei.Frame*)"), "serve");
  EXPECT_EQ(shorten_function_name("serve(int) [clone .resume]"), "serve");
  EXPECT_EQ(
      shorten_function_name(
          "unsigned long gyre::inbox::detail::task_cell::run_or_drop<main::{lambda()#2}>(void*, "
          "gyre::inbox::detail::task_cell::action)"),
      "main::{lambda()#2}");
  EXPECT_EQ(shorten_function_name(
                "gyre::detail::callable_task<gyre::detail::timed_callable<f(int)::{lambda(int)#1}> "
                ">::run(gyre::operation&)"),
            "f(int)::{lambda(int)#1}");
  EXPECT_EQ(shorten_function_name("a::operator<(a const&)"), "a::operator<(a const&)");
  EXPECT_EQ(shorten_function_name(""), "");
}

TEST(FunctionNames, FindNothingOutsideOfCode) {
  trace::detail::function_names names;
  EXPECT_EQ(names.find(0).image, "");
  EXPECT_EQ(names.find(~std::uint64_t{0}).function, "");
}

TEST(FunctionNames, ReadsTheSymbolTable) {
  const std::vector<std::byte> image = gyre::test::small_elf_file();
  EXPECT_EQ(trace::detail::find_symbol(image, 0x1000), "inner");
  EXPECT_EQ(trace::detail::find_symbol(image, 0x100f), "inner");
  EXPECT_EQ(trace::detail::find_symbol(image, 0x1010), "");
  EXPECT_EQ(trace::detail::find_symbol(image, 0xfff), "");
}

TEST(FunctionNames, SurvivesFilesThatAreCutOrChanged) {
  const std::vector<std::byte> image = gyre::test::small_elf_file();
  for (std::size_t size = 0; size < image.size(); ++size) {
    const std::vector<std::byte> cut(image.begin(), image.begin() + static_cast<long>(size));
    static_cast<void>(trace::detail::find_symbol(cut, 0x1000));
  }
  for (std::size_t at = 0; at < image.size(); ++at) {
    std::vector<std::byte> changed = image;
    for (const std::byte value : {std::byte{0x00}, std::byte{0x7f}, std::byte{0xff}}) {
      changed[at] = value;
      static_cast<void>(trace::detail::find_symbol(changed, 0x1000));
    }
  }
}

}  // namespace
}  // namespace dump_test
