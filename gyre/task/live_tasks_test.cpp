// SPDX-License-Identifier: Apache-2.0
#include <gyre/task/live_tasks.hpp>

#include <gyre/exec/loop.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/task/async_scope.hpp>
#include <gyre/task/detail/recorded_task.hpp>
#include <gyre/task/join_handle.hpp>
#include <gyre/task/scope.hpp>
#include <gyre/task/sleep.hpp>
#include <gyre/task/spawn.hpp>
#include <gyre/task/stop_token.hpp>
#include <gyre/task/sync_wait.hpp>
#include <gyre/testing/manual_executor.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <source_location>
#include <sstream>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace live_tasks_test {
namespace {

using namespace std::chrono_literals;
using gyre::live_tasks;
using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;
using ::testing::SizeIs;
using ::testing::StartsWith;

gyre::task<> sleeps() { co_await gyre::sleep_for(1h); }
gyre::task<int> gives(int number) {
  co_await gyre::sleep_for(1h);
  co_return number;
}
gyre::task<> fails() {
  co_await gyre::sleep_for(1h);
  throw std::runtime_error("broken");
}

unsigned line_after(std::source_location here = std::source_location::current()) {
  return here.line() + 1;
}

class LiveTasks : public ::testing::Test {
 protected:
  void SetUp() override {
    gyre::record_live_tasks(true);
    ASSERT_THAT(live_tasks(), IsEmpty());
  }
  void TearDown() override {
    executor_.run_all();
    executor_.advance(2h);
    EXPECT_THAT(live_tasks(), IsEmpty()) << "an ended task was not removed";
    gyre::record_live_tasks(false);
  }

  gyre::testing::manual_executor executor_;
};

TEST(LiveTasksOff, NothingIsRecorded) {
  gyre::testing::manual_executor executor;
  gyre::spawn(executor, sleeps());
  EXPECT_THAT(live_tasks(), IsEmpty());
  EXPECT_EQ(gyre::live_tasks_summary(), "0 live tasks\n");
  executor.run_all();
  executor.advance(1h);
}

TEST_F(LiveTasks, ASpawnedTaskIsRecordedFromItsSpawnToItsEnd) {
  const unsigned line = line_after();
  gyre::spawn(executor_, sleeps(), {.name = "sleeper"});
  ASSERT_THAT(live_tasks(), SizeIs(1));
  gyre::live_task found = live_tasks()[0];
  EXPECT_EQ(found.name, "sleeper");
  EXPECT_EQ(found.from.line(), line);
  EXPECT_THAT(found.from.file_name(), EndsWith("live_tasks_test.cpp"));
  EXPECT_EQ(found.where, &executor_);
  EXPECT_GE(found.age, 0ns);
  EXPECT_FALSE(found.has_begun);

  executor_.run_all();
  ASSERT_THAT(live_tasks(), SizeIs(1));
  EXPECT_TRUE(live_tasks()[0].has_begun);
  executor_.advance(1h);
  EXPECT_THAT(live_tasks(), IsEmpty());
}

TEST_F(LiveTasks, EachWayToStartATaskRecordsItsCaller) {
  gyre::async_scope scope(executor_);
  std::vector<unsigned> lines;
  lines.push_back(line_after());
  std::future<int> future = gyre::spawn_future(executor_, gives(1));
  lines.push_back(line_after());
  auto handle = gyre::spawn_joinable(executor_, gives(2), {.name = "joined"});
  lines.push_back(line_after());
  scope.spawn(sleeps(), "in scope");
  lines.push_back(line_after());
  auto in_scope = scope.spawn_joinable(gives(3), "joined in scope");
  const std::vector<gyre::live_task> found = live_tasks();
  ASSERT_THAT(found, SizeIs(4));
  std::vector<std::string> names;
  for (std::size_t each = 0; each < found.size(); ++each) {
    EXPECT_EQ(found[each].from.line(), lines[each]);
    EXPECT_THAT(found[each].from.file_name(), EndsWith("live_tasks_test.cpp"));
    names.push_back(found[each].name);
  }
  EXPECT_THAT(names, ::testing::ElementsAre("", "joined", "in scope", "joined in scope"));

  executor_.run_all();
  executor_.advance(1h);
  EXPECT_EQ(future.get(), 1);
  EXPECT_EQ(gyre::sync_wait(handle.join()), 2);
  EXPECT_EQ(gyre::sync_wait(in_scope.join()), 3);
}

TEST_F(LiveTasks, ASyncWaitIsRecordedWithItsCaller) {
  std::vector<gyre::live_task> found;
  const auto looks = [&]() -> gyre::task<> {
    found = live_tasks();
    co_return;
  };
  const unsigned line = line_after();
  gyre::sync_wait(looks());
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].name, "sync_wait");
  EXPECT_EQ(found[0].from.line(), line);
  EXPECT_TRUE(found[0].has_begun);
  EXPECT_THAT(live_tasks(), IsEmpty());

  gyre::loop loop;
  const unsigned line_of_loop = line_after();
  gyre::sync_wait(loop, looks());
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].name, "sync_wait");
  EXPECT_EQ(found[0].from.line(), line_of_loop);
  EXPECT_EQ(found[0].where, &loop);
}

TEST_F(LiveTasks, DetailsCompleteADescription) {
  struct of_a_handler : gyre::detail::live_task_details {
    void describe(gyre::live_task& described) const override {
      described.name = "GET /";
      described.peer = "127.0.0.1:4711";
    }
  } const details;
  gyre::detail::live_task_entry entry(executor_, nullptr, std::source_location{}, &details);
  entry.begin();
  std::ostringstream line;
  line << live_tasks().at(0);
  EXPECT_THAT(line.str(), MatchesRegex("\"GET /\", for [0-9.]+ s, peer 127\\.0\\.0\\.1:4711"));
  EXPECT_THAT(gyre::live_tasks_summary(),
              MatchesRegex("1 live task\n  1 of \"GET /\", for [0-9.]+ s, peer 127.0.0.1:4711\n"));
}

TEST_F(LiveTasks, ATaskThatIsDiscardedBeforeItsStartIsRemoved) {
  {
    auto never_run = std::make_unique<gyre::testing::manual_executor>();
    EXPECT_THROW(gyre::spawn(*never_run, gyre::task<>()), std::logic_error);
    EXPECT_THAT(live_tasks(), IsEmpty());
  }
  gyre::task<> alone = sleeps();
  gyre::detail::record_if_enabled(alone, executor_, "alone", {});
  EXPECT_THAT(live_tasks(), SizeIs(1));
  alone = {};
  EXPECT_THAT(live_tasks(), IsEmpty());
}

TEST_F(LiveTasks, AnErrorAndAStopReachWhoeverTheyWouldReachWithoutTheRecord) {
  std::exception_ptr error;
  gyre::spawn(executor_, fails(), {.on_error = [&](std::exception_ptr each) { error = each; }});
  gyre::inplace_stop_source stop;
  gyre::spawn(executor_, sleeps(), {.stop = stop.get_token()});  // a stop is no error
  auto handle = gyre::spawn_joinable(executor_, fails());
  auto stopped = gyre::spawn_joinable(executor_, gives(1));
  executor_.run_all();
  stop.request_stop();
  stopped.request_stop();
  executor_.run_all();
  executor_.advance(1h);
  EXPECT_THROW(std::rethrow_exception(error), std::runtime_error);
  EXPECT_THROW(gyre::sync_wait(handle.join()), std::runtime_error);
  EXPECT_THROW(gyre::sync_wait(stopped.join()), std::system_error);
}

gyre::task<int&> refers_to(int& number) {
  co_await gyre::sleep_for(1h);
  co_return number;
}
gyre::task<std::unique_ptr<int>> owns(int number) { co_return std::make_unique<int>(number); }

TEST_F(LiveTasks, ReferencesAndMoveOnlyResultsPassThrough) {
  int number = 7;
  auto reference = gyre::spawn_joinable(executor_, refers_to(number));
  auto owner = gyre::spawn_joinable(executor_, owns(8));
  executor_.run_all();
  executor_.advance(1h);
  EXPECT_EQ(&gyre::sync_wait(reference.join()), &number);
  EXPECT_EQ(*gyre::sync_wait(owner.join()), 8);
}

TEST_F(LiveTasks, ARecordedTaskStaysRecordedWhenTheRecordIsSwitchedOff) {
  gyre::spawn(executor_, sleeps(), {.name = "before"});
  gyre::record_live_tasks(false);
  gyre::spawn(executor_, sleeps(), {.name = "after"});
  ASSERT_THAT(live_tasks(), SizeIs(1));
  EXPECT_EQ(live_tasks()[0].name, "before");
}

TEST_F(LiveTasks, TheOldestComeFirstAndTheirNumberIsLimited) {
  gyre::spawn(executor_, sleeps(), {.name = "first"});
  gyre::spawn(executor_, sleeps(), {.name = "second"});
  gyre::spawn(executor_, sleeps(), {.name = "third"});
  EXPECT_THAT(live_tasks(0), IsEmpty());
  const std::vector<gyre::live_task> found = live_tasks(2);
  ASSERT_THAT(found, SizeIs(2));
  EXPECT_EQ(found[0].name, "first");
  EXPECT_EQ(found[1].name, "second");
}

TEST_F(LiveTasks, ALineSaysNamePlaceAgeAndWhetherItHasBegun) {
  gyre::spawn(executor_, sleeps(), {.name = "sleeper"});
  std::ostringstream line;
  line << live_tasks()[0];
  EXPECT_THAT(line.str(), MatchesRegex("\"sleeper\" from .*live_tasks_test\\.cpp:"
                                       "[0-9]+, for [0-9]+\\.[0-9] s, has not begun"));
  executor_.run_all();
  std::ostringstream begun;
  begun << live_tasks()[0];
  EXPECT_THAT(begun.str(), EndsWith(" s"));
}

TEST_F(LiveTasks, NamesStayWithinTheirLineAndTheirQuotes) {
  gyre::spawn(executor_, sleeps(),
              {.name = "a\n\"b\" \\ \x1b\x7f\xc2\x9b\xff\xed\xa0\x80\xc3\xa4\xc3"});
  const std::string escaped = R"("a\n\"b\" \\ \x1b\x7f\xc2\x9b\xff\xed\xa0\x80)"
                              "\xc3\xa4"
                              R"(\xc3" from )";
  std::ostringstream line;
  line << live_tasks()[0];
  EXPECT_THAT(line.str(), StartsWith(escaped));
  EXPECT_THAT(gyre::live_tasks_summary(), HasSubstr("1 of " + escaped));
}

TEST_F(LiveTasks, TheSummaryHasALineForEachNameAndPlace) {
  gyre::spawn(executor_, sleeps());
  executor_.run_all();
  for (int each = 0; each < 3; ++each) gyre::spawn(executor_, sleeps(), {.name = "sleeper"});
  for (const char* name : {"a", "b"}) gyre::spawn(executor_, sleeps(), {.name = name});
  const std::string text = gyre::live_tasks_summary();
  std::vector<std::string> lines;
  std::istringstream from(text);
  for (std::string line; std::getline(from, line);) lines.push_back(line);
  ASSERT_THAT(lines, SizeIs(5)) << text;
  EXPECT_EQ(lines[0], "6 live tasks");
  EXPECT_THAT(text, HasSubstr("\n  1 from "));
  EXPECT_THAT(lines, ::testing::Contains(AllOf(StartsWith("  3 of \"sleeper\" from "),
                                               HasSubstr(", the oldest for "),
                                               EndsWith(", 3 have not begun"))));
  EXPECT_THAT(lines, ::testing::Contains(
                         AllOf(StartsWith("  1 of \"a\" from "), EndsWith(", 1 has not begun"))));
  EXPECT_THAT(lines, ::testing::Contains(StartsWith("  1 of \"b\" from ")));
}

TEST_F(LiveTasks, AForkedChildCanRecordAndList) {
  std::atomic<bool> ended{false};
  std::thread other([&] {  // holds locks of the record when the program forks
    gyre::testing::manual_executor executor;
    while (!ended) {
      gyre::spawn(executor, []() -> gyre::task<> { co_return; }());
      executor.run_all();
    }
  });
  for (int each = 0; each < 20; ++each) {
    const pid_t child = ::fork();
    if (child == 0) {
      gyre::spawn(executor_, sleeps(), {.name = "mine"});
      ::_exit(gyre::live_tasks_summary().find("mine") != std::string::npos ? 0 : 1);
    }
    int status = -1;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  ended = true;
  other.join();
}

TEST_F(LiveTasks, TasksStartAndEndOnSeveralThreadsWhileTheyAreListed) {
  constexpr int threads = 3;
  std::atomic<int> working{threads};
  std::vector<std::jthread> workers;
  for (int each = 0; each < threads; ++each) {
    workers.emplace_back([&working, each] {
      gyre::testing::manual_executor executor;
      for (int turn = 0; turn < 200; ++turn) {
        gyre::record_live_tasks(turn % 10 != each);
        for (int task = 0; task < 10; ++task) {
          gyre::spawn(executor, sleeps(), {.name = "worker's"});
        }
        executor.run_all();
        executor.advance(1h);
      }
      --working;
    });
  }
  while (working > 0) {
    for (const gyre::live_task& each : live_tasks(50)) EXPECT_EQ(each.name, "worker's");
    EXPECT_THAT(gyre::live_tasks_summary(), HasSubstr("live task"));
  }
}

}  // namespace
}  // namespace live_tasks_test
