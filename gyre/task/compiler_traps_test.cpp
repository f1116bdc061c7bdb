// SPDX-License-Identifier: Apache-2.0
// Tests of the library's workarounds for defects of compilers, and of ways for users to avoid them.
// Numbers are of the compilers' bug trackers. task_depth_test.cpp tests symmetric transfer that
// grows the stack (GCC 100897).
#include <gyre/task/task.hpp>

#include <gyre/base/slab.hpp>
#include <gyre/task/invoke.hpp>
#include <gyre/task/schedule.hpp>
#include <gyre/task/spawn.hpp>
#include <gyre/task/sync_wait.hpp>
#include <tests/support/thread_executor.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

namespace compiler_traps_test {
namespace {

using gyre::sync_wait;
using gyre::task;
using gyre::test::this_thread_id;
using gyre::test::thread_executor;

// Counts constructions, including copies and moves, and destructions.
struct tally {
  int made = 0;
  int destroyed = 0;
  bool even() const { return made > 0 && made == destroyed; }
};
struct counted {
  explicit counted(tally& where) noexcept : count(&where) { ++count->made; }
  counted(const counted& other) noexcept : counted(*other.count) {}
  counted& operator=(const counted&) = delete;
  ~counted() { ++count->destroyed; }
  tally* count;
};

// GCC 12 destroys the captures of a lambda within a co_await expression twice: name the task.
TEST(CompilerTraps, CapturesAreDestroyedOnceWhenTheTaskIsNamed) {
  tally count;
  auto outer = [](tally& to) -> task<> {
    auto work = gyre::invoke([held = counted(to)]() -> task<> { co_await gyre::yield(); });
    co_await std::move(work);
  };
  sync_wait(outer(count));
  EXPECT_TRUE(count.even()) << count.made << " made, " << count.destroyed << " destroyed";
}

// GCC 12 destroys the members of an aggregate made within a co_await expression twice.
struct counted_aggregate {
  counted member;
  int number = 0;
};
struct counted_class {
  explicit counted_class(tally& where) noexcept : member(where) {}
  counted member;
};
struct plain_options {
  int number = 1;
  bool flag = false;
};

[[nodiscard]] counted_aggregate make_aggregate(tally& to) { return {counted(to), 1}; }
template <class T>
task<int> takes_one(T held, plain_options options = {}) {
  co_await gyre::yield();
  co_return options.number + (sizeof(held) > 0 ? 1 : 0);
}

TEST(CompilerTraps, AggregatesAreDestroyedOnceWhenNotMadeInTheAwaitedExpression) {
  tally count;
  auto outer = [](tally& to) -> task<int> {
    counted_aggregate named{counted(to), 1};
    int sum = co_await takes_one(std::move(named), {.number = 2});
    sum += co_await takes_one(make_aggregate(to));
    sum += co_await takes_one(counted_class{to});
    co_return sum;
  };
  EXPECT_EQ(sync_wait(outer(count)), 7);
  EXPECT_TRUE(count.even()) << count.made << " made, " << count.destroyed << " destroyed";
}

task<int> takes(counted, int value) { co_return value; }
task<int> takes_and_waits(counted held, int value) {
  co_await gyre::yield();
  co_return value + (held.count == nullptr ? 1 : 0);
}

TEST(CompilerTraps, ParametersAndTemporariesAreDestroyedOnce) {
  tally count;
  auto outer = [](tally& to) -> task<int> {
    const int one = co_await takes(counted(to), 1);
    const int other = co_await takes_and_waits(counted(to), 2);
    co_return one + other;
  };
  EXPECT_EQ(sync_wait(outer(count)), 3);
  EXPECT_TRUE(count.even()) << count.made << " made, " << count.destroyed << " destroyed";
}

TEST(CompilerTraps, ParametersAreDestroyedOnceWhenTheBodyThrows) {
  tally count;
  auto fails = [](counted) -> task<> {
    throw std::runtime_error("no");
    co_return;
  };
  EXPECT_THROW(sync_wait(fails(counted(count))), std::runtime_error);
  EXPECT_TRUE(count.even()) << count.made << " made, " << count.destroyed << " destroyed";
}

// GCC 15 leaks the object that a structured binding takes from a co_await (124584).
TEST(CompilerTraps, StructuredBindingOfANamedResultLeaksNothing) {
  tally count;
  auto pair = [](tally& to) -> task<std::pair<counted, int>> {
    co_return std::pair(counted(to), 1);
  };
  auto outer = [](auto make, tally& to) -> task<int> {
    const std::pair<counted, int> result = co_await make(to);
    const auto& [first, second] = result;
    co_return first.count == &to ? second : 0;
  };
  EXPECT_EQ(sync_wait(outer(pair, count)), 1);
  EXPECT_TRUE(count.even()) << count.made << " made, " << count.destroyed << " destroyed";
}

// GCC evaluates co_await in the operands of && and || although it must not (112360).
TEST(CompilerTraps, AwaitThatIsNotReachedDoesNotRun) {
  int runs = 0;
  auto asks = [](int& ran, bool answer) -> task<bool> {
    ++ran;
    co_return answer;
  };
  auto outer = [](auto ask, int& ran) -> task<bool> {
    if (!co_await ask(ran, false)) co_return false;
    co_return co_await ask(ran, true);
  };
  EXPECT_FALSE(sync_wait(outer(asks, runs)));
  EXPECT_EQ(runs, 1);
}

// GCC before 12.3 misplaces the frame of a coroutine that awaits in a condition and has no local
// variable (106188); without a word from gyre it would hang or crash.
task<int> one() { co_return 1; }
task<> awaits_in_an_if() {
  if (co_await one() != 1) ADD_FAILURE();
}
task<> awaits_in_a_loop() {
  while (co_await one() != 1) ADD_FAILURE();
}
task<> awaits_in_a_switch() {
  switch (co_await one()) {
    case 1: co_return;
    default: ADD_FAILURE();
  }
}
task<> names_the_result() {
  const int result = co_await one();
  if (result != 1) ADD_FAILURE();
}

TEST(CompilerTrapsDeathTest, AwaitInAConditionWorksOrIsRefused) {
  for (auto* const coroutine : {&awaits_in_an_if, &awaits_in_a_loop, &awaits_in_a_switch}) {
#if GYRE_MISPLACES_FRAMES
    EXPECT_DEATH(sync_wait(coroutine()), "GCC bug 106188");
#else
    sync_wait(coroutine());
#endif
  }
  sync_wait(names_the_result());
}

// In Debug builds, GCC 12 copies an awaiter that an await_transform() passes on by reference; a
// copy of this awaiter would never be resumed.
struct set_by_hand {
  static bool await_ready() noexcept { return false; }
  void await_suspend(std::coroutine_handle<> h) noexcept { waiting = h; }
  static void await_resume() noexcept {}
  std::coroutine_handle<> waiting;
};
struct immovable : set_by_hand {
  explicit immovable(immovable*& to) noexcept { to = this; }
  immovable(const immovable&) = delete;
  immovable& operator=(const immovable&) = delete;
};

TEST(CompilerTraps, AwaitersAreAwaitedInPlace) {
  set_by_hand named;
  immovable* temporary = nullptr;
  int step = 0;
  auto waits = [](set_by_hand& first, immovable*& second, int& to) -> task<> {
    co_await first;
    to = 1;
    co_await immovable(second);
    to = 2;
  };
  gyre::spawn(gyre::inline_executor(), waits(named, temporary, step));
  ASSERT_TRUE(named.waiting);
  gyre::detail::resume(named.waiting);
  EXPECT_EQ(step, 1);
  ASSERT_TRUE(temporary != nullptr && temporary->waiting);
  gyre::detail::resume(temporary->waiting);
  EXPECT_EQ(step, 2);
}

enum class when { returning_void, returning_bool, returning_handle };

// Throws instead of suspending; the coroutine then goes on with the exception.
template <when Kind>
struct throws_in_await_suspend {
  static bool await_ready() noexcept { return false; }
  static auto await_suspend(std::coroutine_handle<>) {
    throw std::runtime_error("cannot wait");
    if constexpr (Kind == when::returning_bool) return true;
    if constexpr (Kind == when::returning_handle) return std::coroutine_handle<>();
  }
  static void await_resume() noexcept {}
};

template <when Kind>
task<bool> catches() {
  try {
    co_await throws_in_await_suspend<Kind>{};
  } catch (const std::runtime_error&) {
    co_return true;
  }
  co_return false;
}

TEST(CompilerTraps, ExceptionOfAwaitSuspendIsTheCoroutines) {
  EXPECT_TRUE(sync_wait(catches<when::returning_void>()));
  EXPECT_TRUE(sync_wait(catches<when::returning_bool>()));
  EXPECT_TRUE(sync_wait(catches<when::returning_handle>()));
}

// Clang before 19 may use the frame after await_suspend() has handed it to another thread (LLVM
// 56301, 65018, 72006). The other thread resumes at once, so that ThreadSanitizer finds such a use.
template <when Kind>
struct hands_over : gyre::detail::resumption {
  explicit hands_over(gyre::executor& target) noexcept : to(target) {}
  static constexpr bool executor_affine = true;  // false, but prevents a stand-in
  static bool await_ready() noexcept { return false; }
  auto await_suspend(std::coroutine_handle<> h) noexcept {
    waiting = h;
    to.post(*this);
    if constexpr (Kind == when::returning_bool) return true;
    if constexpr (Kind == when::returning_handle) {
      return gyre::detail::transfer_to(std::noop_coroutine());
    }
  }
  static void await_resume() noexcept {}
  gyre::executor& to;
};

template <when Kind>
task<int> passes_between(thread_executor& one, thread_executor& other) {
  int right = 0;
  for (int i = 0; i < 2000; ++i) {
    co_await hands_over<Kind>(one);
    right += this_thread_id() == one.id() ? 1 : 0;
    co_await hands_over<Kind>(other);
    right += this_thread_id() == other.id() ? 1 : 0;
  }
  co_return right;
}

TEST(CompilerTraps, FrameIsNotTouchedOnceItWasHandedOver) {
  thread_executor one;
  thread_executor other;
  EXPECT_EQ(sync_wait(passes_between<when::returning_void>(one, other)), 4000);
  EXPECT_EQ(sync_wait(passes_between<when::returning_bool>(one, other)), 4000);
  EXPECT_EQ(sync_wait(passes_between<when::returning_handle>(one, other)), 4000);
}

constinit thread_local int of_this_thread = 0;
// The fence hides from the compiler that the address is "constant".
[[gnu::noinline]] int& reached_out_of_line() noexcept {
  __asm__ volatile("" ::: "memory");
  return of_this_thread;
}

// The address of a thread-local can be kept across a suspension (LLVM 47179, 63022, 111257), and
// pthread_self() with it: reach both through a function that is not inlined.
TEST(CompilerTraps, ThreadLocalReachedOutOfLineIsThatOfTheThread) {
  thread_executor there;
  auto hops = [](thread_executor& to) -> task<std::vector<int>> {
    gyre::executor& home = co_await gyre::current_executor();
    for (int i = 0; i < 3; ++i) {
      reached_out_of_line() += 1;
      co_await gyre::resume_on(to);
      reached_out_of_line() += 10;
      co_await gyre::resume_on(home);
    }
    std::vector<int> seen{reached_out_of_line()};
    co_await gyre::resume_on(to);
    seen.push_back(reached_out_of_line());
    co_return seen;
  };
  EXPECT_THAT(sync_wait(hops(there)), testing::ElementsAre(3, 30));
}

[[gnu::noinline]] task<int> ready(int value) { co_return value; }

// The frames' slab is a thread-local, too: a frame that is made and freed on one thread must not go
// to another thread's slab.
TEST(CompilerTraps, FramesComeFromTheThreadThatTheCoroutineIsOn) {
  thread_executor there;
  auto hops = [](gyre::executor& to) -> task<int> {
    int sum = 0;
    for (int i = 0; i < 100; ++i) sum += co_await ready(1);
    co_await gyre::resume_on(to);
    for (int i = 0; i < 100'000; ++i) sum += co_await ready(1);
    co_return sum;
  };
  const auto before = gyre::read_slab_stats();
  EXPECT_EQ(sync_wait(hops(there)), 100'100);
  const auto after = gyre::read_slab_stats();
  EXPECT_LE(after.remote_frees - before.remote_frees, 10);
  EXPECT_LE(after.bytes_held, before.bytes_held + (std::size_t{1} << 20));
}

// Promises aligned beyond 16 bytes are unsafe in both compilers (LLVM 56671, 58397), so no member
// of one may need that. A task refuses such a T by a static_assert; all other results are aligned.
TEST(CompilerTraps, ResultsAreAligned) {
  struct alignas(16) wide {
    std::uint64_t low;
    std::uint64_t high;
  };
  auto makes = []() -> task<wide> { co_return wide{1, 2}; };
  auto outer = [](auto make) -> task<bool> {
    task<wide> held = make();
    const bool aligned = reinterpret_cast<std::uintptr_t>(&held) % alignof(wide) == 0;
    const wide result = co_await std::move(held);
    co_return aligned&& result.high == 2 &&
        reinterpret_cast<std::uintptr_t>(&result) % alignof(wide) == 0;
  };
  EXPECT_TRUE(sync_wait(outer(makes)));
}

}  // namespace
}  // namespace compiler_traps_test
