// SPDX-License-Identifier: Apache-2.0
#include <gyre/task/shared_task.hpp>

#include <gyre/task/as_expected.hpp>
#include <gyre/task/schedule.hpp>
#include <gyre/task/sleep.hpp>
#include <gyre/task/spawn.hpp>
#include <gyre/task/stop_when.hpp>
#include <gyre/task/sync_wait.hpp>
#include <gyre/task/task_local.hpp>
#include <gyre/task/when_all.hpp>
#include <gyre/testing/manual_executor.hpp>
#include <tests/support/small_stack.hpp>
#include <tests/support/thread_executor.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <coroutine>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace shared_task_test {
namespace {

using gyre::shared_task;
using gyre::sync_wait;
using gyre::task;
using gyre::test::on_small_stack;
using gyre::test::thread_executor;
using gyre::testing::manual_executor;

shared_task<std::string> greeting(int& runs) {
  ++runs;
  co_return "hello";
}

TEST(SharedTask, RunsOnceWhenItIsFirstAwaited) {
  int runs = 0;
  const auto shared = greeting(runs);
  EXPECT_EQ(runs, 0);
  EXPECT_FALSE(shared.is_done());
  const std::string& first = sync_wait(shared);
  EXPECT_TRUE(shared.is_done());
  const auto copy = shared;  // NOLINT(performance-unnecessary-copy-initialization): tested
  const std::string& second = sync_wait(copy);
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(first, "hello");
  EXPECT_EQ(&first, &second);
}

TEST(SharedTask, NeverAwaitedRunsNothingAndFreesItsCoroutine) {
  auto alive = std::make_shared<int>();
  {
    auto work = [](std::shared_ptr<int> held) -> shared_task<int> { co_return *held; }(alive);
    const auto copy = work;  // NOLINT(performance-unnecessary-copy-initialization): tested
    EXPECT_EQ(alive.use_count(), 2);
  }
  EXPECT_EQ(alive.use_count(), 1);
}

TEST(SharedTask, AwaitedAsARvalueGivesACopy) {
  int runs = 0;
  std::string text = sync_wait(greeting(runs));
  EXPECT_EQ(text, "hello");
}

TEST(SharedTask, IsMadeFromATask) {
  auto work = []() -> task<int> { co_return 7; };
  const shared_task<int> shared = work();
  EXPECT_EQ(sync_wait(shared), 7);
  EXPECT_THROW(static_cast<void>(shared_task<int>(task<int>())), std::logic_error);
  EXPECT_FALSE(shared_task<int>().valid());
}

TEST(SharedTask, GivesReferencesAndNothing) {
  int value = 1;
  const auto reference = [](int& to) -> shared_task<int&> { co_return to; }(value);
  EXPECT_EQ(&sync_wait(reference), &value);
  const auto nothing = [](int& to) -> shared_task<> {
    ++to;
    co_return;
  }(value);
  sync_wait(nothing);
  sync_wait(nothing);
  EXPECT_EQ(value, 2);
}

TEST(SharedTask, HoldsWhatCanOnlyBeMoved) {
  const auto shared = []() -> shared_task<std::unique_ptr<int>> {
    co_return std::make_unique<int>(3);
  }();
  EXPECT_EQ(*sync_wait(shared), 3);
}

TEST(SharedTask, ThrowsTheSameToAll) {
  const auto shared = []() -> shared_task<int> {
    throw std::runtime_error("broken");
    co_return 1;
  }();
  EXPECT_THROW(sync_wait(shared), std::runtime_error);
  EXPECT_THROW(sync_wait(shared), std::runtime_error);
}

// Suspends its coroutine until the test lets it go.
class gate {
 public:
  auto wait() noexcept { return awaiter{{}, this}; }
  void open() { std::exchange(waiting_, nullptr)->go(); }
  bool is_waited_at() const noexcept { return waiting_ != nullptr; }

 private:
  struct awaiter : gyre::detail::resumption {
    gate* at;
    const gyre::task_context* context = nullptr;
    static bool await_ready() noexcept { return false; }
    template <class Promise>
    void await_suspend(std::coroutine_handle<Promise> h) noexcept {
      waiting = h;
      context = &gyre::detail::context_of(h);
      at->waiting_ = this;
    }
    static void await_resume() noexcept {}
    void go() { context->where->post(*this); }
  };
  awaiter* waiting_ = nullptr;
};

shared_task<int> after(gate& at) {
  co_await at.wait();
  co_return 5;
}

// Like `after`, but returns whether it was asked to stop.
shared_task<bool> stopped_after(gate& at) {
  co_await at.wait();
  const gyre::inplace_stop_token stop = co_await gyre::current_stop_token();
  co_return stop.stop_requested();
}

template <class T>
task<> store(shared_task<T> from, std::optional<T>& to) {
  to = co_await from;
}
// Stores 0 if `from` was cancelled, 1 if it gave a value.
template <class T>
task<> tell(shared_task<T> from, std::optional<int>& to) {
  try {
    static_cast<void>(co_await from);
    to = 1;
  } catch (const gyre::operation_cancelled&) {
    to = 0;
  }
}

TEST(SharedTask, ResumesEachAwaiterOnItsOwnExecutor) {
  manual_executor first;
  manual_executor second;
  gate door;
  std::optional<int> one;
  std::optional<int> two;
  std::optional<int> three;
  {
    const auto shared = after(door);
    gyre::spawn(first, store(shared, one));
    gyre::spawn(first, store(shared, two));
    gyre::spawn(second, store(shared, three));
  }
  first.run_all();
  second.run_all();
  door.open();
  EXPECT_FALSE(one);
  first.run_all();
  EXPECT_EQ(one, 5);
  EXPECT_EQ(two, 5);
  EXPECT_FALSE(three);
  second.run_all();
  EXPECT_EQ(three, 5);
}

TEST(SharedTask, RunsOnTheExecutorItWasMadeWith) {
  thread_executor there;
  auto where = []() -> task<std::thread::id> { co_return std::this_thread::get_id(); };
  const shared_task<std::thread::id> shared(where(), there);
  EXPECT_EQ(sync_wait(shared), there.id());
  EXPECT_EQ(sync_wait(shared), there.id());
}

TEST(SharedTask, CancelledAwaiterLeavesAtOnceWhileOthersWait) {
  manual_executor loop;
  gate door;
  gyre::inplace_stop_source stop;
  std::optional<int> starter;
  std::optional<int> leaver;
  std::optional<int> stayer;
  {
    const auto shared = stopped_after(door);
    gyre::spawn(loop, tell(shared, starter), {.stop = stop.get_token()});
    gyre::spawn(loop, tell(shared, leaver), {.stop = stop.get_token()});
    gyre::spawn(loop, tell(shared, stayer));
  }
  loop.run_all();
  stop.request_stop();
  EXPECT_FALSE(leaver);
  loop.run_all();
  EXPECT_EQ(starter, 0);
  EXPECT_EQ(leaver, 0);
  EXPECT_FALSE(stayer);
  door.open();
  loop.run_all();
  EXPECT_EQ(stayer, 1);
}

TEST(SharedTask, LastCancelledAwaiterStopsTheWorkAndWaitsForItsEnd) {
  manual_executor loop;
  gate door;
  gyre::inplace_stop_source stop;
  std::optional<bool> one;
  std::optional<int> other;
  {
    const auto shared = stopped_after(door);
    gyre::spawn(loop, store(shared, one), {.stop = stop.get_token()});
    gyre::spawn(loop, tell(shared, other), {.stop = stop.get_token()});
  }
  loop.run_all();
  stop.request_stop();
  loop.run_all();
  EXPECT_EQ(other, 0);
  EXPECT_FALSE(one);
  door.open();
  loop.run_all();
  EXPECT_EQ(one, true);
}

TEST(SharedTask, StopsForTheAwaiterThatStartedIt) {
  manual_executor loop;
  gate door;
  gyre::inplace_stop_source stop;
  std::optional<bool> result;
  auto work = [](gate& at, gyre::inplace_stop_source& source) -> shared_task<bool> {
    source.request_stop();
    co_await at.wait();
    const gyre::inplace_stop_token token = co_await gyre::current_stop_token();
    co_return token.stop_requested();
  }(door, stop);
  gyre::spawn(loop, store(std::move(work), result), {.stop = stop.get_token()});
  loop.run_all();
  EXPECT_FALSE(result);
  door.open();
  loop.run_all();
  EXPECT_EQ(result, true);
}

TEST(SharedTask, ResultWinsOverAStopDuringTheStart) {
  gyre::inplace_stop_source stop;
  const auto shared = [](gyre::inplace_stop_source& source) -> shared_task<int> {
    source.request_stop();
    co_return 3;
  }(stop);
  EXPECT_EQ(sync_wait(shared, stop.get_token()), 3);
}

TEST(SharedTask, IsNotStartedByAnAwaiterThatIsStopped) {
  int runs = 0;
  const auto shared = greeting(runs);
  gyre::inplace_stop_source stop;
  stop.request_stop();
  EXPECT_THROW(sync_wait(shared, stop.get_token()), std::system_error);
  EXPECT_EQ(runs, 0);
  EXPECT_EQ(sync_wait(shared), "hello");
  EXPECT_EQ(sync_wait(shared, stop.get_token()), "hello");
}

TEST(SharedTask, BeginsWithoutTaskLocalValues) {
  const gyre::task_local<int> key;
  const auto shared = [](const gyre::task_local<int>& of) -> shared_task<int> {
    const int& value = co_await of.get();
    co_return value;
  }(key);
  EXPECT_EQ(sync_wait(key.with(7, shared)), 0);
}

// A coroutine that the test starts and may drop.
struct started_task {
  gyre::task_context context;
  std::optional<task<>> work;

  explicit started_task(task<> given, gyre::executor& on) : work(std::move(given)) {
    context.where = &on;
    context.finished = [](gyre::task_context&) noexcept -> std::coroutine_handle<> {
      return std::noop_coroutine();
    };
    gyre::detail::task_access::state(*work).start(context);
  }
};

TEST(SharedTask, DroppedAwaitersAreForgottenAndTheLastStopsTheWork) {
  manual_executor loop;
  gate door;
  std::optional<bool> one;
  std::optional<bool> two;
  const auto shared = stopped_after(door);
  {
    const started_task first(store(shared, one), loop);
    const started_task second(store(shared, two), loop);
    EXPECT_TRUE(door.is_waited_at());
  }
  EXPECT_TRUE(shared.is_abandoned());
  door.open();
  loop.run_all();
  EXPECT_FALSE(one);
  EXPECT_FALSE(shared.is_abandoned());
  EXPECT_TRUE(sync_wait(shared));
}

TEST(SharedTask, HandleMayBeReassignedWhileItIsAwaited) {
  manual_executor loop;
  gate door;
  std::optional<int> got;
  shared_task<int> shared = after(door);
  auto await_handle = [](shared_task<int>& handle, std::optional<int>& to) -> task<> {
    to = co_await handle;
  };
  gyre::spawn(loop, await_handle(shared, got));
  loop.run_all();
  shared = shared_task<int>();
  const shared_task<int> in_its_place = after(door);  // takes the same memory, if that is free
  door.open();
  loop.run_all();
  EXPECT_EQ(got, 5);
}

TEST(SharedTask, AwaitingAnEmptyHandleThrows) {
  shared_task<int> empty;
  EXPECT_THROW(sync_wait(empty), std::logic_error);
  EXPECT_THROW(sync_wait(shared_task<int>()), std::logic_error);
  shared_task<> moved = []() -> shared_task<> { co_return; }();
  const shared_task<> taken = std::move(moved);
  EXPECT_THROW(sync_wait(moved), std::logic_error);  // NOLINT(bugprone-use-after-move)
  sync_wait(taken);
}

TEST(SharedTask, AwaitingAbandonedWorkIsRefusedAndNotTakenForAStop) {
  manual_executor loop;
  gate door;
  std::optional<int> starter;
  gyre::inplace_stop_source stop;
  const auto shared = [](gate& at) -> shared_task<int> {
    co_await at.wait();
    co_await gyre::sleep_for(std::chrono::hours(1));
    co_return 5;
  }(door);
  gyre::spawn(loop, tell(shared, starter), {.stop = stop.get_token()});
  loop.run_all();
  EXPECT_FALSE(shared.is_abandoned());
  stop.request_stop();
  // Work is abandoned while it is being stopped, and afterwards.
  EXPECT_TRUE(shared.is_abandoned());
  EXPECT_FALSE(shared.is_done());
  EXPECT_EQ(sync_wait(gyre::as_expected(shared)).error(), std::errc::owner_dead);
  door.open();
  loop.run_all();
  EXPECT_EQ(starter, 0);
  EXPECT_TRUE(shared.is_done());
  EXPECT_TRUE(shared.is_abandoned());
  EXPECT_EQ(sync_wait(gyre::as_expected(shared)).error(), std::errc::owner_dead);
}

task<> awaits_again_and_again(shared_task<int> work) {
  for (;;) {
    try {
      co_await work;
    } catch (const std::exception&) {
      continue;  // does not catch a stop
    }
  }
}

TEST(SharedTask, CoroutineThatIsStoppedIsNotRefusedButToldSo) {
  manual_executor loop;
  bool ended = false;
  gyre::inplace_stop_source stop;
  const auto failing_when_stopped = []() -> shared_task<int> {
    try {
      co_await gyre::sleep_for(std::chrono::hours(1));
    } catch (...) {
    }
    throw std::runtime_error("connection lost");
  };
  const auto waits = [&ended](shared_task<int> work) -> task<> {
    try {
      co_await awaits_again_and_again(work);
    } catch (const gyre::operation_cancelled&) {
      ended = true;
    }
  };
  gyre::spawn(loop, waits(failing_when_stopped()), {.stop = stop.get_token()});
  loop.run_all();
  stop.request_stop();
  loop.run_all();
  EXPECT_TRUE(ended);
}

// Loads each number once for all concurrent callers, and again if the load was abandoned.
class single_flight {
 public:
  task<int> get(int number) {
    for (;;) {
      const shared_task<int> loading = find_or_start(number);
      try {
        co_return co_await loading;
      } catch (const std::system_error& error) {
        if (error.code() != std::errc::owner_dead) throw;
      }
    }
  }
  int starts() const { return starts_; }

 private:
  static task<int> load(int number) {
    co_await gyre::yield();
    const gyre::inplace_stop_token stop = co_await gyre::current_stop_token();
    if (stop.stop_requested()) throw std::runtime_error("stopped");
    co_await gyre::yield();
    co_return 2 * number;
  }
  shared_task<int> find_or_start(int number) {
    const std::lock_guard lock(mutex_);
    shared_task<int>& known = loads_[number];
    if (!known.valid() || known.is_abandoned()) {
      known = shared_task<int>(load(number), worker_);
      ++starts_;
    }
    return known;
  }

  thread_executor worker_;
  std::mutex mutex_;
  std::map<int, shared_task<int>> loads_;
  std::atomic<int> starts_{0};
};

TEST(SharedTask, SingleFlightCacheServesEverybodyWhoIsNotStopped) {
  thread_executor impatient;
  thread_executor patient;
  constexpr int rounds = 500;
  single_flight cache;
  auto leave = [](single_flight& from, int number) -> task<> {
    try {
      co_await from.get(number);
    } catch (const gyre::operation_cancelled&) {  // stopped
    } catch (const std::exception&) {             // or the work was stopped
      // The exception is shared: TSan does not see libstdc++'s count of the readers of its text.
    }
  };
  auto stay = [](single_flight& from, int number, int& to) -> task<> {
    to = co_await from.get(number);
  };
  auto request = [](gyre::inplace_stop_source& source) -> task<> {
    source.request_stop();
    co_return;
  };
  for (int round = 0; round < rounds; ++round) {
    int value = 0;
    gyre::inplace_stop_source stop;
    sync_wait(gyre::when_all(
        gyre::on(impatient, gyre::stop_when(leave(cache, round), stop.get_token())),
        gyre::on(patient, request(stop)), gyre::on(patient, stay(cache, round, value))));
    ASSERT_EQ(value, 2 * round);
  }
  EXPECT_GE(cache.starts(), rounds);
}

constexpr int chain_length = 20'000;  // on a small stack

task<long> await_one_before(const std::vector<shared_task<long>>& chain, std::size_t index) {
  if (index == 0) {
    co_await gyre::sleep_for(std::chrono::hours(1));
    co_return 0;
  }
  const long below = co_await chain[index - 1];
  co_return below + 1;
}

task<long> add_one_to_before(const std::vector<shared_task<long>>& chain, std::size_t index) {
  if (index == 0) co_return 0;
  const long below = co_await chain[index - 1];
  co_return below + 1;
}

TEST(SharedTask, ChainOfStartsKeepsTheStackFlat) {
  std::vector<shared_task<long>> chain;
  chain.reserve(chain_length);
  for (std::size_t i = 0; i < chain_length; ++i) chain.emplace_back(add_one_to_before(chain, i));
  long length = 0;
  on_small_stack([&] { length = sync_wait(chain.back()) + 1; });
  EXPECT_EQ(length, chain_length);
}

TEST(SharedTask, ChainThatIsStoppedKeepsTheStackFlat) {
  manual_executor loop;
  std::vector<shared_task<long>> chain;
  chain.reserve(chain_length);
  for (std::size_t i = 0; i < chain_length; ++i) chain.emplace_back(await_one_before(chain, i));
  std::optional<int> last;
  gyre::inplace_stop_source stop;
  gyre::spawn(loop, tell(chain.back(), last), {.stop = stop.get_token()});
  on_small_stack([&] {
    loop.run_all();
    EXPECT_FALSE(last);
    stop.request_stop();
    loop.run_all();
  });
  EXPECT_EQ(last, 0);
}

TEST(SharedTask, OutlivesItsHandlesWhileItRuns) {
  manual_executor loop;
  gate door;
  auto alive = std::make_shared<int>();
  {
    auto work = [](gate& at, std::shared_ptr<int>) -> shared_task<> { co_await at.wait(); }(door,
                                                                                            alive);
    const started_task dropped([](shared_task<> held) -> task<> { co_await held; }(work), loop);
  }
  EXPECT_EQ(alive.use_count(), 2);
  door.open();
  loop.run_all();
  EXPECT_EQ(alive.use_count(), 1);
}

TEST(SharedTask, ManyAwaitersOnSeveralThreadsAllGetTheResult) {
  thread_executor one;
  thread_executor other;
  for (int round = 0; round < 300; ++round) {
    const auto shared = []() -> shared_task<std::vector<int>> {
      co_await gyre::yield();
      co_return std::vector<int>(3, 1);
    }();
    auto take = [](shared_task<std::vector<int>> from) -> task<std::size_t> {
      const std::vector<int>& numbers = co_await from;
      co_return numbers.size();
    };
    std::vector<task<std::size_t>> all;
    for (int i = 0; i < 4; ++i) {
      all.push_back(gyre::on(one, take(shared)));
      all.push_back(gyre::on(other, take(shared)));
    }
    std::size_t sum = 0;
    for (const std::size_t each : sync_wait(gyre::when_all(std::move(all)))) sum += each;
    ASSERT_EQ(sum, 24U);
  }
}

TEST(SharedTask, CompletionAndCancellationRace) {
  thread_executor worker;
  thread_executor one;
  thread_executor other;
  std::atomic<int> values{0};
  std::atomic<int> cancelled{0};
  auto await_it = [](shared_task<int> from, std::atomic<int>& got,
                     std::atomic<int>& left) -> task<> {
    try {
      got += co_await from;
    } catch (const gyre::operation_cancelled&) {
      ++left;
    }
  };
  constexpr int rounds = 1000;
  for (int round = 0; round < rounds; ++round) {
    auto work = []() -> task<int> {
      co_await gyre::yield();
      co_return 1;
    };
    const shared_task<int> shared(work(), worker);
    gyre::inplace_stop_source stop;
    auto request = [](gyre::inplace_stop_source& source) -> task<> {
      source.request_stop();
      co_return;
    };
    sync_wait(gyre::when_all(gyre::on(one, await_it(shared, values, cancelled)),
                             gyre::on(other, await_it(shared, values, cancelled)),
                             gyre::on(one, request(stop))),
              stop.get_token());
  }
  EXPECT_EQ(values + cancelled, 2 * rounds);
}

}  // namespace
}  // namespace shared_task_test
