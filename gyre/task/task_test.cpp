// SPDX-License-Identifier: Apache-2.0
// Tests of a task's results, its start, and the end of the task and its coroutine.
#include <gyre/task/task.hpp>

#include <gyre/task/schedule.hpp>
#include <gyre/task/sync_wait.hpp>
#include <gyre/testing/manual_executor.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <concepts>
#include <coroutine>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace task_test {
namespace {

using gyre::sync_wait;
using gyre::task;
using testing::ElementsAre;

static_assert(!std::copyable<task<int>> && !std::is_copy_constructible_v<task<int>>);
static_assert(std::is_nothrow_move_constructible_v<task<std::string>>);
static_assert(std::is_nothrow_default_constructible_v<task<>>);
static_assert(std::same_as<gyre::await_result_t<task<int>>, int>);
static_assert(std::same_as<gyre::await_result_t<task<int&>>, int&>);
static_assert(std::same_as<gyre::await_result_t<task<>>, void>);

// Counts its live objects, copies and moved-from ones included.
struct counted {
  explicit counted(int& alive) noexcept : count(&alive) { ++*count; }
  counted(const counted& other) noexcept : count(other.count) { ++*count; }
  counted& operator=(const counted&) = delete;
  ~counted() { --*count; }
  int* count;
};

struct throws_at_the_end {
  // noexcept(false) lets a destructor throw.
  ~throws_at_the_end() noexcept(false) { throw std::runtime_error("from a destructor"); }
};

task<int> number(int value) { co_return value; }
task<> nothing() { co_return; }
task<int> fails(const char* message) {
  throw std::runtime_error(message);
  co_return 0;
}

TEST(Task, GivesItsValue) { EXPECT_EQ(sync_wait(number(42)), 42); }

TEST(Task, GivesNothing) {
  bool ran = false;
  sync_wait([](bool& flag) -> task<> {
    flag = true;
    co_return;
  }(ran));
  EXPECT_TRUE(ran);
}

TEST(Task, GivesAReferenceToTheObjectItself) {
  std::string word = "word";
  auto refer = [](std::string& to) -> task<std::string&> { co_return to; };
  EXPECT_EQ(&sync_wait(refer(word)), &word);
  auto refer_const = [](const std::string& to) -> task<const std::string&> { co_return to; };
  EXPECT_EQ(&sync_wait(refer_const(word)), &word);
}

TEST(Task, GivesReferencesThroughAChain) {
  int variable = 1;
  auto inner = [](int& to) -> task<int&> { co_return to; };
  auto outer = [](task<int&> from) -> task<int&> {
    int& seen = co_await std::move(from);
    ++seen;
    co_return seen;
  };
  ++sync_wait(outer(inner(variable)));
  EXPECT_EQ(variable, 3);
}

TEST(Task, GivesWhatCanOnlyBeMoved) {
  auto make = []() -> task<std::unique_ptr<int>> { co_return std::make_unique<int>(7); };
  auto pass = [](task<std::unique_ptr<int>> from) -> task<std::unique_ptr<int>> {
    std::unique_ptr<int> owned = co_await std::move(from);
    co_return owned;
  };
  EXPECT_EQ(*sync_wait(pass(make())), 7);
}

TEST(Task, GivesWhatHasNoDefaultConstructor) {
  int alive = 0;
  auto make = [](int& count) -> task<counted> { co_return counted(count); };
  {
    const counted result = sync_wait(make(alive));
    EXPECT_EQ(alive, 1);
  }
  EXPECT_EQ(alive, 0);
}

TEST(Task, ConvertsWhatIsReturned) {
  auto make = []() -> task<std::string> { co_return "a literal"; };
  EXPECT_EQ(sync_wait(make()), "a literal");
  auto braces = []() -> task<std::vector<int>> { co_return {1, 2, 3}; };
  EXPECT_THAT(sync_wait(braces()), ElementsAre(1, 2, 3));
}

TEST(Task, TakesTheResultByOneMove) {
  struct tracer {
    explicit tracer(int& counter) noexcept : moves(&counter) {}
    tracer(tracer&& other) noexcept : moves(other.moves) { ++*moves; }
    int* moves;
  };
  int moves = 0;
  auto make = [](int& counter) -> task<tracer> { co_return tracer(counter); };
  auto get = [](task<tracer> from) -> task<> { static_cast<void>(co_await std::move(from)); };
  sync_wait(get(make(moves)));
  EXPECT_EQ(moves, 2);  // into the task, and out of it
}

TEST(Task, ThrowsWhatItsBodyThrew) {
  EXPECT_THROW(sync_wait(fails("in the body")), std::runtime_error);
}

TEST(Task, ExceptionPassesThroughAChainAndIsCaughtInIt) {
  auto passes = []() -> task<int> { co_return co_await fails("deep"); };
  auto catches = [](auto inner) -> task<std::string> {
    try {
      co_await inner();
    } catch (const std::runtime_error& error) {
      co_return error.what();
    }
    co_return "nothing was thrown";
  };
  EXPECT_EQ(sync_wait(catches(passes)), "deep");
}

// The result must not leak, nor hide what happened after it.
TEST(Task, ExceptionOfALocalsDestructorReplacesTheResult) {
  int alive = 0;
  auto value = [](int& count) -> task<counted> {
    const throws_at_the_end local;
    co_return counted(count);
  };
  EXPECT_THROW(sync_wait(value(alive)), std::runtime_error);
  EXPECT_EQ(alive, 0);

  auto none = []() -> task<> {
    const throws_at_the_end local;
    co_return;
  };
  EXPECT_THROW(sync_wait(none()), std::runtime_error);

  auto reference = [](int& to) -> task<int&> {
    const throws_at_the_end local;
    co_return to;
  };
  EXPECT_THROW(sync_wait(reference(alive)), std::runtime_error);
}

TEST(Task, HandlerOfALocalsDestructorMayReturnAnotherResult) {
  int dropped = 0;
  int alive = 0;
  auto value = [](int& first, int& second) -> task<counted> {
    try {
      const throws_at_the_end local;
      co_return counted(first);
    } catch (const std::runtime_error&) {
      co_return counted(second);
    }
  };
  EXPECT_EQ(sync_wait(value(dropped, alive)).count, &alive);
  EXPECT_EQ(dropped, 0);
  EXPECT_EQ(alive, 0);
}

// Throws when it is moved for the nth time.
struct throws_when_moved {
  explicit throws_when_moved(int moves, int& alive) : left(moves), guard(alive) {}
  throws_when_moved(throws_when_moved&& other) : left(other.left - 1), guard(other.guard) {
    if (left < 0) throw std::logic_error("moved too often");
  }
  int left;
  counted guard;
};

TEST(Task, ThrowsWhatMovingTheResultThrows) {
  int alive = 0;
  auto make = [](int moves, int& count) -> task<throws_when_moved> {
    co_return throws_when_moved(moves, count);
  };
  auto take = [](task<throws_when_moved> from) -> task<bool> {
    try {
      const throws_when_moved taken = co_await std::move(from);
      co_return true;
    } catch (const std::logic_error&) {
      co_return false;
    }
  };
  EXPECT_FALSE(sync_wait(take(make(0, alive))));  // into the task
  EXPECT_EQ(alive, 0);
  EXPECT_FALSE(sync_wait(take(make(1, alive))));  // out of it
  EXPECT_EQ(alive, 0);
  EXPECT_TRUE(sync_wait(take(make(2, alive))));
  EXPECT_EQ(alive, 0);
}

#ifdef __clang__
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wreturn-type"
#endif
template <class T>
task<T> gives(std::optional<T> known) {
  if (known) co_return *std::move(known);
}
#ifdef __clang__
#pragma clang diagnostic pop
#endif

TEST(Task, ThrowsWhereItsCoroutineEndsWithoutAResult) {
  if (!gyre::detail::records_backtraces) GTEST_SKIP() << "undefined where backtraces are off";
  EXPECT_EQ(sync_wait(gives<int>(3)), 3);
  EXPECT_EQ(sync_wait(gives<std::string>("three")), "three");
  EXPECT_THROW(sync_wait(gives<int>(std::nullopt)), std::logic_error);
  EXPECT_THROW(sync_wait(gives<std::string>(std::nullopt)), std::logic_error);
  auto awaits = []() -> task<std::string> {
    std::string got;
    try {
      got = co_await gives<std::string>(std::nullopt);
    } catch (const std::logic_error& error) {
      got = error.what();
    }
    co_return got;
  };
  EXPECT_EQ(sync_wait(awaits()), "gyre::task: the coroutine ended without co_return");
}

TEST(Task, DoesNotStartBeforeItIsAwaited) {
  bool ran = false;
  auto lazy = [](bool& flag) -> task<> {
    flag = true;
    co_return;
  };
  {
    const task<> dropped = lazy(ran);
    EXPECT_TRUE(dropped.valid());
  }
  EXPECT_FALSE(ran);
}

TEST(Task, DroppedUnstartedFreesItsParameters) {
  int alive = 0;
  {
    const task<> dropped = [](counted) -> task<> { co_return; }(counted(alive));
    EXPECT_EQ(alive, 1);
  }
  EXPECT_EQ(alive, 0);
}

TEST(Task, IsEmptyOnceAwaitedOrMovedFrom) {
  EXPECT_FALSE(task<>().valid());
  task<int> first = number(1);
  task<int> second = std::move(first);
  EXPECT_FALSE(first.valid());  // NOLINT(bugprone-use-after-move): what is tested
  EXPECT_TRUE(second.valid());
  EXPECT_EQ(sync_wait(std::move(second)), 1);
  EXPECT_FALSE(second.valid());  // NOLINT(bugprone-use-after-move): what is tested
}

TEST(Task, AssignmentDropsWhatWasThere) {
  int alive = 0;
  auto holds = [](counted) -> task<int> { co_return 1; };
  task<int> variable = holds(counted(alive));
  variable = number(2);
  EXPECT_EQ(alive, 0);
  task<int>& same = variable;
  variable = std::move(same);
  EXPECT_EQ(sync_wait(std::move(variable)), 2);
}

// Awaiting an lvalue, a moved-from or a default-made task must be an error, not a crash.
template <class T>
task<bool> is_refused(task<T>& awaited) {
  try {
    co_await std::move(awaited);
  } catch (const std::logic_error&) {
    co_return true;
  }
  co_return false;
}

TEST(Task, AwaitedTwiceThrows) {
  auto twice = []() -> task<bool> {
    task<int> once = number(1);
    co_await std::move(once);
    co_return co_await is_refused(once);
  };
  EXPECT_TRUE(sync_wait(twice()));
}

TEST(Task, AwaitedTwiceThrowsAlsoAfterAnError) {
  auto twice = []() -> task<bool> {
    task<int> once = fails("the first time");
    bool failed = false;
    try {
      co_await std::move(once);
    } catch (const std::runtime_error&) {
      failed = true;
    }
    if (!failed) co_return false;
    co_return co_await is_refused(once);
  };
  EXPECT_TRUE(sync_wait(twice()));
}

TEST(Task, AwaitedEmptyThrows) {
  task<> empty;
  EXPECT_TRUE(sync_wait(is_refused(empty)));
  EXPECT_THROW(sync_wait(task<int>()), std::logic_error);
  EXPECT_THROW(sync_wait(task<int&>()), std::logic_error);
}

TEST(Task, FreesItsFrameBeforeItsCallerGoesOn) {
  int alive = 0;
  auto holds = [](counted parameter) -> task<int> {
    const counted local(*parameter.count);
    co_return *local.count;
  };
  auto caller = [](auto callee, int& count) -> task<std::vector<int>> {
    task<int> held = callee(counted(count));
    const int before = count;
    const int inside = co_await std::move(held);
    const int after = count;  // the task object is still there
    co_return std::vector{before, inside, after};
  };
  EXPECT_THAT(sync_wait(caller(holds, alive)), ElementsAre(1, 2, 0));
}

// Waits for ever, unless it is resumed by hand.
struct parked {
  static bool await_ready() noexcept { return false; }
  void await_suspend(std::coroutine_handle<> h) noexcept { *where = h; }
  static void await_resume() noexcept {}
  std::coroutine_handle<>* where;
};

// Starts `work` in a context of its own, as combinators do.
struct started : gyre::task_context {
  explicit started(task<> started_work) : work(std::move(started_work)) {
    finished = [](gyre::task_context& self) noexcept -> std::coroutine_handle<> {
      ++static_cast<started&>(self).ends;
      return std::noop_coroutine();
    };
    gyre::detail::task_access::state(*work).start(*this);
  }
  std::optional<task<>> work;
  int ends = 0;
};

task<> waits_in_a_chain(int depth, int& alive, std::coroutine_handle<>& innermost) {
  const counted local(alive);
  if (depth == 1) {
    co_await parked{&innermost};
  } else {
    co_await waits_in_a_chain(depth - 1, alive, innermost);
  }
}

TEST(Task, DroppedWhileItWaitsDestroysTheWholeChain) {
  int alive = 0;
  std::coroutine_handle<> innermost;
  started chain(waits_in_a_chain(3, alive, innermost));
  EXPECT_EQ(alive, 3);
  EXPECT_TRUE(innermost);
  chain.work.reset();
  EXPECT_EQ(alive, 0);
  EXPECT_EQ(chain.ends, 0);
}

TEST(Task, StartedAloneTellsItsContextOnceItHasEnded) {
  int alive = 0;
  std::coroutine_handle<> innermost;
  started chain(waits_in_a_chain(3, alive, innermost));
  EXPECT_EQ(chain.ends, 0);
  gyre::detail::resume(innermost);
  EXPECT_EQ(chain.ends, 1);
  EXPECT_EQ(alive, 0);
  gyre::detail::task_access::state(*chain.work).take_result();

  started ready(nothing());
  EXPECT_EQ(ready.ends, 1);
}

TEST(Task, StartedAloneKeepsItsErrorForWhoTakesTheResult) {
  auto throws = []() -> task<> {
    co_await gyre::yield();
    throw std::runtime_error("kept");
  };
  started failed(throws());
  EXPECT_EQ(failed.ends, 1);
  EXPECT_THROW(gyre::detail::task_access::state(*failed.work).take_result(), std::runtime_error);
  // A result is taken once; without a taker it is dropped with its task.
  EXPECT_TRUE(gyre::detail::task_access::state(*failed.work).empty());
  const started ignored(throws());
}

TEST(Task, FinishedTaskMovesWithItsResult) {
  int alive = 0;
  auto make = [](int& count) -> task<counted> { co_return counted(count); };
  struct : gyre::task_context {
  } context;
  context.finished = [](gyre::task_context&) noexcept -> std::coroutine_handle<> {
    return std::noop_coroutine();
  };
  using gyre::detail::task_access;
  task<counted> first = make(alive);
  task_access::state(first).start(context);
  EXPECT_EQ(alive, 1);
  {
    task<counted> second = std::move(first);
    EXPECT_EQ(alive, 1);
    EXPECT_EQ(*task_access::state(second).take_result().count, 1);
  }
  task<counted> dropped = make(alive);
  task_access::state(dropped).start(context);
  dropped = {};
  EXPECT_EQ(alive, 0);

  task<int> failed = fails("moved along");
  task_access::state(failed).start(context);
  task<int> moved = std::move(failed);
  EXPECT_THROW(task_access::state(moved).take_result(), std::runtime_error);
}

// The coroutines of a chain are one thread of control: a hop of the innermost moves all.
TEST(Task, CoroutinesThatAwaitEachOtherShareOneContext) {
  gyre::testing::manual_executor there;
  gyre::executor* outer_before = nullptr;
  gyre::executor* outer_after = nullptr;
  auto hops = [](gyre::executor& to) -> task<> { co_await gyre::resume_on(to); };
  auto calls = [&](auto hop) -> task<> {
    outer_before = &co_await gyre::current_executor();
    co_await hop(there);
    outer_after = &co_await gyre::current_executor();
  };
  started chain(calls(hops));
  EXPECT_EQ(there.run_all(), 1);
  EXPECT_EQ(chain.ends, 1);
  EXPECT_EQ(outer_before, &gyre::inline_executor());
  EXPECT_EQ(outer_after, &there);
}

}  // namespace
}  // namespace task_test
