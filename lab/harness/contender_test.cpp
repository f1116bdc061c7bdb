// SPDX-License-Identifier: Apache-2.0
#include <lab/harness/contender.hpp>

#include <lab/harness/memory.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sched.h>

#include <array>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace lab {
namespace contender_test {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

const identity nobody{"sums", "nobody", "GNU 12.2.0", "-O3", {{"boost", "1.81.0"}}};

struct outcome {
  int status;
  std::string out;
  std::string err;
};

outcome run(std::vector<const char*> words,
            const std::function<void(const harness_options&, report&)>& workload) {
  std::uint32_t tasks = 3;
  arguments parameters;
  parameters.number("tasks", tasks, "how many");
  words.insert(words.begin(), "nobody");
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  const int status =
      contender_main(static_cast<int>(words.size()), words.data(), nobody, parameters, workload);
  return {status, testing::internal::GetCapturedStdout(), testing::internal::GetCapturedStderr()};
}

TEST(Contender, GoodRunPrintsOneLineAsTheRunnerExpectsIt) {
  const outcome result = run({"--tasks", "5"}, [](const harness_options&, report& found) {
    found.metric("ns_per_task", 12.5);
    found.metric("wakeups", std::optional<std::uint64_t>());
    found.check("tasks_run", 5, 5);
  });
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(result.err, "");
  EXPECT_EQ(result.out,
            R"({"schema":1,"experiment":"sums","contender":"nobody","ok":true,)"
            R"("parameters":{"tasks":5},"metrics":{"ns_per_task":12.5},"checks":{"tasks_run":5},)"
            R"("build":{"compiler":"GNU 12.2.0","flags":"-O3","libraries":{"boost":"1.81.0"}}})"
            "\n");
}

TEST(Contender, LineStatesTheUnitsOfWorkOfTheWholeProcess) {
  const outcome result = run({}, [](const harness_options&, report& found) {
    found.units("task", 102);
    found.check("tasks_run", 100, 100);
  });
  EXPECT_THAT(result.out,
              HasSubstr(R"("checks":{"tasks_run":100},"units":{"name":"task","count":102},)"));
}

TEST(Contender, FailedCheckFailsTheRunAndSaysWhatWasExpected) {
  const outcome result = run({}, [](const harness_options&, report& found) {
    found.metric("ns_per_task", 1);
    found.check("tasks_run", 2, 3);
    found.check("out_of_order", 1, 0);
  });
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.out, HasSubstr(R"("ok":false,"error":"tasks_run 2, expected 3")"));
  EXPECT_THAT(result.out, Not(HasSubstr("metrics"))) << "a wrong run has no figures";
}

TEST(Contender, ExceptionFailsTheRun) {
  const outcome result = run(
      {}, [](const harness_options&, report&) { throw std::runtime_error("no \"thread\" left"); });
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.out, HasSubstr(R"("error":"no \"thread\" left")"));
}

TEST(Contender, UsageErrorRunsNothingAndKeepsStdoutEmpty) {
  const auto never = [](const harness_options&, report&) { FAIL() << "was run"; };
  for (const auto& words : std::vector<std::vector<const char*>>{
           {"--task", "1"}, {"--pin", "100000"}, {"--sabotage", "explode"}}) {
    const outcome result = run(words, never);
    EXPECT_EQ(result.status, 2);
    EXPECT_EQ(result.out, "");
    EXPECT_THAT(result.err, StartsWith("sums/nobody: "));
    EXPECT_THAT(result.err, HasSubstr("--tasks"));
  }
}

TEST(Contender, HelpListsParametersAndHarnessOptions) {
  const outcome result = run({"--help"}, [](const harness_options&, report&) { FAIL(); });
  EXPECT_EQ(result.status, 0);
  for (const char* option : {"--tasks", "--pin", "--handicap", "--sabotage", "--memory-limit"}) {
    EXPECT_THAT(result.out, HasSubstr(option));
  }
}

TEST(Contender, HarnessOptionsReachTheWorkload) {
  run({"--handicap", "10", "--sabotage", "lose"}, [](const harness_options& options, report&) {
    EXPECT_EQ(options.handicap, 10);
    EXPECT_EQ(options.sabotage, fault::lose);
  });
}

TEST(Contender, CellThatTheMachineCannotRunIsRefusedNotFailed) {
  const outcome result =
      run({}, [](const harness_options&, report&) { throw cannot_run("too few files"); });
  EXPECT_EQ(result.status, 4);
  EXPECT_THAT(result.out, HasSubstr(R"("ok":false,"refused":true,"error":"too few files")"));
}

TEST(Contender, PinHoldsForThreadsStartedLater) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  unsigned first = 0;
  while (!CPU_ISSET(first, &before)) ++first;

  const std::string cpu = std::to_string(first);
  run({"--pin", cpu.c_str()}, [&](const harness_options&, report&) {
    std::thread([&] {
      cpu_set_t now;
      ASSERT_EQ(sched_getaffinity(0, sizeof now, &now), 0);
      EXPECT_EQ(CPU_COUNT(&now), 1);
      EXPECT_TRUE(CPU_ISSET(first, &now));
    }).join();
  });
  ASSERT_EQ(sched_setaffinity(0, sizeof before, &before), 0);
}

TEST(ContenderDeathTest, AbandonedRunStillPrintsItsLine) {
  // The parent reads only the child's stderr, so the child redirects stdout to stderr.
  EXPECT_EXIT(
      {
        std::cout.rdbuf(std::cerr.rdbuf());
        report stuck(nobody, json_object());
        stuck.check("tasks_run", 1, 2);
        stuck.abandon();
      },
      testing::ExitedWithCode(1), "tasks_run 1, expected 2");
}

TEST(ContenderDeathTest, RunThatDiesOfItsMemoryLimitPrintsItsLine) {
  if (!allocations()) GTEST_SKIP() << "the sanitizer has its own malloc";
  const auto hoard = [](const harness_options&, report&) {
    std::vector<std::vector<char>> held;
    for (;;) held.emplace_back(1 << 20, 'x');
  };
  const std::array words{"nobody", "--memory-limit", "200"};
  EXPECT_EXIT(
      {
        std::cout.rdbuf(std::cerr.rdbuf());
        arguments none;
        std::exit(contender_main(words.size(), words.data(), nobody, none, hoard));
      },
      testing::ExitedWithCode(3),
      R"("ok":false,"out_of_memory":true,"error":"out of memory after .* with 200 MiB")");
}

}  // namespace
}  // namespace contender_test
}  // namespace lab
