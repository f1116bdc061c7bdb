// SPDX-License-Identifier: Apache-2.0
// The examples in the comments of the headers of trace.
#include <gyre/gyre.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iostream>

namespace trace_test {
namespace {

using namespace std::chrono_literals;

// gyre/trace/dump.hpp
TEST(TraceExamples, DumpsAsTextAndAsJson) {
  const auto folder = std::filesystem::path(testing::TempDir()) / "gyre_trace_example";
  std::filesystem::create_directories(folder);
  const auto old_folder = std::filesystem::current_path();
  std::filesystem::current_path(folder);
  std::cerr << gyre::trace::dump_text();
  std::ofstream("trace.json") << gyre::trace::dump_json({.last = 5s});
  EXPECT_GT(std::filesystem::file_size("trace.json"), 0U);
  std::filesystem::current_path(old_folder);
  std::filesystem::remove_all(folder);
}

// gyre/trace/dump_writer.hpp
TEST(TraceExamples, SlowRequestsAreWritten) {
  const auto make = [] {
    gyre::trace::dump_writer writer({.folder = "/var/lib/shop", .max_request = 500ms});
    return writer.written();
  };
  EXPECT_EQ(make(), 0U);
}

// docs/guide/seeing-inside.md
TEST(TraceExamples, ARuntimeWritesDumps) {
  gyre::runtime runtime({.slow_dumps = gyre::trace::dump_writer_options{
                             .folder = "/var/lib/shop", .max_request = 500ms, .max_span = 2s}});
  EXPECT_FALSE(runtime.shutting_down());
}

// gyre/trace/label.hpp
TEST(TraceExamples, LabelsAreNames) {
  constexpr gyre::trace::label name = "resize";
  const gyre::trace::label route = gyre::trace::intern("GET /users/{id}");
  EXPECT_EQ(name.text(), "resize");
  EXPECT_EQ(route.text(), "GET /users/{id}");
}

// gyre/trace/recording.hpp
TEST(TraceExamples, RecordingCanBeSwitchedOff) {
  const bool was_recording = gyre::trace::is_recording();
  gyre::trace::set_recording(false);
  EXPECT_FALSE(gyre::trace::is_recording());
  gyre::trace::set_recording(was_recording);
}

gyre::task<int> compute(int size) { co_return size / 2; }

// gyre/trace/span.hpp
gyre::task<int> resize(gyre::thread_pool& pool, int size) {
  const gyre::trace::span span("resize");
  co_return co_await gyre::on(pool, compute(size));
}
TEST(TraceExamples, ASpanFollowsItsCoroutine) {
  gyre::thread_pool pool({.workers = 1});
  EXPECT_EQ(gyre::sync_wait(resize(pool, 84)), 42);
  if (!gyre::trace::is_recording()) return;  // a build with GYRE_TRACE=OFF
  EXPECT_THAT(gyre::trace::dump_json(), testing::HasSubstr("\"name\":\"span resize\""));
}

}  // namespace
}  // namespace trace_test
