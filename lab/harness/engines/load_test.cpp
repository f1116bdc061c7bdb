// SPDX-License-Identifier: Apache-2.0
#include <lab/harness/engines/load.hpp>

#include <lab/harness/program.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace lab::engines {
namespace load_test {
namespace {

using testing::HasSubstr;

constexpr std::size_t value_bytes = 20;

report make_report() { return {identity{"calls", "nobody", "", "", {}}, json_object()}; }

// A client that answers each call itself, with the value of `chosen(item)`.
void serve(std::span<caller> callers, const item_set& items,
           const std::function<std::uint32_t(std::uint32_t)>& chosen) {
  std::vector<caller*> running;
  for (caller& each : callers) running.push_back(&each);
  while (!running.empty()) {
    std::erase_if(running, [&](caller* each) {
      const std::uint32_t item = each->ask();
      return !each->take(items.value(chosen(item)));
    });
  }
}

report run(const load_plan& plan, const harness_options& harness,
           const std::function<std::uint32_t(std::uint32_t)>& chosen) {
  const item_set items(item_count, value_bytes);
  report result = make_report();
  run_callers(
      plan, harness, items, {"call", "calls"}, [] { return network::usage{}; },
      [&](std::span<caller> callers) { serve(callers, items, chosen); }, result);
  return result;
}

std::uint32_t same(std::uint32_t item) { return item; }

TEST(Load, ReportsRatesAndCostsOfAGoodRun) {
  const report result = run({.callers = 5, .threads = 2, .duration_ms = 5}, {}, same);
  ASSERT_TRUE(result.ok()) << result.text();
  for (const char* const metric : {"calls_per_second", "client_cpu_ns_per_call",
                                   "server_cpu_ns_per_call", "client_peak_memory_bytes"}) {
    EXPECT_THAT(result.text(), HasSubstr(metric));
  }
  EXPECT_THAT(result.text(), HasSubstr(R"("wrong_answers":0)"));
}

TEST(Load, AnotherItemsValueFailsTheRun) {
  const report result = run({.callers = 5, .duration_ms = 5}, {},
                            [](std::uint32_t item) { return item == 14 ? 15 : item; });
  EXPECT_THAT(result.text(), HasSubstr("wrong_answers"));
  EXPECT_FALSE(result.ok());
}

TEST(Load, LostAndRepeatedAnswersFailTheRun) {
  for (const fault sabotage : {fault::lose, fault::duplicate}) {
    harness_options harness;
    harness.sabotage = sabotage;
    const report result = run({.callers = 3, .duration_ms = 5}, harness, same);
    EXPECT_FALSE(result.ok());
    EXPECT_THAT(result.text(), HasSubstr(R"("error":"answers )"));
  }
}

TEST(Load, ExceptionOfAClientReachesTheRun) {
  const item_set items(item_count, value_bytes);
  report result = make_report();
  EXPECT_THROW(run_callers(
                   {.callers = 2, .threads = 2, .duration_ms = 5}, {}, items, {"call", "calls"},
                   [] { return network::usage{}; },
                   [&](std::span<caller> callers) {
                     for (caller& each : callers) each.ask();
                     throw std::runtime_error("no server");
                   },
                   result),
               std::runtime_error);
}

TEST(Load, EachThreadHasItsShareOfTheCallers) {
  const item_set items(item_count, value_bytes);
  report result = make_report();
  std::atomic<std::size_t> all{0};
  run_callers(
      {.callers = 7, .threads = 3, .duration_ms = 5}, {}, items, {"call", "calls"},
      [] { return network::usage{}; },
      [&](std::span<caller> callers) {
        EXPECT_TRUE(callers.size() == 2 || callers.size() == 3);
        all += callers.size();
        serve(callers, items, same);
      },
      result);
  EXPECT_TRUE(result.ok()) << result.text();
  EXPECT_EQ(all, 7);
}

TEST(Load, CallersBesideEachOtherAskForDifferentItemsInEveryCall) {
  const item_set items(item_count, value_bytes);
  const std::atomic<bool> stop{false};
  std::vector<caller> callers(64);
  for (std::uint32_t index = 0; index < callers.size(); ++index) {
    callers[index].prepare(items, stop, index, fault::none);
  }
  std::set<std::uint32_t> of_the_first;
  for (int call = 0; call < 1000; ++call) {
    std::set<std::uint32_t> asked;
    for (caller& each : callers) {
      const std::uint32_t item = each.ask();
      asked.insert(item);
      if (&each == &callers.front()) of_the_first.insert(item);
      EXPECT_TRUE(each.take(item, items.value(item)));
    }
    ASSERT_EQ(asked.size(), callers.size());
  }
  EXPECT_EQ(of_the_first.size(), item_count);
  EXPECT_EQ(callers.front().wrong(), 0);
}

TEST(Load, RowOfAnotherKeyIsWrong) {
  const item_set items(item_count, value_bytes);
  const std::atomic<bool> stop{true};
  caller self;
  self.prepare(items, stop, 0, fault::none);
  const std::uint32_t item = self.ask();
  EXPECT_FALSE(self.take(item + 1, items.value(item))) << "asks no more";
  EXPECT_EQ(self.wrong(), 1);
}

TEST(LoadDeathTest, ClientWithoutRepliesEndsTheProcessAndItsFolders) {
  const scratch_folder folder;
  EXPECT_EXIT(
      {
        const item_set items(item_count, value_bytes);
        report result = make_report();
        run_callers(
            {.callers = 1, .duration_ms = 5, .patience = std::chrono::milliseconds{50}}, {}, items,
            {"call", "calls"}, [] { return network::usage{}; },
            [](std::span<caller> callers) {
              callers.front().ask();
              std::this_thread::sleep_for(std::chrono::hours{1});
            },
            result);
      },
      testing::ExitedWithCode(1), "");
  EXPECT_FALSE(std::filesystem::exists(folder.path()));
}

}  // namespace
}  // namespace load_test
}  // namespace lab::engines
