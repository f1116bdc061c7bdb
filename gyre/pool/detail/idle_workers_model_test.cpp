// SPDX-License-Identifier: Apache-2.0
//
// Model tests of the sleep of a pool's workers, within bounds: no worker sleeps through a task, and
// tasks that need each other get a worker each.
//
// Each of these mutations, tried by hand, makes a test fail: the light fence is omitted; so is a
// notifier's full fence; park() has no fence, or a full one where the workers were busy; a worker
// that falls asleep has the heavy fence only if they stay busy; a notifier relies on a searcher
// without a read-modify-write of the state; park() does not look for work again; the last searcher
// that found work wakes no worker; a notifier does not check again under the lock whether a worker
// searches; a worker ends its sleep without checking whether it was notified.
#include <gyre/pool/detail/idle_workers.hpp>

#include <gyre/base/atomic.hpp>
#include <gyre/base/detail/futex.hpp>
#include <tests/model/model.hpp>

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>

// futex(2) in the model: the sleeper polls the word, so a wake-up needs no call.
namespace gyre::detail {
void futex_wait_until(const atomic<std::uint32_t>& word, std::uint32_t expected,
                      steady_time /*deadline*/) noexcept {
  sleep_while(word, expected);
}
void futex_wake_one(const atomic<std::uint32_t>* /*word*/) noexcept {}
}  // namespace gyre::detail

namespace {

namespace model = gyre::model;
using gyre::detail::idle_workers;
using gyre::detail::parker;

enum class chain { always, if_there_is_more };

// A pool reduced to the protocol. Each task has a flag of its own instead of a queue, whose memory
// order would hide errors of the protocol. The worker that runs the last task ends the others; if a
// task is missed no worker does, which the checker reports as a deadlock.
template <int Tasks>
struct pool {
  // The workers are busy from the first notification on, or hardly ever.
  pool(std::size_t workers, bool soon_busy)
      : idle(workers, soon_busy ? 1 : idle_workers::default_busy_threshold) {}

  void post(std::size_t task) {
    ready[task].store(true, std::memory_order_release);
    idle.notify();
  }
  bool has_work() const {
    for (const auto& each : ready) {
      if (each.load(std::memory_order_acquire)) return true;
    }
    return over.load(std::memory_order_acquire);
  }
  bool take() {
    for (auto& each : ready) {
      bool expected = true;
      if (each.load(std::memory_order_relaxed) &&
          each.compare_exchange_strong(expected, false, std::memory_order_acquire,
                                       std::memory_order_relaxed)) {
        return true;
      }
    }
    return false;
  }
  void run_task() {
    const int running = started.fetch_add(1, std::memory_order_relaxed) + 1;
    while (tasks_meet && started.load(std::memory_order_relaxed) != Tasks) model::yield();
    if (running != Tasks) return;
    over.store(true, std::memory_order_release);
    idle.notify_all();
  }
  void work() {
    parker me;
    while (!over.load(std::memory_order_acquire)) {
      if ((me.is_searching() || idle.start_searching(me)) && take()) {
        if (chaining == chain::always) {
          idle.end_search(me);
        } else {
          idle.end_search(me, [this] { return has_work(); });
        }
        run_task();
        continue;
      }
      static_cast<void>(idle.park(me, [this] { return has_work(); }));
    }
    idle.end_search(me);
  }
  void check_awake() {
    model::assert_that(started.load(std::memory_order_relaxed) == Tasks, "each task ran once");
    model::assert_that(idle.sleepers() == 0 && idle.searchers() == 0, "nobody is left behind");
  }

  chain chaining = chain::always;
  bool tasks_meet = false;
  idle_workers idle;
  std::array<gyre::detail::atomic<bool>, Tasks> ready{};
  gyre::detail::atomic<int> started{0};
  gyre::detail::atomic<bool> over{false};
};

class IdleWorkersModel : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Each, IdleWorkersModel, ::testing::Bool(),
                         [](const auto& soon_busy) { return soon_busy.param ? "busy" : "quiet"; });

TEST_P(IdleWorkersModel, NoTaskIsSleptThrough) {
  const auto checked = model::check({.preemptions = 4}, [] {
    pool<1> tested(1, GetParam());
    {
      model::thread producer([&] { tested.post(0); });
      tested.work();
    }
    tested.check_awake();
  });
  EXPECT_TRUE(checked) << checked;
}

TEST_P(IdleWorkersModel, ASearcherThatGivesUpAsWorkArrivesLooksOnceMore) {
  const auto checked = model::check({.preemptions = 3}, [] {
    pool<2> tested(1, GetParam());
    {
      model::thread producer([&] {
        tested.post(0);
        tested.post(1);
      });
      tested.work();
    }
    tested.check_awake();
  });
  EXPECT_TRUE(checked) << checked;
}

TEST_P(IdleWorkersModel, TwoProducersAndTwoWorkersMissNothing) {
  const auto checked = model::check({.preemptions = 1, .stale_reads = 1}, [] {
    pool<2> tested(2, GetParam());
    {
      model::thread one([&] { tested.post(0); });
      model::thread other([&] { tested.post(1); });
      model::thread worker([&] { tested.work(); });
      tested.work();
    }
    tested.check_awake();
  });
  EXPECT_TRUE(checked) << checked;
}

// Each task waits for the other to run: were the second worker not woken, it would wait for ever.
void check_tasks_meet(chain chaining, bool soon_busy) {
  const auto checked = model::check({.preemptions = 2, .stale_reads = 1}, [=] {
    pool<2> tested(2, soon_busy);
    tested.chaining = chaining;
    tested.tasks_meet = true;
    {
      model::thread one([&] { tested.work(); });
      model::thread other([&] { tested.work(); });
      tested.post(0);
      tested.post(1);
    }
    tested.check_awake();
  });
  EXPECT_TRUE(checked) << checked;
}

TEST_P(IdleWorkersModel, TwoTasksWakeTwoWorkers) { check_tasks_meet(chain::always, GetParam()); }

TEST_P(IdleWorkersModel, TwoTasksWakeTwoWorkersIfTheFirstLooksForMore) {
  check_tasks_meet(chain::if_there_is_more, GetParam());
}

TEST_P(IdleWorkersModel, ADeadlineThatPassesAsANotificationComesLosesNeither) {
  const auto checked = model::check({.preemptions = model::unlimited}, [] {
    idle_workers idle(2, GetParam() ? 1 : idle_workers::default_busy_threshold);
    gyre::detail::atomic<bool> work{false};
    parker me;
    bool searching = false;
    {
      model::thread producer([&] {
        work.store(true, std::memory_order_release);
        idle.notify();
      });
      searching =
          idle.park(me, [&] { return work.load(std::memory_order_acquire); }, gyre::steady_time{});
    }
    model::assert_that(idle.sleepers() == 0, "it is up");
    model::assert_that(idle.searchers() == (searching ? 1 : 0), "it knows whether it searches");
    model::assert_that(searching || idle.wakes() == 0, "who was woken searches");
  });
  EXPECT_TRUE(checked) << checked;
  EXPECT_TRUE(checked.exhaustive);
}

TEST_P(IdleWorkersModel, OneOfTwoNotifiersWakes) {
  const auto checked = model::check({.preemptions = 1, .stale_reads = 1}, [] {
    idle_workers idle(2, GetParam() ? 1 : idle_workers::default_busy_threshold);
    gyre::detail::atomic<bool> over{false};
    const auto sleep = [&] {
      parker me;
      static_cast<void>(idle.park(me, [&] { return over.load(std::memory_order_acquire); }));
    };
    {
      model::thread one(sleep);
      model::thread other(sleep);
      while (idle.sleepers() != 2) model::yield();
      {
        model::thread notifier([&] { idle.notify(); });
        idle.notify();
      }
      model::assert_that(idle.wakes() == 1 && idle.searchers() == 1, "one was woken");
      over.store(true, std::memory_order_release);
      idle.notify_all();
    }
    model::assert_that(idle.sleepers() == 0 && idle.searchers() == 2, "all were woken");
  });
  EXPECT_TRUE(checked) << checked;
}

}  // namespace
