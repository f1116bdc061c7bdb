// SPDX-License-Identifier: Apache-2.0
// Model tests of a join whose loop changes threads, and of a forked child that does: each child
// runs once, the parent resumes once, when all children have finished, and sees their writes.
//
// Each of these mutations, tried by hand, makes a test fail: finish() or end_elsewhere() lacks
// either half of acq_rel; each starter counts the loop's end; contexts are not kept, or are kept by
// a store; a child's end is not reported to its starter. In forked_child: end() lacks either half
// of acq_rel; has_ended() or wait_for_end() lacks acquire, or the latter release; a child that was
// taken back ends as one that was stolen.
#include <gyre/task/detail/fork_join.hpp>

#include <gyre/task/fork.hpp>
#include <gyre/task/when_all.hpp>
#include <tests/model/model.hpp>

#include <gtest/gtest.h>

#include <array>
#include <coroutine>
#include <cstddef>
#include <new>
#include <stdexcept>
#include <utility>

namespace {

namespace model = gyre::model;
using gyre::task;

// Each thread can offer one operation at a time.
struct one_offer_each final : gyre::executor, gyre::fork_queue {
  void post(gyre::operation&) noexcept override { model::assert_that(false, "nobody posts"); }
  bool running_here() const noexcept override { return true; }
  gyre::fork_queue* fork_queue_here() noexcept override { return this; }
  bool push(gyre::operation& op) noexcept override {
    if (places[here].load(std::memory_order_relaxed) != nullptr) return false;
    places[here].store(&op, std::memory_order_release);
    return true;
  }
  bool take_back(gyre::operation& op) noexcept override {
    gyre::operation* mine = &op;
    return places[here].compare_exchange_strong(mine, nullptr, std::memory_order_relaxed);
  }
  // Runs, as thread `as`, the operation that thread `from` offers, and what it then leaves itself.
  void steal(std::size_t from, std::size_t as) {
    here = as;
    if (gyre::operation* const stolen = take(from)) stolen->execute();
    run_own(as);
  }
  // Runs, as thread `as`, what it has left itself.
  void run_own(std::size_t as) {
    while (gyre::operation* const left = take(as)) left->execute();
  }
  gyre::operation* take(std::size_t from) {
    return places[from].exchange(nullptr, std::memory_order_acquire);
  }

  static inline thread_local std::size_t here = 0;
  std::array<model::atomic<gyre::operation*>, 3> places{};
};

// A wait that another thread ends.
struct gate {
  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> coroutine) noexcept {
    waiting = coroutine;
    suspended.wake();
  }
  void await_resume() const noexcept {}
  void open() {
    suspended.wait();
    gyre::detail::resume(waiting);
  }
  std::coroutine_handle<> waiting;
  model::event suspended;
};

// A coroutine that runs `parent` in a context that reports its end.
struct started {
  struct watched : gyre::task_context {
    int ends = 0;
  };
  started(gyre::executor& where, task<> work) : parent(std::move(work)) {
    context.where = &where;
    context.finished = [](gyre::task_context& self) noexcept -> std::coroutine_handle<> {
      ++static_cast<watched&>(self).ends;
      return std::noop_coroutine();
    };
  }
  void start() { gyre::detail::task_access::state(parent).start(context); }
  void check_end() const { model::assert_that(context.ends == 1, "the parent went on once"); }

  watched context;
  task<> parent;
};

task<> counts(int& runs) {
  ++runs;
  co_return;
}

task<> waits(gate& until, int& runs) {
  co_await until;
  ++runs;
}

task<> fails(int& runs) {
  ++runs;
  throw std::runtime_error("failed");
  co_return;
}

using run_counts = std::array<int, 3>;
constexpr run_counts each_once{1, 1, 1};

task<> all_run(run_counts& runs) {
  co_await gyre::when_all(counts(runs[0]), counts(runs[1]), counts(runs[2]));
  model::assert_that(runs == each_once, "each ran once, and is seen");
}

TEST(ForkJoinModel, ChildrenThatNeedNotWaitAndAThief) {
  const auto checked = model::check({.preemptions = model::unlimited}, [] {
    one_offer_each executor;
    run_counts runs{};
    started parent(executor, all_run(runs));
    {
      model::thread thief([&] { executor.steal(0, 1); });
      parent.start();
    }
    parent.check_end();
  });
  EXPECT_TRUE(checked) << checked;
}

TEST(ForkJoinModel, AThiefIsRobbedInTurn) {
  const auto checked = model::check({.preemptions = 3}, [] {
    one_offer_each executor;
    run_counts runs{};
    started parent(executor, all_run(runs));
    {
      model::thread one([&] { executor.steal(0, 1); });
      model::thread other([&] { executor.steal(1, 2); });
      parent.start();
    }
    parent.check_end();
  });
  EXPECT_TRUE(checked) << checked;
}

task<> first_waits(gate& until, run_counts& runs) {
  co_await gyre::when_all(waits(until, runs[0]), counts(runs[1]), counts(runs[2]));
  model::assert_that(runs == each_once, "each ran once, and is seen");
}

task<> last_waits(gate& until, run_counts& runs) {
  co_await gyre::when_all(counts(runs[0]), counts(runs[1]), waits(until, runs[2]));
  model::assert_that(runs == each_once, "each ran once, and is seen");
}

TEST(ForkJoinModel, AChildThatWaitsEndsOnAThirdThread) {
  for (const auto work : {first_waits, last_waits}) {
    const auto checked = model::check({.preemptions = 3}, [work] {
      one_offer_each executor;
      gate until;
      run_counts runs{};
      started parent(executor, work(until, runs));
      {
        model::thread thief([&] { executor.steal(0, 1); });
        model::thread opener([&] { until.open(); });
        parent.start();
      }
      parent.check_end();
    });
    EXPECT_TRUE(checked) << checked;
  }
}

task<> fails_later(gate& until, int& runs) {
  co_await until;
  ++runs;
  throw std::runtime_error("failed");
}

task<> first_and_last_wait(std::array<gate, 2>& until, run_counts& runs) {
  bool caught = false;
  try {
    co_await gyre::when_all(waits(until[0], runs[0]), counts(runs[1]),
                            fails_later(until[1], runs[2]));
  } catch (const std::runtime_error&) {
    caught = true;
  }
  model::assert_that(caught && runs == each_once, "the error, after all have ended");
}

TEST(ForkJoinModel, ChildrenOfTwoThreadsWaitAndOneFails) {
  const auto checked = model::check({.preemptions = 2}, [] {
    one_offer_each executor;
    std::array<gate, 2> until;
    run_counts runs{};
    started parent(executor, first_and_last_wait(until, runs));
    {
      model::thread thief([&] { executor.steal(0, 1); });
      model::thread one([&] { until[0].open(); });
      model::thread other([&] { until[1].open(); });
      parent.start();
    }
    parent.check_end();
  });
  EXPECT_TRUE(checked) << checked;
}

task<> all_fail(run_counts& runs) {
  bool caught = false;
  try {
    co_await gyre::when_all(fails(runs[0]), counts(runs[1]), fails(runs[2]));
  } catch (const std::runtime_error&) {
    caught = true;
  }
  model::assert_that(caught && runs == each_once, "one of the errors, after all have ended");
}

TEST(ForkJoinModel, ErrorsOnSeveralThreads) {
  const auto checked = model::check({.preemptions = 3}, [] {
    one_offer_each executor;
    run_counts runs{};
    started parent(executor, all_fail(runs));
    {
      model::thread thief([&] { executor.steal(0, 1); });
      parent.start();
    }
    parent.check_end();
  });
  EXPECT_TRUE(checked) << checked;
}

// Forked children.

task<> forks_one(run_counts& runs) {
  {
    auto child = co_await gyre::fork(counts(runs[0]));
    ++runs[1];
    co_await std::move(child);
    ++runs[2];
  }
  model::assert_that(runs == each_once, "each ran once, and is seen");
}

TEST(ForkJoinModel, AForkedChildAndAThief) {
  const auto checked = model::check({.preemptions = model::unlimited}, [] {
    one_offer_each executor;
    run_counts runs{};
    started parent(executor, forks_one(runs));
    {
      model::thread thief([&] { executor.steal(0, 1); });
      parent.start();
      executor.run_own(0);
    }
    parent.check_end();
  });
  EXPECT_TRUE(checked) << checked;
}

task<> forks_one_that_waits(gate& until, run_counts& runs) {
  {
    auto child = co_await gyre::fork(waits(until, runs[0]));
    ++runs[1];
    co_await child.join();
    ++runs[2];
  }
  model::assert_that(runs == each_once, "each ran once, and is seen");
}

TEST(ForkJoinModel, AForkedChildThatWaitsEndsOnAThirdThread) {
  const auto checked = model::check({.preemptions = 4}, [] {
    one_offer_each executor;
    gate until;
    run_counts runs{};
    started parent(executor, forks_one_that_waits(until, runs));
    {
      model::thread thief([&] { executor.steal(0, 1); });
      model::thread opener([&] { until.open(); });
      parent.start();
      executor.run_own(0);
    }
    parent.check_end();
  });
  EXPECT_TRUE(checked) << checked;
}

// The thief forks in turn; the parent awaits in the order of the forks.
task<> forks_forkers(run_counts& runs) {
  const auto forker = [](int& inner, int& outer) -> task<> {
    auto child = co_await gyre::fork(counts(inner));
    ++outer;
    co_await std::move(child);
    model::assert_that(inner == 1, "the inner child is seen");
  };
  auto child = co_await gyre::fork(forker(runs[0], runs[1]));
  auto other = co_await gyre::fork(fails(runs[2]));
  co_await std::move(child);
  bool caught = false;
  try {
    co_await std::move(other);
  } catch (const std::runtime_error&) {
    caught = true;
  }
  model::assert_that(caught && runs == each_once, "each ran once, and is seen");
}

TEST(ForkJoinModel, AForkedChildForksOnItsThief) {
  const auto checked = model::check({.preemptions = 3}, [] {
    one_offer_each executor;
    run_counts runs{};
    started parent(executor, forks_forkers(runs));
    {
      model::thread one([&] { executor.steal(0, 1); });
      model::thread other([&] { executor.steal(1, 2); });
      parent.start();
      executor.run_own(0);
    }
    parent.check_end();
  });
  EXPECT_TRUE(checked) << checked;
}

}  // namespace
