// SPDX-License-Identifier: Apache-2.0
// Runs with stdexec where that is installed, else with its stand-in in tests/support/stdexec.
#include <gyre/task/adapter/stdexec.hpp>

#include <gyre/task/schedule.hpp>
#include <gyre/task/spawn.hpp>
#include <gyre/task/sync_wait.hpp>
#include <gyre/task/with_timeout.hpp>
#include <gyre/testing/manual_executor.hpp>
#include <gyre/testing/virtual_time_loop.hpp>
#include <tests/support/droppable.hpp>
#include <tests/support/senders.hpp>
#include <tests/support/small_stack.hpp>
#include <tests/support/thread_executor.hpp>

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <concepts>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>

namespace stdexec_test {
namespace {

namespace ex = stdexec;
using gyre::as_scheduler;
using gyre::as_sender;
using gyre::from_sender;
using gyre::sync_wait;
using gyre::task;
using gyre::test::completes_inline;
using gyre::test::recording_receiver;
using gyre::test::sender_event;
using gyre::test::sender_outcome;
using gyre::test::thread_executor;
using gyre::testing::manual_executor;
using gyre::testing::virtual_time_loop;
using namespace std::chrono_literals;

enum class ending { none, value, cancelled, failed_as_cancelled };

template <class Sender>
task<ending> end_of(Sender sender) {
  try {
    auto waiting = from_sender(std::move(sender));
    co_await std::move(waiting);
    co_return ending::value;
  } catch (const gyre::operation_cancelled&) {
    co_return ending::cancelled;
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code(), std::errc::operation_canceled);
    co_return ending::failed_as_cancelled;
  }
}

template <class Sender>
void start_waiting(gyre::executor& where, Sender sender, ending& end,
                   gyre::inplace_stop_token stop = {}) {
  gyre::spawn(where,
              [](Sender held, ending& to) -> task<> { to = co_await end_of(std::move(held)); }(
                                              std::move(sender), end),
              {.stop = stop});
}

// from_sender()

TEST(FromSender, GivesTheValue) {
  EXPECT_EQ(sync_wait(from_sender(ex::just(42))), 42);
  EXPECT_EQ(sync_wait(from_sender(ex::then(ex::just(1), [](int one) { return one + 1; }))), 2);
}

TEST(FromSender, GivesNothingWhereASenderHasNoValue) {
  static_assert(std::is_void_v<decltype(from_sender(ex::just()).await_resume())>);
  EXPECT_EQ(sync_wait(end_of(ex::just())), ending::value);
}

TEST(FromSender, GivesATupleOfSeveralValues) {
  const std::tuple<int, std::string> both = sync_wait(from_sender(ex::just(1, std::string("two"))));
  EXPECT_EQ(both, std::tuple(1, "two"));
}

TEST(FromSender, GivesMoveOnlyValues) {
  const std::unique_ptr<int> one = sync_wait(from_sender(ex::just(std::make_unique<int>(7))));
  EXPECT_EQ(*one, 7);
  const auto both = sync_wait(from_sender(ex::just(std::make_unique<int>(8), 9)));
  EXPECT_EQ(*std::get<0>(both), 8);
}

TEST(FromSender, CopiesFromReferences) {
  std::string text = "kept";
  auto sender = completes_inline<ex::set_value_t(std::string&)>(
      [&]<class Receiver>(Receiver&& receiver) { ex::set_value(std::move(receiver), text); });
  static_assert(std::same_as<decltype(from_sender(std::move(sender)).await_resume()), std::string>);
  EXPECT_EQ(sync_wait(from_sender(std::move(sender))), "kept");
  EXPECT_EQ(text, "kept");
}

TEST(FromSender, AcceptsCompletionsWithTheSameDecayedValue) {
  auto sender = completes_inline<ex::set_value_t(int), ex::set_value_t(const int&)>(
      [](auto receiver) { ex::set_value(std::move(receiver), 3); });
  EXPECT_EQ(sync_wait(from_sender(std::move(sender))), 3);
}

TEST(FromSender, ThrowsErrors) {
  EXPECT_THROW(
      sync_wait(from_sender(ex::just_error(std::make_exception_ptr(std::runtime_error("broken"))))),
      std::runtime_error);
  EXPECT_THROW(sync_wait(from_sender(ex::just_error(std::string("other")))), std::string);
  try {
    sync_wait(from_sender(ex::just_error(std::make_error_code(std::errc::timed_out))));
    FAIL();
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code(), std::errc::timed_out);
  }
}

TEST(FromSender, ThrowsTheExceptionOfAValueThatCannotBeStored) {
  struct throws_when_moved {
    throws_when_moved() = default;
    throws_when_moved(throws_when_moved&&) { throw std::runtime_error("moved"); }  // NOLINT
  };
  auto sender = completes_inline<ex::set_value_t(throws_when_moved)>(
      [](auto receiver) { ex::set_value(std::move(receiver), throws_when_moved()); });
  auto waits = [](decltype(sender) from) -> task<> {
    auto waiting = from_sender(std::move(from));
    static_cast<void>(co_await std::move(waiting));
  };
  EXPECT_THROW(sync_wait(waits(std::move(sender))), std::runtime_error);
}

TEST(FromSender, CancellationWithoutAStopIsASystemError) {
  EXPECT_EQ(sync_wait(end_of(ex::just_stopped())), ending::failed_as_cancelled);
}

TEST(FromSender, StopReachesTheSenderThatIsAwaited) {
  manual_executor here;
  gyre::inplace_stop_source stop;
  sender_event<int> event;
  ending end = ending::none;
  start_waiting(here, event.sender(), end, stop.get_token());
  here.run_all();
  EXPECT_TRUE(event.is_awaited());
  stop.request_stop();
  EXPECT_FALSE(event.is_awaited());
  EXPECT_EQ(end, ending::none) << "resumed within request_stop()";
  here.run_all();
  EXPECT_EQ(end, ending::cancelled);
}

TEST(FromSender, StopFirstThenValueIsCancelled) {
  manual_executor here;
  gyre::inplace_stop_source stop;
  sender_event<> event;
  ending end = ending::none;
  start_waiting(here, event.sender(), end, stop.get_token());
  here.run_all();
  stop.request_stop();
  EXPECT_FALSE(event.set_value());
  here.run_all();
  EXPECT_EQ(end, ending::cancelled);
}

TEST(FromSender, ValueFirstThenStopGivesTheValue) {
  manual_executor here;
  gyre::inplace_stop_source stop;
  sender_event<> event;
  ending end = ending::none;
  start_waiting(here, event.sender(), end, stop.get_token());
  here.run_all();
  EXPECT_TRUE(event.set_value());
  stop.request_stop();
  here.run_all();
  EXPECT_EQ(end, ending::value);
}

TEST(FromSender, SenderIsNotStartedAfterAStop) {
  manual_executor here;
  gyre::inplace_stop_source stop;
  bool started = false;
  ending end = ending::none;
  auto sender = completes_inline<ex::set_value_t()>([&](auto receiver) {
    started = true;
    ex::set_value(std::move(receiver));
  });
  stop.request_stop();
  start_waiting(here, std::move(sender), end, stop.get_token());
  here.run_all();
  EXPECT_EQ(end, ending::cancelled);
  EXPECT_FALSE(started);
}

TEST(FromSender, TimeLimitStopsTheSender) {
  manual_executor here;
  sender_event<> event;
  bool timed_out = false;
  gyre::spawn(here, [](sender_event<>& from, bool& expired) -> task<> {
    try {
      auto waiting = gyre::with_timeout(from_sender(from.sender()), 1h);
      co_await std::move(waiting);
    } catch (const std::system_error& error) {
      expired = error.code() == std::errc::timed_out;
    }
  }(event, timed_out));
  here.run_all();
  EXPECT_TRUE(event.is_awaited());
  here.advance(1h);
  EXPECT_FALSE(event.is_awaited());
  EXPECT_TRUE(timed_out);
}

TEST(FromSender, LoopThatSwallowsItsStopGivesWay) {
  manual_executor here;
  gyre::inplace_stop_source stop;
  stop.request_stop();
  bool ended = false;
  gyre::spawn(here,
              [](bool& done) -> task<> {
                for (int i = 0; i < 200; ++i) {
                  const ending end = co_await end_of(ex::just());
                  EXPECT_EQ(end, ending::cancelled);
                }
                done = true;
              }(ended),
              {.stop = stop.get_token()});
  here.run_one();
  EXPECT_FALSE(ended);
  here.run_all();
  EXPECT_TRUE(ended);
}

TEST(FromSender, MayBeDestroyedUnawaited) {
  const auto held = std::make_shared<int>(1);
  {
    const auto waiting = from_sender(ex::just(held));
    EXPECT_EQ(held.use_count(), 2);
  }
  EXPECT_EQ(held.use_count(), 1);
}

TEST(FromSender, OperationIsGoneWhenTheCoroutineGoesOn) {
  const auto held = std::make_shared<int>(1);
  auto waits = [](std::shared_ptr<int> shared) -> task<long> {
    const std::weak_ptr<int> watched = shared;
    auto waiting = from_sender(ex::then(ex::just(), [kept = std::move(shared)] {}));
    co_await std::move(waiting);
    co_return watched.use_count();
  };
  EXPECT_EQ(sync_wait(waits(held)), 1);
}

TEST(FromSender, ResumesOnTheExecutorOfTheCoroutine) {
  thread_executor there;
  auto hops = [](gyre::executor& other) -> task<> {
    const auto home = gyre::test::this_thread_id();
    for (int i = 0; i < 100; ++i) {
      auto hop = from_sender(
          ex::then(ex::schedule(as_scheduler(other)), [] { return gyre::test::this_thread_id(); }));
      const std::thread::id elsewhere = co_await std::move(hop);
      EXPECT_NE(elsewhere, home);
      EXPECT_EQ(gyre::test::this_thread_id(), home);
    }
  };
  sync_wait(hops(there));
}

TEST(FromSender, SenderFindsTheExecutorAndTheStopToken) {
  manual_executor here;
  gyre::inplace_stop_source stop;
  bool found = false;
  auto sender = completes_inline<ex::set_value_t()>([&](auto receiver) {
    const auto environment = ex::get_env(receiver);
    const gyre::executor_scheduler scheduler = ex::get_scheduler(environment);
    const gyre::inplace_stop_token token = ex::get_stop_token(environment);
    found = &scheduler.get() == &here && token == stop.get_token();
    ex::set_value(std::move(receiver));
  });
  ending end = ending::none;
  start_waiting(here, std::move(sender), end, stop.get_token());
  here.run_all();
  EXPECT_EQ(end, ending::value);
  EXPECT_TRUE(found);
}

TEST(FromSender, CoroutineWithoutAnExecutorResumesWhereTheSenderCompletes) {
  sender_event<int> event;
  const auto waits = [&](gyre::executor&, int& result) -> gyre::test::droppable {
    auto waiting = from_sender(event.sender());
    result = co_await std::move(waiting);
  };
  int result = 0;
  const gyre::test::droppable waiting = waits(gyre::inline_executor(), result);
  EXPECT_FALSE(waiting.done());
  event.set_value(5);
  EXPECT_EQ(result, 5);
  EXPECT_TRUE(waiting.done());
}

TEST(FromSender, LoopOfInlineCompletionsNeedsNoStack) {
  constexpr int awaits = 1'000'000;
  auto loops = []() -> task<int> {
    int sum = 0;
    for (int i = 0; i < awaits; ++i) {
      auto waiting = from_sender(ex::just(1));
      const int one = co_await std::move(waiting);
      sum += one;
    }
    co_return sum;
  };
  gyre::test::on_small_stack([&] { EXPECT_EQ(sync_wait(loops()), awaits); });
}

TEST(FromSender, LoopOfTasksAsSendersNeedsNoStack) {
  constexpr int awaits = 100'000;
  auto one = []() -> task<int> { co_return 1; };
  auto loops = [&]() -> task<int> {
    int sum = 0;
    for (int i = 0; i < awaits; ++i) {
      auto waiting = from_sender(as_sender(gyre::inline_executor(), one()));
      const int value = co_await std::move(waiting);
      sum += value;
    }
    co_return sum;
  };
  gyre::test::on_small_stack([&] { EXPECT_EQ(sync_wait(loops()), awaits); });
}

TEST(FromSender, ValueAndStopOfTwoThreadsEndTheWaitOnce) {
  constexpr int rounds = 2000;
  thread_executor here;
  int values = 0;
  for (int i = 0; i < rounds; ++i) {
    gyre::inplace_stop_source stop;
    sender_event<int> event;
    ending end = ending::none;
    std::atomic<bool> ended = false;
    gyre::spawn(here,
                [](sender_event<int>& from, ending& to, std::atomic<bool>& done) -> task<> {
                  to = co_await end_of(from.sender());
                  done = true;
                }(event, end, ended),
                {.stop = stop.get_token()});
    bool was_first = false;
    std::jthread completes([&] {
      while (!event.is_awaited() && !stop.stop_requested()) std::this_thread::yield();
      was_first = event.set_value(i);
    });
    if (i % 2 == 0) {
      while (!event.is_awaited() && !ended) std::this_thread::yield();
    }
    stop.request_stop();
    while (!ended) std::this_thread::yield();
    completes.join();
    EXPECT_EQ(end, was_first ? ending::value : ending::cancelled);
    values += was_first ? 1 : 0;
  }
  EXPECT_LE(values, rounds);
}

// as_sender()

task<int> answers() { co_return 42; }

/// A sender connected to a receiver, and how it ends.
template <class Sender>
struct connected {
  using value = gyre::detail::element_t<gyre::detail::sender_result_t<Sender>>;

  explicit connected(Sender sender, ex::inplace_stop_token stop = {})
      : operation(ex::connect(std::move(sender), recording_receiver<value>(outcome, stop))) {}
  sender_outcome<value> outcome;
  ex::connect_result_t<Sender, recording_receiver<value>> operation;
};

TEST(AsSender, IsASender) {
  using sender = decltype(as_sender(std::declval<gyre::executor&>(), answers()));
  static_assert(ex::sender<sender>);
  static_assert(ex::sender_in<sender, ex::env<>>);
  static_assert(ex::sender_to<sender, recording_receiver<int>>);
}

TEST(AsSender, CompletesWithTheResult) {
  thread_executor there;
  const auto [value] = ex::sync_wait(as_sender(there, answers())).value();
  EXPECT_EQ(value, 42);
  auto runs_there = [](thread_executor& where) -> task<bool> { co_return where.running_here(); };
  const auto [ran] = ex::sync_wait(as_sender(there, runs_there(there))).value();
  EXPECT_TRUE(ran);
}

TEST(AsSender, CompletesWithNothing) {
  auto nothing = []() -> task<> { co_return; };
  EXPECT_TRUE(ex::sync_wait(as_sender(gyre::inline_executor(), nothing())).has_value());
}

TEST(AsSender, CompletesWithAMoveOnlyResult) {
  auto makes = []() -> task<std::unique_ptr<int>> { co_return std::make_unique<int>(7); };
  const auto [value] = ex::sync_wait(as_sender(gyre::inline_executor(), makes())).value();
  EXPECT_EQ(*value, 7);
}

TEST(AsSender, CompletesWithAReference) {
  int number = 1;
  auto refers = [](int& to) -> task<int&> { co_return to; };
  auto sender = ex::then(as_sender(gyre::inline_executor(), refers(number)), [](int& to) {
    to = 2;
    return &to;
  });
  const auto [address] = ex::sync_wait(std::move(sender)).value();
  EXPECT_EQ(address, &number);
  EXPECT_EQ(number, 2);
}

TEST(AsSender, CompletesWithTheResultOfAnyAwaitable) {
  const auto [value] =
      ex::sync_wait(as_sender(gyre::inline_executor(), from_sender(ex::just(3)))).value();
  EXPECT_EQ(value, 3);
}

TEST(AsSender, CompletesWithTheException) {
  auto fails = []() -> task<int> {
    throw std::runtime_error("broken");
    co_return 1;
  };
  EXPECT_THROW(ex::sync_wait(as_sender(gyre::inline_executor(), fails())), std::runtime_error);
}

TEST(AsSender, CompletesStoppedAfterACancellation) {
  auto cancelled = []() -> task<int> {
    throw gyre::operation_cancelled();
    co_return 1;
  };
  EXPECT_FALSE(ex::sync_wait(as_sender(gyre::inline_executor(), cancelled())).has_value());
}

TEST(AsSender, RejectsAnEmptyTask) {
  EXPECT_THROW(static_cast<void>(as_sender(gyre::inline_executor(), task<int>())),
               std::logic_error);
}

TEST(AsSender, StartsWhenTheOperationDoes) {
  manual_executor here;
  bool ran = false;
  auto runs = [](bool& flag) -> task<int> {
    flag = true;
    co_return 1;
  };
  connected started(as_sender(here, runs(ran)));
  here.run_all();
  EXPECT_FALSE(ran);
  ex::start(started.operation);
  EXPECT_FALSE(ran) << "ran within start()";
  here.run_all();
  EXPECT_TRUE(ran);
  EXPECT_EQ(started.outcome.value, 1);
  EXPECT_EQ(started.outcome.completions, 1);
}

TEST(AsSender, OperationMayBeDestroyedUnstarted) {
  const auto held = std::make_shared<int>(1);
  bool ran = false;
  auto runs = [](std::shared_ptr<int>, bool& flag) -> task<int> {
    flag = true;
    co_return 1;
  };
  manual_executor here;
  {
    const connected never_started(as_sender(here, runs(held, ran)));
    EXPECT_EQ(held.use_count(), 2);
  }
  {
    const auto never_connected = as_sender(here, runs(held, ran));
  }
  EXPECT_EQ(held.use_count(), 1);
  EXPECT_FALSE(ran);
}

TEST(AsSender, FrameIsGoneAtTheCompletion) {
  const auto held = std::make_shared<int>(1);
  auto holds = [](std::shared_ptr<int> kept) -> task<int> { co_return *kept; };
  auto sender = ex::then(as_sender(gyre::inline_executor(), holds(held)),
                         [&](int) { return held.use_count(); });
  EXPECT_EQ(std::get<0>(ex::sync_wait(std::move(sender)).value()), 1);
}

TEST(AsSender, StopOfTheReceiverStopsTheTask) {
  manual_executor here;
  ex::inplace_stop_source stop;
  sender_event<int> event;
  connected started(as_sender(here, from_sender(event.sender())), stop.get_token());
  ex::start(started.operation);
  here.run_all();
  EXPECT_TRUE(event.is_awaited());
  stop.request_stop();
  here.run_all();
  EXPECT_TRUE(started.outcome.stopped);
  EXPECT_EQ(started.outcome.completions, 1);
  EXPECT_FALSE(event.set_value(1));
}

TEST(AsSender, StopBeforeTheStartReachesTheTask) {
  manual_executor here;
  ex::inplace_stop_source stop;
  stop.request_stop();
  auto looks = []() -> task<int> {
    const gyre::inplace_stop_token token = co_await gyre::current_stop_token();
    co_return token.stop_requested() ? 1 : 0;
  };
  connected started(as_sender(here, looks()), stop.get_token());
  ex::start(started.operation);
  here.run_all();
  EXPECT_EQ(started.outcome.value, 1);
}

TEST(AsSender, StopAfterTheCompletionDoesNothing) {
  manual_executor here;
  ex::inplace_stop_source stop;
  connected started(as_sender(here, answers()), stop.get_token());
  ex::start(started.operation);
  here.run_all();
  stop.request_stop();
  EXPECT_EQ(started.outcome.value, 42);
  EXPECT_FALSE(started.outcome.stopped);
  EXPECT_EQ(started.outcome.completions, 1);
}

TEST(AsSender, TaskMayEndWithinTheStop) {
  ex::inplace_stop_source stop;
  sender_event<int> event;
  connected started(as_sender(gyre::inline_executor(), from_sender(event.sender())),
                    stop.get_token());
  ex::start(started.operation);
  EXPECT_EQ(started.outcome.completions, 0);
  stop.request_stop();
  EXPECT_TRUE(started.outcome.stopped);
}

// As a loop that is destroyed before it runs, or an executor without memory.
struct refusing_executor final : gyre::executor {
  void post(gyre::operation&) noexcept override {}
  void post_discardable(gyre::operation& op, void (*discard)(gyre::operation&) noexcept) override {
    if (without_memory) {
      discard(op);
      throw std::bad_alloc();
    }
    posted = &op;
    discard_posted = discard;
  }
  bool running_here() const noexcept override { return false; }

  bool without_memory = false;
  gyre::operation* posted = nullptr;
  void (*discard_posted)(gyre::operation&) noexcept = nullptr;
};

TEST(AsSender, IsStoppedByAnExecutorThatRefuses) {
  const auto held = std::make_shared<int>(1);
  auto holds = [](std::shared_ptr<int>) -> task<> { co_return; };
  refusing_executor closed;
  connected discarded(as_sender(closed, holds(held)));
  ex::start(discarded.operation);
  EXPECT_EQ(discarded.outcome.completions, 0);
  closed.discard_posted(*closed.posted);
  EXPECT_TRUE(discarded.outcome.stopped);
  EXPECT_EQ(held.use_count(), 1);

  closed.without_memory = true;
  connected refused(as_sender(closed, holds(held)));
  ex::start(refused.operation);
  EXPECT_TRUE(refused.outcome.stopped);
  EXPECT_EQ(refused.outcome.completions, 1);
  EXPECT_EQ(held.use_count(), 1);
}

TEST(AsSender, ValueAndStopOfTwoThreadsEndTheTaskOnce) {
  constexpr int rounds = 2000;
  thread_executor here;
  for (int i = 0; i < rounds; ++i) {
    ex::inplace_stop_source stop;
    sender_event<int> event;
    bool was_first = false;
    connected started(as_sender(here, from_sender(event.sender())), stop.get_token());
    ex::start(started.operation);
    std::jthread completes([&] {
      while (!event.is_awaited() && started.outcome.completions == 0) std::this_thread::yield();
      was_first = event.set_value(i);
    });
    if (i % 2 == 0) {
      while (!event.is_awaited() && started.outcome.completions == 0) std::this_thread::yield();
    }
    stop.request_stop();
    while (started.outcome.completions == 0) std::this_thread::yield();
    completes.join();
    EXPECT_EQ(started.outcome.value.has_value(), was_first);
    EXPECT_EQ(started.outcome.stopped, !was_first);
    EXPECT_EQ(started.outcome.completions, 1);
  }
}

// as_scheduler()

using schedule_sender = decltype(ex::schedule(std::declval<gyre::executor_scheduler>()));

TEST(AsScheduler, IsAScheduler) {
  static_assert(ex::scheduler<gyre::executor_scheduler>);
  static_assert(ex::sender_to<schedule_sender, recording_receiver<std::monostate>>);
  manual_executor one;
  manual_executor other;
  EXPECT_EQ(as_scheduler(one), as_scheduler(one));
  EXPECT_NE(as_scheduler(one), as_scheduler(other));
  const auto environment = ex::get_env(ex::schedule(as_scheduler(one)));
  EXPECT_EQ(ex::get_completion_scheduler<ex::set_value_t>(environment), as_scheduler(one));
}

TEST(AsScheduler, CompletesOnTheExecutorInItsOrder) {
  manual_executor here;
  connected first(ex::schedule(as_scheduler(here)));
  connected second(ex::schedule(as_scheduler(here)));
  ex::start(first.operation);
  ex::start(second.operation);
  EXPECT_FALSE(first.outcome.value);
  here.run_one();
  EXPECT_TRUE(first.outcome.value);
  EXPECT_FALSE(second.outcome.value);
  here.run_one();
  EXPECT_TRUE(second.outcome.value);
}

TEST(AsScheduler, IsStoppedWhileItWaitsForItsTurn) {
  manual_executor here;
  ex::inplace_stop_source stop;
  connected waiting(ex::schedule(as_scheduler(here)), stop.get_token());
  ex::start(waiting.operation);
  stop.request_stop();
  here.run_all();
  EXPECT_TRUE(waiting.outcome.stopped);
  EXPECT_EQ(waiting.outcome.completions, 1);
}

TEST(AsScheduler, IsStoppedByAnExecutorThatRefuses) {
  refusing_executor closed;
  connected discarded(ex::schedule(as_scheduler(closed)));
  ex::start(discarded.operation);
  closed.discard_posted(*closed.posted);
  EXPECT_TRUE(discarded.outcome.stopped);
  closed.without_memory = true;
  connected refused(ex::schedule(as_scheduler(closed)));
  ex::start(refused.operation);
  EXPECT_TRUE(refused.outcome.stopped);
  EXPECT_EQ(refused.outcome.completions, 1);
}

TEST(AsScheduler, IsStoppedByALoopThatEndsBefore) {
  std::optional<virtual_time_loop<>> ended(std::in_place);
  connected waiting(ex::schedule(as_scheduler(ended->loop)));
  connected working(as_sender(ended->loop, answers()));
  ex::start(waiting.operation);
  ex::start(working.operation);
  ended.reset();
  EXPECT_TRUE(waiting.outcome.stopped);
  EXPECT_TRUE(working.outcome.stopped);
}

TEST(AsScheduler, NeverFailsAReceiverThatCannotStop) {
  static_assert(std::same_as<ex::completion_signatures_of_t<schedule_sender, ex::env<>>,
                             ex::completion_signatures<ex::set_value_t()>>);
  manual_executor here;
  sender_outcome<std::monostate> outcome;
  auto operation =
      ex::connect(ex::schedule(as_scheduler(here)), gyre::test::unstoppable_receiver(outcome));
  ex::start(operation);
  EXPECT_FALSE(outcome.value);
  here.run_all();
  EXPECT_TRUE(outcome.value);
}

TEST(AsScheduler, RunsSendersOfSeveralThreads) {
  thread_executor there;
  std::atomic<int> ran = 0;
  {
    std::array<std::jthread, 4> threads;
    for (std::jthread& thread : threads) {
      thread = std::jthread([&] {
        for (int i = 0; i < 100; ++i) {
          ex::sync_wait(ex::then(ex::schedule(as_scheduler(there)), [&] { ++ran; }));
        }
      });
    }
  }
  EXPECT_EQ(ran, 400);
}

}  // namespace
}  // namespace stdexec_test
