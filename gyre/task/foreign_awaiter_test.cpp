// SPDX-License-Identifier: Apache-2.0
// Tests of executor affinity: after awaiting a foreign awaitable, which resumes the coroutine on a
// thread of its own, the coroutine and its awaiter are on their executor.
#include <gyre/task/detail/foreign_awaiter.hpp>
#include <gyre/task/detail/transfer.hpp>

#include <gyre/task/as_expected.hpp>
#include <gyre/task/async_generator.hpp>
#include <gyre/task/schedule.hpp>
#include <gyre/task/scope.hpp>
#include <gyre/task/shared_task.hpp>
#include <gyre/task/sleep.hpp>
#include <gyre/task/spawn.hpp>
#include <gyre/task/sync_wait.hpp>
#include <gyre/task/task.hpp>
#include <gyre/task/task_local.hpp>
#include <gyre/task/when_all.hpp>
#include <tests/support/thread_executor.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <coroutine>
#include <future>
#include <stdexcept>
#include <thread>
#include <tuple>
#include <utility>

namespace foreign_awaiter_test {
namespace {

using gyre::executor;
using gyre::sync_wait;
using gyre::task;
using gyre::test::this_thread_id;
using gyre::test::thread_executor;

enum class returns { nothing, boolean, handle };

/// A thread that resumes coroutines, like a foreign runtime.
class foreign_thread {
 public:
  void resume_there(std::coroutine_handle<> waiting) {
    std::thread([waiting] { waiting.resume(); }).detach();
  }
};

/// Resumes from another thread; neither copied nor moved.
template <returns Kind>
class elsewhere {
 public:
  explicit elsewhere(int value = 0) noexcept : value_(value) {}
  elsewhere(const elsewhere&) = delete;
  elsewhere& operator=(const elsewhere&) = delete;

  static bool await_ready() noexcept { return false; }
  auto await_suspend(std::coroutine_handle<> waiting) {
    foreign_thread().resume_there(waiting);
    if constexpr (Kind == returns::boolean) return true;
    if constexpr (Kind == returns::handle) return std::coroutine_handle<>(std::noop_coroutine());
  }
  int& await_resume() noexcept {
    resumed_on = this_thread_id();
    return value_;
  }

  std::thread::id resumed_on;

 private:
  int value_;
};

struct has_member_operator {
  elsewhere<returns::nothing> operator co_await() const noexcept {
    return elsewhere<returns::nothing>(7);
  }
};
struct has_free_operator {};
elsewhere<returns::handle> operator co_await(has_free_operator) noexcept {
  return elsewhere<returns::handle>(8);
}

/// Whether the calling thread is that of `home`.
bool at(const thread_executor& home) { return this_thread_id() == home.id(); }

template <returns Kind>
task<bool> awaits_elsewhere(thread_executor& home) {
  elsewhere<Kind> named(1);
  int& result = co_await named;
  if (!at(home) || named.resumed_on != home.id() || result != 1) co_return false;
  const int other = co_await elsewhere<Kind>(2);
  co_return at(home) && other == 2;
}

TEST(ForeignAwaiter, LeavesTheCoroutineOnItsExecutor) {
  thread_executor home;
  EXPECT_TRUE(sync_wait(gyre::on(home, awaits_elsewhere<returns::nothing>(home))));
  EXPECT_TRUE(sync_wait(gyre::on(home, awaits_elsewhere<returns::boolean>(home))));
  EXPECT_TRUE(sync_wait(gyre::on(home, awaits_elsewhere<returns::handle>(home))));
}

TEST(ForeignAwaiter, MayComeFromAnOperator) {
  auto awaits = [](thread_executor& home) -> task<bool> {
    const int member = co_await has_member_operator{};
    if (!at(home) || member != 7) co_return false;
    const int from_free = co_await has_free_operator{};
    co_return at(home) && from_free == 8;
  };
  thread_executor home;
  EXPECT_TRUE(sync_wait(gyre::on(home, awaits(home))));
}

TEST(ForeignAwaiter, LeavesTheCallersThere) {
  auto inner = []() -> task<> { co_await elsewhere<returns::nothing>(); };
  auto outer = [](auto callee, thread_executor& home) -> task<bool> {
    co_await callee();
    co_return at(home);
  };
  auto outermost = [](auto callee, auto middle, thread_executor& home) -> task<bool> {
    const bool middle_at_home = co_await middle(callee, home);
    co_return middle_at_home&& at(home);
  };
  thread_executor home;
  EXPECT_TRUE(sync_wait(gyre::on(home, outermost(inner, outer, home))));
}

TEST(ForeignAwaiter, LeavesTheParentOfWhenAllThere) {
  auto parent = [](thread_executor& home) -> task<bool> {
    auto child = []() -> task<int> { co_return co_await elsewhere<returns::boolean>(1); };
    std::tuple<int, int> both = co_await gyre::when_all(child(), child());
    co_return at(home) && both == std::tuple(1, 1);
  };
  thread_executor home;
  EXPECT_TRUE(sync_wait(gyre::on(home, parent(home))));
}

TEST(ForeignAwaiter, LeavesAGeneratorAndItsConsumerThere) {
  auto generate = [](thread_executor& home) -> gyre::async_generator<bool> {
    co_await elsewhere<returns::nothing>();
    co_yield at(home);
  };
  auto consume = [](auto generator, thread_executor& home) -> task<bool> {
    auto sequence = generator(home);
    const bool* next = co_await sequence.next();
    co_return next != nullptr && *next&& at(home);
  };
  thread_executor home;
  EXPECT_TRUE(sync_wait(gyre::on(home, consume(generate, home))));
}

TEST(ForeignAwaiter, LeavesSharedWorkAndItsAwaiterThere) {
  auto work = [](thread_executor& home) -> task<bool> {
    co_await elsewhere<returns::nothing>();
    co_return at(home);
  };
  auto waits = [](auto shared, thread_executor& home) -> task<bool> {
    const bool was_home = co_await gyre::shared_task<bool>(shared(home));
    co_return was_home&& at(home);
  };
  thread_executor home;
  EXPECT_TRUE(sync_wait(gyre::on(home, waits(work, home))));
}

TEST(ForeignAwaiter, LeavesTheTasksOfAScopeAndItsParentThere) {
  auto child = [](thread_executor& home, bool& was_home) -> task<> {
    co_await elsewhere<returns::nothing>();
    was_home = at(home);
  };
  auto parent = [](auto start, thread_executor& home) -> task<bool> {
    bool was_home = false;
    auto body = [&](gyre::scope& tasks) -> task<> {
      tasks.spawn(start(home, was_home));
      co_return;
    };
    co_await gyre::with_scope(body);
    co_return was_home&& at(home);
  };
  thread_executor home;
  EXPECT_TRUE(sync_wait(gyre::on(home, parent(child, home))));
}

TEST(ForeignAwaiter, KeepsItsPlaceWithAValueBound) {
  static gyre::task_local<int> number(0);
  auto waits = [](thread_executor& home) -> task<bool> {
    const int result = co_await number.with(5, has_member_operator{});
    co_return at(home) && result == 7;
  };
  thread_executor home;
  EXPECT_TRUE(sync_wait(gyre::on(home, waits(home))));
}

TEST(ForeignAwaiter, ComesBackToWhereResumeOnWentLast) {
  auto hops = [](thread_executor& one, thread_executor& other) -> task<bool> {
    co_await elsewhere<returns::nothing>();
    if (!at(one)) co_return false;
    co_await gyre::resume_on(other);
    co_await elsewhere<returns::nothing>();
    if (!at(other)) co_return false;
    co_await gyre::resume_on(one);
    co_return at(one);
  };
  thread_executor one;
  thread_executor other;
  EXPECT_TRUE(sync_wait(gyre::on(one, hops(one, other))));
}

/// Resumes on the thread that awaits it, within await_suspend().
struct at_once {
  static bool await_ready() noexcept { return false; }
  static void await_suspend(std::coroutine_handle<> waiting) { waiting.resume(); }
  static void await_resume() noexcept {}
};
struct by_transfer_to_itself {
  static bool await_ready() noexcept { return false; }
  static std::coroutine_handle<> await_suspend(std::coroutine_handle<> waiting) { return waiting; }
  static void await_resume() noexcept {}
};
struct without_waiting {
  static bool await_ready() noexcept { return false; }
  static bool await_suspend(std::coroutine_handle<>) { return false; }
  static void await_resume() noexcept {}
};
struct ready {
  static bool await_ready() noexcept { return true; }
  static void await_suspend(std::coroutine_handle<>) { throw std::logic_error("not to be called"); }
  static void await_resume() noexcept {}
};

/// Counts what is posted to a thread.
class counting_executor final : public executor {
 public:
  void post(gyre::operation& op) noexcept override {
    ++posted;
    there.post(op);
  }
  bool running_here() const noexcept override { return there.running_here(); }

  int posted = 0;
  thread_executor there;
};

TEST(ForeignAwaiter, PostsNothingWhenResumedOnTheExecutor) {
  auto waits = [](counting_executor& home, int& posted) -> task<> {
    const int before = home.posted;
    co_await at_once{};
    co_await by_transfer_to_itself{};
    co_await without_waiting{};
    co_await ready{};
    posted = home.posted - before;
  };
  counting_executor home;
  int posted = -1;
  sync_wait(gyre::on(home, waits(home, posted)));
  EXPECT_EQ(posted, 0);
}

enum class step { ready, suspend, resume };

template <step Failing>
struct throws {
  static void check(step now) {
    if (now == Failing) throw std::runtime_error("no");
  }
  static bool await_ready() {
    check(step::ready);
    return false;
  }
  static void await_suspend(std::coroutine_handle<> waiting) {
    check(step::suspend);
    foreign_thread().resume_there(waiting);
  }
  static void await_resume() { check(step::resume); }
};

template <step Failing>
task<bool> catches(thread_executor& home) {
  try {
    co_await throws<Failing>{};
  } catch (const std::runtime_error&) {
    co_return at(home);
  }
  co_return false;
}

TEST(ForeignAwaiter, ThrowsOnTheExecutor) {
  thread_executor home;
  EXPECT_TRUE(sync_wait(gyre::on(home, catches<step::ready>(home))));
  EXPECT_TRUE(sync_wait(gyre::on(home, catches<step::suspend>(home))));
  EXPECT_TRUE(sync_wait(gyre::on(home, catches<step::resume>(home))));
}

/// Suspends its awaiter until it is released.
struct held {
  static bool await_ready() noexcept { return false; }
  void await_suspend(std::coroutine_handle<> h) noexcept { waiting = h; }
  static void await_resume() noexcept {}
  std::coroutine_handle<> waiting;
};

/// A coroutine's local whose destructor sets a flag.
struct sets_when_gone {
  explicit sets_when_gone(bool& to) noexcept : gone(to) {}
  sets_when_gone(const sets_when_gone&) = delete;
  sets_when_gone& operator=(const sets_when_gone&) = delete;
  ~sets_when_gone() { gone = true; }
  bool& gone;
};

/// Runs a task by hand, and may drop it while it waits.
struct started : gyre::task_context {
  explicit started(task<> to_start) : work(std::move(to_start)) {
    finished = [](gyre::task_context& self) noexcept -> std::coroutine_handle<> {
      static_cast<started&>(self).is_done = true;
      return std::noop_coroutine();
    };
    gyre::detail::task_access::state(work).start(*this);
  }
  task<> work;
  bool is_done = false;
};

TEST(ForeignAwaiter, CoroutineThatWaitsMayBeDestroyed) {
  auto waits = [](held& on, bool& gone) -> task<> {
    const sets_when_gone local(gone);
    co_await on;
  };
  held on;
  bool gone = false;
  {
    started one(waits(on, gone));
    EXPECT_FALSE(gone);
  }
  EXPECT_TRUE(gone);
}

TEST(ForeignAwaiter, HandleIsNotDoneAndResumesTheCoroutine) {
  auto waits = [](held& on) -> task<> { co_await on; };
  held on;
  started one(waits(on));
  ASSERT_TRUE(on.waiting);
  EXPECT_FALSE(on.waiting.done());
  on.waiting.resume();
  EXPECT_TRUE(one.is_done);
}

/// Asks the promise of the coroutine for its context.
struct reads_context {
  static bool await_ready() noexcept { return false; }
  template <gyre::detail::has_context Promise>
  bool await_suspend(std::coroutine_handle<Promise> waiting) noexcept {
    where = gyre::detail::context_of(waiting).where;
    return false;
  }
  executor* await_resume() const noexcept { return where; }
  executor* where = nullptr;
};

TEST(ForeignAwaiter, SeesTheContextOfTheCoroutine) {
  auto asks = [](executor& home) -> task<bool> {
    executor* const where = co_await reads_context{};
    co_return where == &home;
  };
  thread_executor home;
  EXPECT_TRUE(sync_wait(gyre::on(home, asks(home))));
}

/// A coroutine of another library: lazy, with symmetric transfer at both ends.
class foreign_task {
 public:
  struct promise_type {
    foreign_task get_return_object() noexcept {
      return foreign_task(std::coroutine_handle<promise_type>::from_promise(*this));
    }
    static std::suspend_always initial_suspend() noexcept { return {}; }
    static auto final_suspend() noexcept {
      struct back {
        static bool await_ready() noexcept { return false; }
        static std::coroutine_handle<> await_suspend(
            std::coroutine_handle<promise_type> self) noexcept {
          return self.promise().awaiting;
        }
        static void await_resume() noexcept {}
      };
      return back{};
    }
    static void return_void() noexcept {}
    [[noreturn]] static void unhandled_exception() { std::terminate(); }
    std::coroutine_handle<> awaiting;
  };

  foreign_task(foreign_task&& other) noexcept : self_(std::exchange(other.self_, nullptr)) {}
  foreign_task& operator=(foreign_task&&) = delete;
  ~foreign_task() {
    if (self_) self_.destroy();
  }
  static bool await_ready() noexcept { return false; }
  std::coroutine_handle<> await_suspend(std::coroutine_handle<> awaiting) noexcept {
    self_.promise().awaiting = awaiting;
    return self_;
  }
  static void await_resume() noexcept {}

 private:
  explicit foreign_task(std::coroutine_handle<promise_type> self) noexcept : self_(self) {}
  std::coroutine_handle<promise_type> self_;
};

TEST(ForeignAwaiter, ManyTransfersNeedNoStack) {
  // Where GCC makes no tail calls, a foreign coroutine's own transfers nest.
  constexpr int awaits = gyre::detail::has_symmetric_transfer ? 1'000'000 : 100;
  auto nothing = []() -> foreign_task { co_return; };
  auto loops = [](auto make, int count) -> task<int> {
    int done = 0;
    for (; done < count; ++done) co_await make();
    co_return done;
  };
  EXPECT_EQ(sync_wait(loops(nothing, awaits)), awaits);
}

TEST(ForeignAwaiter, ManyTransfersToItselfNeedNoStack) {
  auto loops = [](int count) -> task<int> {
    int done = 0;
    for (; done < count; ++done) co_await by_transfer_to_itself{};
    co_return done;
  };
  EXPECT_EQ(sync_wait(loops(1'000'000)), 1'000'000);
}

// Only ordinary lookup finds this operator: neither the type nor gyre is in this namespace.
struct elapsed {
  std::chrono::milliseconds time;
  static bool await_ready() noexcept { return false; }
  static bool await_suspend(std::coroutine_handle<>) noexcept { return false; }
  long await_resume() const noexcept { return time.count(); }
};
elapsed operator co_await(const std::chrono::milliseconds& time) noexcept { return {time}; }

TEST(ForeignAwaiter, OperatorsForTypesOfAnotherNamespaceAreFound) {
  auto awaits = []() -> task<long> {
    const std::chrono::milliseconds variable{7};
    co_return co_await std::chrono::milliseconds(10) + co_await variable;
  };
  EXPECT_EQ(sync_wait(awaits()), 17);
}

// The value of a future that has one.
struct finished {
  std::future<int> from;
  static bool await_ready() noexcept { return true; }
  static void await_suspend(std::coroutine_handle<>) noexcept {}
  int await_resume() { return from.get(); }
};
finished operator co_await(std::future<int>&& from) noexcept { return finished{std::move(from)}; }

TEST(ForeignAwaiter, OperatorsForFuturesAreFound) {
  auto awaits = [](std::future<int> result) -> task<int> { co_return co_await std::move(result); };
  std::promise<int> promise;
  promise.set_value(17);
  EXPECT_EQ(sync_wait(awaits(promise.get_future())), 17);
}

// An await of gyre's own awaitables must not pay for a stand-in.
template <class Awaitable>
inline constexpr bool is_affine =
    gyre::detail::resumes_on_executor<decltype(gyre::detail::awaiter_of(
        std::declval<Awaitable>()))>;
static_assert(is_affine<task<int>> && is_affine<task<int>&> && is_affine<gyre::shared_task<int>>);
static_assert(is_affine<const gyre::shared_task<int>&>);
static_assert(is_affine<decltype(std::declval<gyre::async_generator<int>&>().next())>);
static_assert(is_affine<decltype(gyre::yield())> && is_affine<decltype(gyre::current_executor())>);
static_assert(is_affine<decltype(gyre::resume_on(std::declval<executor&>()))>);
static_assert(is_affine<decltype(gyre::schedule(std::declval<executor&>()))>);
static_assert(is_affine<decltype(gyre::sleep_for(std::chrono::seconds(1)))>);
static_assert(is_affine<decltype(gyre::as_expected(gyre::sleep_for(std::chrono::seconds(1))))>);
static_assert(!is_affine<elsewhere<returns::nothing>> && !is_affine<has_free_operator>);

}  // namespace
}  // namespace foreign_awaiter_test
