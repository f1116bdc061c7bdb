// SPDX-License-Identifier: Apache-2.0
#include <gyre/sync/watch.hpp>

#include <gyre/sync/channel.hpp>
#include <gyre/sync/select.hpp>
#include <gyre/task/spawn.hpp>
#include <gyre/task/sync_wait.hpp>
#include <gyre/task/task.hpp>
#include <gyre/testing/manual_executor.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

namespace watch_test {
namespace {

using gyre::task;
using gyre::watch;
using gyre::watch_receiver;
using gyre::testing::manual_executor;
using testing::ElementsAre;

// Records changes, and the end as -1.
task<> follow(watch_receiver<int> watched, std::vector<int>& noted) {
  while (const std::optional<int> next = co_await watched.changed()) noted.push_back(*next);
  noted.push_back(-1);
}

TEST(Watch, AnyoneReadsTheNewestValue) {
  watch<std::string> word("first");
  EXPECT_EQ(word.get(), "first");
  word.set("second");
  EXPECT_EQ(word.get(), "second");
  word.modify([](std::string& value) { value += " and third"; });
  EXPECT_EQ(word.subscribe().get(), "second and third");
}

TEST(Watch, ReceiverKnowsWhetherThereIsAChangeItHasNotSeen) {
  watch<int> number(1);
  watch_receiver<int> mine = number.subscribe();
  EXPECT_FALSE(mine.has_changed());
  number.set(1);
  EXPECT_TRUE(mine.has_changed()) << "set to an equal value counts";
  watch_receiver<int> copy = mine;
  EXPECT_EQ(mine.get(), 1);
  EXPECT_FALSE(mine.has_changed());
  EXPECT_TRUE(copy.has_changed());
}

TEST(Watch, ReceiversThatWaitAreAllToldTheNewestValue) {
  manual_executor executor;
  watch<int> number(0);
  std::array<std::vector<int>, 2> noted;
  for (auto& each : noted) gyre::spawn(executor, follow(number.subscribe(), each));
  executor.run_all();
  number.set(1);
  number.set(2);
  executor.run_all();
  number.set(3);
  executor.run_all();
  number.set(4);
  number.close();
  number.close();
  executor.run_all();
  for (auto& each : noted) EXPECT_THAT(each, ElementsAre(2, 3, 4, -1));
  EXPECT_TRUE(number.closed());
  EXPECT_EQ(number.get(), 4);
}

TEST(Watch, ChangeThatThrowsIsNone) {
  watch<int> number(0);
  watch_receiver<int> mine = number.subscribe();
  EXPECT_THROW(number.modify([](int&) { throw std::runtime_error("no"); }), std::runtime_error);
  EXPECT_FALSE(mine.has_changed());
}

TEST(Watch, CancelledWaitLeavesTheChangeUnseen) {
  manual_executor executor;
  watch<int> number(0);
  watch_receiver<int> mine = number.subscribe();
  gyre::inplace_stop_source source;
  bool cancelled = false;
  const auto wait = [&]() -> task<> {
    try {
      co_await mine.changed();
    } catch (const gyre::operation_cancelled&) {
      cancelled = true;
    }
  };
  gyre::spawn(executor, wait(), {.stop = source.get_token()});
  executor.run_all();
  source.request_stop();
  number.set(1);
  executor.run_all();
  EXPECT_TRUE(cancelled);
  EXPECT_TRUE(mine.has_changed());
}

TEST(Watch, CanBeSelected) {
  manual_executor executor;
  watch<int> number(0);
  watch_receiver<int> mine = number.subscribe();
  gyre::channel<int> other(1);
  std::optional<int> changed;
  const auto choose = [&]() -> task<> {
    auto chosen = co_await gyre::select(gyre::on_receive(other), gyre::on_change(mine));
    changed = std::get<1>(chosen);
  };
  gyre::spawn(executor, choose());
  executor.run_all();
  number.set(5);
  executor.run_all();
  EXPECT_EQ(changed, 5);
}

TEST(Watch, SeveralThreadsChangeAndFollow) {
  constexpr int each = 5000;
  watch<int> number(0);
  std::array<std::vector<int>, 2> noted;
  {
    std::array<watch_receiver<int>, 2> receivers{number.subscribe(), number.subscribe()};
    const std::jthread one([&] { gyre::sync_wait(follow(receivers[0], noted[0])); });
    const std::jthread other([&] { gyre::sync_wait(follow(receivers[1], noted[1])); });
    const auto count = [&] {
      for (int i = 0; i < each; ++i) number.modify([](int& value) { ++value; });
    };
    std::jthread there(count);
    count();
    there.join();
    number.close();
  }
  for (std::vector<int>& seen : noted) {
    ASSERT_GE(seen.size(), 2U);
    EXPECT_EQ(seen.back(), -1);
    seen.pop_back();
    EXPECT_EQ(seen.back(), 2 * each) << "the last change is always seen";
    EXPECT_TRUE(std::is_sorted(seen.begin(), seen.end()));
  }
}

}  // namespace
}  // namespace watch_test
