// SPDX-License-Identifier: Apache-2.0
#include <gyre/sync/single_flight.hpp>

#include <gyre/sync/event.hpp>
#include <gyre/sync/sync_test_support.hpp>
#include <gyre/task/schedule.hpp>
#include <gyre/task/sleep.hpp>
#include <gyre/task/spawn.hpp>
#include <gyre/task/sync_wait.hpp>
#include <gyre/task/task.hpp>
#include <gyre/task/when_all.hpp>
#include <gyre/task/with_timeout.hpp>
#include <gyre/testing/manual_executor.hpp>
#include <tests/support/thread_executor.hpp>

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace single_flight_test {
namespace {

using namespace std::chrono_literals;

using gyre::single_flight;
using gyre::sync_wait;
using gyre::task;
using gyre::test::started;
using gyre::test::thread_executor;
using gyre::testing::manual_executor;

// A load that takes an hour and counts how it went.
struct counted_load {
  int begun = 0;
  int ended = 0;
  int stopped = 0;
  std::optional<std::string> failure = std::nullopt;

  task<std::string> load(std::string key) {
    ++begun;
    try {
      co_await gyre::sleep_for(1h);
    } catch (const gyre::operation_cancelled&) {
      ++stopped;
      throw;
    }
    ++ended;
    if (failure) throw std::runtime_error(*failure);
    co_return "<" + key + ">";
  }
  auto loader() {
    return [this](const std::string& key) { return load(key); };
  }
};

// The outcome of a call.
struct outcome {
  std::string value;
  std::string error;
  bool cancelled = false;
};

using flights_of_text = single_flight<std::string, std::string>;

task<> call(flights_of_text& flights, std::string key, counted_load& load, outcome& to) {
  try {
    to.value = co_await flights.run(std::move(key), load.loader());
  } catch (const gyre::operation_cancelled&) {
    to.cancelled = true;
  } catch (const std::exception& error) {
    to.error = error.what();
  }
}

class SingleFlight : public testing::Test {
 protected:
  void start(std::string key, outcome& to, gyre::inplace_stop_token stop = {}) {
    gyre::spawn(executor, call(flights, std::move(key), load, to), {.stop = stop});
    executor.run_all();
  }

  manual_executor executor;
  flights_of_text flights;
  counted_load load;
  std::deque<outcome> outcomes;
};

TEST_F(SingleFlight, CallsAtTheSameTimeShareOneExecution) {
  for (int i = 0; i < 50; ++i) start("index", outcomes.emplace_back());
  EXPECT_EQ(flights.size(), 1U);
  executor.advance(1h);
  EXPECT_EQ(load.begun, 1);
  for (const outcome& each : outcomes) EXPECT_EQ(each.value, "<index>");
  EXPECT_EQ(flights.size(), 0U);
}

TEST_F(SingleFlight, LaterCallRunsAgain) {
  start("index", outcomes.emplace_back());
  executor.advance(1h);
  start("index", outcomes.emplace_back());
  executor.advance(1h);
  EXPECT_EQ(load.ended, 2);
}

TEST_F(SingleFlight, OtherKeyIsAnExecutionOfItsOwn) {
  start("index", outcomes.emplace_back());
  start("news", outcomes.emplace_back());
  EXPECT_EQ(flights.size(), 2U);
  executor.advance(1h);
  EXPECT_EQ(outcomes[0].value, "<index>");
  EXPECT_EQ(outcomes[1].value, "<news>");
}

TEST_F(SingleFlight, ErrorReachesAllCallersAndIsNotKept) {
  load.failure = "no such page";
  start("index", outcomes.emplace_back());
  start("index", outcomes.emplace_back());
  executor.advance(1h);
  for (const outcome& each : outcomes) EXPECT_EQ(each.error, "no such page");
  load.failure.reset();
  start("index", outcomes.emplace_back());
  executor.advance(1h);
  EXPECT_EQ(outcomes[2].value, "<index>");
}

TEST_F(SingleFlight, StopOfTheFirstCallerLetsTheOthersGoOn) {
  gyre::inplace_stop_source stop;
  start("index", outcomes.emplace_back(), stop.get_token());
  start("index", outcomes.emplace_back());
  stop.request_stop();
  executor.run_all();
  EXPECT_TRUE(outcomes[0].cancelled);
  EXPECT_EQ(load.stopped, 0);
  executor.advance(1h);
  EXPECT_EQ(outcomes[1].value, "<index>");
}

TEST_F(SingleFlight, StopOfTheLastCallerStopsTheExecution) {
  std::array<gyre::inplace_stop_source, 2> stops;
  for (auto& each : stops) start("index", outcomes.emplace_back(), each.get_token());
  for (auto& each : stops) each.request_stop();
  executor.run_all();
  EXPECT_EQ(load.stopped, 1);
  for (const outcome& each : outcomes) EXPECT_TRUE(each.cancelled);
  EXPECT_EQ(flights.size(), 0U);
}

TEST_F(SingleFlight, CallWhileAnExecutionIsStoppedRunsItsOwn) {
  gyre::manual_reset_event door;
  int begun = 0;
  const auto stubborn = [&](const std::string& key) -> task<std::string> {
    ++begun;
    try {
      co_await gyre::sleep_for(1h);
    } catch (const gyre::operation_cancelled&) {  // goes on, until the door opens
    }
    while (!door.is_set()) co_await gyre::schedule(executor);
    throw std::runtime_error("stopped " + key);
  };
  gyre::inplace_stop_source stop;
  bool cancelled = false;
  const auto impatient = [&]() -> task<> {
    try {
      co_await flights.run("index", stubborn);
    } catch (const gyre::operation_cancelled&) {
      cancelled = true;
    } catch (const std::runtime_error&) {
      cancelled = true;
    }
  };
  gyre::spawn(executor, impatient(), {.stop = stop.get_token()});
  executor.run_all();
  stop.request_stop();
  gyre::spawn(executor, call(flights, "index", load, outcomes.emplace_back()));
  for (int i = 0; i < 10; ++i) executor.run_one();
  EXPECT_EQ(begun, 1);
  EXPECT_EQ(load.begun, 1) << "does not wait for an execution that is being stopped";
  door.set();
  executor.advance(1h);
  EXPECT_TRUE(cancelled);
  EXPECT_EQ(outcomes[0].value, "<index>");
  EXPECT_EQ(flights.size(), 0U);
}

TEST_F(SingleFlight, CallerThatWasStoppedBeforeRunsNothing) {
  gyre::inplace_stop_source stop;
  stop.request_stop();
  start("index", outcomes.emplace_back(), stop.get_token());
  EXPECT_TRUE(outcomes[0].cancelled);
  EXPECT_EQ(load.begun, 0);
  EXPECT_EQ(flights.size(), 0U);
}

TEST_F(SingleFlight, ExecutionOwnsItsKeyAndFunction) {
  gyre::inplace_stop_source stop;
  auto first = [](flights_of_text& calls) -> task<> {
    auto own = std::make_shared<std::string>("captured");
    auto function = [own](const std::string& key) -> task<std::string> {
      co_await gyre::sleep_for(1h);
      co_return *own + " " + key;
    };
    co_await calls.run(std::string("a key too long to be kept in place"), function);
  };
  gyre::spawn(executor, first(flights), {.stop = stop.get_token()});
  executor.run_all();
  start("a key too long to be kept in place", outcomes.emplace_back());
  stop.request_stop();
  executor.advance(1h);
  EXPECT_EQ(outcomes[0].value, "captured a key too long to be kept in place");
  EXPECT_EQ(load.begun, 0);
}

TEST_F(SingleFlight, ForgottenExecutionStillServesItsCallers) {
  EXPECT_FALSE(flights.forget("index"));
  start("index", outcomes.emplace_back());
  EXPECT_TRUE(flights.forget("index"));
  start("index", outcomes.emplace_back());
  EXPECT_EQ(load.begun, 2);
  executor.advance(1h);
  EXPECT_EQ(outcomes[0].value, "<index>");
  EXPECT_EQ(outcomes[1].value, "<index>");
  EXPECT_EQ(flights.size(), 0U);
}

TEST_F(SingleFlight, FunctionsOwnErrorOwnerDeadIsThrown) {
  const auto fail = [](const std::string&) -> task<std::string> {
    throw std::system_error(std::make_error_code(std::errc::owner_dead));
    co_return "";
  };
  const auto code = [&]() -> task<std::error_code> {
    try {
      co_await flights.run("index", fail);
    } catch (const std::system_error& error) {
      co_return error.code();
    }
    co_return std::error_code();
  };
  EXPECT_EQ(sync_wait(code()), std::errc::owner_dead);
}

TEST_F(SingleFlight, CallersThatAreDestroyedStopTheExecution) {
  {
    started one(executor, call(flights, "index", load, outcomes.emplace_back()));
    started other(executor, call(flights, "index", load, outcomes.emplace_back()));
    one.drop();
    EXPECT_EQ(load.stopped, 0);
    other.drop();
  }
  executor.run_all();
  EXPECT_EQ(load.begun, 1);
  EXPECT_EQ(load.stopped, 1);
  EXPECT_EQ(flights.size(), 0U);
}

TEST_F(SingleFlight, TimeLimitOfOneCallerIsItsOwn) {
  std::string late;
  const auto hurry = [&]() -> task<> {
    try {
      co_await gyre::with_timeout(flights.run("index", load.loader()), 1min);
    } catch (const std::system_error& error) {
      late = error.code() == std::errc::timed_out ? "late" : error.what();
    }
  };
  gyre::spawn(executor, hurry());
  start("index", outcomes.emplace_back());
  executor.advance(1h);
  EXPECT_EQ(late, "late");
  EXPECT_EQ(outcomes[0].value, "<index>");
}

TEST(SingleFlightOf, RunsOnTheFirstCallersExecutorOrTheNamedOne) {
  thread_executor caller;
  thread_executor named;
  const auto where = [](int) { return gyre::test::this_thread_id(); };
  single_flight<int, std::thread::id> flights;
  EXPECT_EQ(sync_wait(gyre::on(caller, flights.run(1, where))), caller.id());
  single_flight<int, std::thread::id> elsewhere(named);
  EXPECT_EQ(sync_wait(gyre::on(caller, elsewhere.run(1, where))), named.id());
}

TEST(SingleFlightOf, NothingIsAResultToo) {
  int runs = 0;
  single_flight<int> flights;
  const auto count = [&](int) -> task<> {
    ++runs;
    co_return;
  };
  sync_wait(flights.run(1, count));
  sync_wait(flights.run(1, [&](int) { ++runs; }));
  EXPECT_EQ(runs, 2);
}

struct text_hash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const {
    return std::hash<std::string_view>()(text);
  }
};

TEST(SingleFlightOf, FindsKeysOfAnotherTypeByTransparentHash) {
  manual_executor executor;
  single_flight<std::string, int, text_hash, std::equal_to<>> flights;
  const auto slow = [](const std::string&) -> task<int> {
    co_await gyre::sleep_for(1h);
    co_return 7;
  };
  std::optional<int> result;
  const auto wait = [&]() -> task<> { result = co_await flights.run("index", slow); };
  gyre::spawn(executor, wait());
  executor.run_all();
  EXPECT_TRUE(flights.forget(std::string_view("index")));
  EXPECT_EQ(flights.size(), 0U);
  executor.advance(1h);
  EXPECT_EQ(result, 7);
}

// Callers on two threads, some of them stopped at some moment.
TEST(SingleFlightOf, CallersComeAndGoOnSeveralThreads) {
  constexpr int rounds = 1500;
  std::atomic<int> values{0};
  std::atomic<int> stopped{0};
  std::atomic<int> executions{0};
  single_flight<int, int> flights;
  {
    std::deque<gyre::inplace_stop_source> stops(rounds);
    thread_executor loads;  // ends last: its end would strand a caller
    std::array<thread_executor, 2> callers;
    thread_executor stopper;
    const auto load = [&](int key) -> task<int> {
      ++executions;
      co_await gyre::resume_on(loads);
      co_await gyre::yield();
      co_return 2 * key;
    };
    const auto get = [&](int key) -> task<> {
      try {
        const int value = co_await flights.run(key, load);
        EXPECT_EQ(value, 2 * key);
        ++values;
      } catch (const gyre::operation_cancelled&) {
        ++stopped;
      }
    };
    const auto request = [](gyre::inplace_stop_source& source) -> task<> {
      source.request_stop();
      co_return;
    };
    std::vector<task<>> patient;
    for (int round = 0; round < rounds; ++round) {
      auto& stop = stops.at(static_cast<std::size_t>(round));
      const int key = round / 8;
      const auto stopped_call = [&](gyre::executor& where) {
        gyre::spawn(where, get(key), {.stop = stop.get_token()});
      };
      stopped_call(callers[0]);
      stopped_call(callers[1]);
      gyre::spawn(stopper, request(stop));
      patient.push_back(gyre::on(callers.at(static_cast<std::size_t>(round) % 2), get(key)));
    }
    sync_wait(gyre::when_all(std::move(patient)));
    // Calls that were stopped may still end.
    while (values + stopped < 3 * rounds) std::this_thread::yield();
  }
  EXPECT_EQ(values + stopped, 3 * rounds);
  EXPECT_GE(values, rounds) << "a caller that was not stopped gets its value";
  EXPECT_GE(executions, rounds / 8);
  EXPECT_EQ(flights.size(), 0U);
}

}  // namespace
}  // namespace single_flight_test
