// SPDX-License-Identifier: Apache-2.0
#include <gyre/trace/dump_writer.hpp>

#include <gyre/base/detail/read_file.hpp>
#include <gyre/base/detail/ticks.hpp>
#include <gyre/trace/detail/event.hpp>
#include <gyre/trace/detail/recorder.hpp>
#include <gyre/trace/label.hpp>
#include <gyre/trace/recording.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace trace_dump_writer_test {
namespace {

using namespace std::chrono_literals;
using gyre::trace::dump_writer;
using gyre::trace::dump_writer_options;
using gyre::trace::slow_dump;
using gyre::trace::detail::event_kind;
using testing::HasSubstr;
using testing::Not;

constexpr std::size_t event_size = gyre::trace::detail::event::words * sizeof(std::uint64_t);

class DumpWriter : public testing::Test {
 protected:
  DumpWriter() {
    std::string name = (std::filesystem::temp_directory_path() / "gyre_XXXXXX").string();
    folder = ::mkdtemp(name.data());
  }
  // The events of earlier tests are overwritten by old ones, which no dump has.
  void SetUp() override {
    constexpr std::size_t ring = gyre::trace::default_ring_size / 2 / event_size;
    for (std::size_t number = 0; number < ring; ++number) {
      record(event_kind::resolve, 2ms, "before.example", 1h);
    }
  }
  ~DumpWriter() override { std::filesystem::remove_all(folder); }

  struct report {
    std::string cause;
    std::string path;
    std::error_code error;
  };

  dump_writer_options options() {
    return {.folder = folder,
            .max_request = 100ms,
            .max_span = 50ms,
            .min_interval = 0s,
            .on_dump = [this](const slow_dump& dump) {
              const std::lock_guard lock(mutex_);
              reports_.push_back({std::string(dump.cause), std::string(dump.path), dump.error});
              changed_.notify_all();
            }};
  }

  /// Records an event that has taken `length`, and ended `age` ago.
  static void record(event_kind kind, std::chrono::nanoseconds length,
                     gyre::trace::label name = "GET /report", std::chrono::nanoseconds age = 0s) {
    using namespace gyre::trace::detail;
    recorder* const target = find_recorder();
    ASSERT_NE(target, nullptr);
    const gyre::detail::tick_rate rate = gyre::detail::measured_tick_rate();
    const auto ticks = rate.to_ticks(length);
    const auto age_ticks = rate.to_ticks(std::chrono::abs(age));
    const auto end = gyre::detail::read_ticks();
    target->push({.begin = (age < 0s ? end + age_ticks : end - age_ticks) - ticks,
                  .length = ticks,
                  .kind = kind,
                  .object = address_of(name.c_str()),
                  .value = 0});
  }

  /// Records an event until the writer accepts it, and returns what it has written.
  report dump_of(const dump_writer& writer, event_kind kind, std::chrono::nanoseconds length,
                 gyre::trace::label name = "GET /report") {
    for (bool is_accepted = false; !is_accepted; std::this_thread::yield()) {
      const std::uint64_t skipped = writer.skipped();
      record(kind, length, name);
      is_accepted = writer.skipped() == skipped;
    }
    return next_report();
  }

  report next_report() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return read_ < reports_.size(); });
    return reports_[read_++];
  }

  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& each : std::filesystem::directory_iterator(folder)) {
      names.push_back(each.path().filename().string());
    }
    return names;
  }

  std::string folder;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<report> reports_;
  std::size_t read_ = 0;
};

TEST_F(DumpWriter, WritesTheTraceOfARequestThatExceedsItsLimit) {
  const dump_writer writer(options());
  record(event_kind::request, 99ms, "GET /fast");
  const report written = dump_of(writer, event_kind::request, 101ms);
  EXPECT_THAT(written.cause, HasSubstr("request GET /report took 101 ms"));
  EXPECT_EQ(written.error, std::error_code());
  EXPECT_EQ(written.path, folder + "/gyre-trace-0.json");
  const std::string json = gyre::detail::read_file(written.path.c_str()).value();
  EXPECT_THAT(json, HasSubstr("\"name\":\"request GET /report\""));
  EXPECT_TRUE(json.ends_with("}}\n"));
  EXPECT_EQ(writer.written(), 1U);
  EXPECT_EQ(files(), std::vector<std::string>{"gyre-trace-0.json"});
}

TEST_F(DumpWriter, TakesAHandlerThatDoesNotWaitForTheRequest) {
  const dump_writer writer(options());
  const report written = dump_of(writer, event_kind::handler, 101ms);
  EXPECT_EQ(written.cause, "handler GET /report took 101 ms");
}

TEST_F(DumpWriter, WritesTheTraceOfASpanThatExceedsItsLimit) {
  const dump_writer writer(options());
  record(event_kind::span, 49ms, "short");
  const report written = dump_of(writer, event_kind::span, 51ms, "resize");
  EXPECT_EQ(written.cause, "span resize took 51.0 ms");
}

TEST_F(DumpWriter, IgnoresEventsOfOtherKinds) {
  const dump_writer writer(options());
  record(event_kind::task, 10s);
  record(event_kind::sleep, 10s);
  record(event_kind::statement, 10s);
  EXPECT_THAT(dump_of(writer, event_kind::span, 1s, "own").cause, HasSubstr("span own"));
  EXPECT_EQ(writer.written(), 1U);
  EXPECT_EQ(writer.skipped(), 0U);
}

TEST_F(DumpWriter, HasNoLimitsByDefault) {
  dump_writer_options settings = options();
  settings.max_request = gyre::duration::max();
  const dump_writer writer(std::move(settings));
  record(event_kind::request, std::chrono::hours(1));
  EXPECT_THAT(dump_of(writer, event_kind::span, 1s, "own").cause, HasSubstr("span own"));
}

TEST_F(DumpWriter, LetsOthersNotReadTheFile) {
  const dump_writer writer(options());
  const report written = dump_of(writer, event_kind::request, 1s);
  struct stat status{};
  ASSERT_EQ(::stat(written.path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777U, 0600U);
}

TEST_F(DumpWriter, ReplacesTheOldestOfItsFiles) {
  dump_writer_options settings = options();
  settings.max_files = 3;
  const dump_writer writer(std::move(settings));
  for (const char* const expected : {"0", "1", "2"}) {
    EXPECT_EQ(dump_of(writer, event_kind::request, 1s).path,
              folder + "/gyre-trace-" + expected + ".json");
  }
  // A file that was written long ago, for example before the program started again.
  const auto before = std::filesystem::file_time_type::clock::now() - std::chrono::hours(1);
  std::filesystem::last_write_time(folder + "/gyre-trace-1.json", before);
  EXPECT_EQ(dump_of(writer, event_kind::request, 1s).path, folder + "/gyre-trace-1.json");
  EXPECT_EQ(files().size(), 3U);
}

TEST_F(DumpWriter, CountsEventsThatComeTooSoonAfterADump) {
  dump_writer_options settings = options();
  settings.min_interval = gyre::duration::max();
  const dump_writer writer(std::move(settings));
  dump_of(writer, event_kind::request, 1s);
  for (int number = 0; number < 5; ++number) record(event_kind::request, 1s);
  EXPECT_EQ(writer.skipped(), 5U);
  EXPECT_EQ(writer.written(), 1U);
}

TEST_F(DumpWriter, LeavesTheOldestEventsOutOfAFileThatIsTooLarge) {
  dump_writer_options settings = options();
  settings.max_file_bytes = std::size_t{64} << 10;
  const dump_writer writer(std::move(settings));
  record(event_kind::resolve, 2ms, "oldest.example", 25s);
  for (int number = 0; number < 2000; ++number) {
    record(event_kind::resolve, 2ms, "old.example", 22s - number * 10ms);
  }
  const report written = dump_of(writer, event_kind::request, 1s, "GET /last");
  EXPECT_EQ(written.error, std::error_code());
  const std::string json = gyre::detail::read_file(written.path.c_str()).value();
  EXPECT_LE(json.size(), std::size_t{64} << 10);
  EXPECT_THAT(json, HasSubstr("GET /last"));
  EXPECT_THAT(json, Not(HasSubstr("oldest.example")));
}

TEST_F(DumpWriter, WritesNoFileIfEvenTheLatestEventsAreTooMany) {
  dump_writer_options settings = options();
  settings.max_file_bytes = std::size_t{64} << 10;
  const dump_writer writer(std::move(settings));
  // They end in the future, as far as the dump can tell, so none of them is old.
  for (int number = 0; number < 2000; ++number) {
    record(event_kind::resolve, 2ms, "near.example", -1h);
  }
  EXPECT_EQ(dump_of(writer, event_kind::request, 1s).error, std::errc::file_too_large);
  EXPECT_TRUE(files().empty());
}

TEST_F(DumpWriter, ReportsAFolderThatDoesNotExist) {
  dump_writer_options settings = options();
  settings.folder = folder + "/none";
  const dump_writer writer(std::move(settings));
  EXPECT_EQ(dump_of(writer, event_kind::request, 1s).error, std::errc::no_such_file_or_directory);
  EXPECT_EQ(writer.written(), 1U);
}

TEST_F(DumpWriter, FollowsNoLinkOfAnother) {
  const std::string victim = folder + "/victim";
  std::filesystem::create_symlink(victim, folder + "/gyre-trace-0.json.tmp");
  std::filesystem::create_symlink(victim, folder + "/gyre-trace-0.json");
  const dump_writer writer(options());
  EXPECT_EQ(dump_of(writer, event_kind::request, 1s).error, std::error_code());
  EXPECT_FALSE(std::filesystem::exists(victim));
}

TEST_F(DumpWriter, ExistsOnce) {
  const auto made = std::make_unique<dump_writer>(options());
  EXPECT_THROW(const dump_writer second(options()), std::logic_error);
}

TEST_F(DumpWriter, ANewOneFollowsAnOldOne) {
  for (int number = 0; number < 3; ++number) {
    const dump_writer writer(options());
    EXPECT_EQ(dump_of(writer, event_kind::request, 1s).error, std::error_code());
  }
  record(event_kind::request, 10s);  // nobody writes
  EXPECT_EQ(files().size(), 3U);
}

TEST_F(DumpWriter, RefusesOptionsOutOfTheirRanges) {
  const auto refuses = [this](auto change) {
    dump_writer_options settings = options();
    change(settings);
    EXPECT_THROW(const dump_writer refused(std::move(settings)), std::invalid_argument);
  };
  refuses([](auto& settings) { settings.folder.clear(); });
  refuses([](auto& settings) { settings.max_request = 999us; });
  refuses([](auto& settings) { settings.max_span = -1s; });
  refuses([](auto& settings) { settings.max_files = 0; });
  refuses([](auto& settings) { settings.max_file_bytes = 65535; });
  refuses([](auto& settings) { settings.min_interval = -1ns; });
  refuses([](auto& settings) { settings.last = 0s; });
  const dump_writer writer(options());  // a refused one has left nothing behind
  EXPECT_EQ(dump_of(writer, event_kind::request, 1s).error, std::error_code());
}

// A child process has no writer, so its slow events must wait for nobody.
TEST_F(DumpWriter, AChildProcessRecordsOn) {
  const dump_writer writer(options());
  const pid_t child = ::fork();
  if (child == 0) {
    record(event_kind::request, 1s);
    ::_exit(writer.skipped() == 1 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(dump_of(writer, event_kind::request, 1s).error, std::error_code());
}

}  // namespace
}  // namespace trace_dump_writer_test
