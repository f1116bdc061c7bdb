// SPDX-License-Identifier: Apache-2.0
// Model tests of the end of a submitted task: a waiter is woken once, the last side frees the
// state, and nothing touches the state after that.
//
// Each of these mutations, tried by hand, makes a test fail: finish() or abandon() lacks either
// half of acq_rel, await() its release, cancel_wait() or is_finished() its acquire; finish() loads
// and stores, does not wake, reads the word again before it wakes, or does not free; finish() and
// cancel_wait() both resume, or resume a coroutine that does not wait yet; await() overlooks
// either; a thread sleeps without setting its bit, or after the task's end; abandon() never frees.
#include <gyre/pool/future.hpp>

#include <gyre/base/detail/futex.hpp>
#include <gyre/pool/detail/helper.hpp>
#include <tests/model/model.hpp>

#include <gtest/gtest.h>

#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <system_error>
#include <utility>

namespace model = gyre::model;

// futex(2), for one sleeper: checks the word and sleeps in one step, as seen by wakers, which know
// the word by its address alone. Every deadline but steady_time::max() has passed.
namespace {
std::mutex kernel;
const void* sleeps_on = nullptr;
model::event wakeup;
}  // namespace

void gyre::detail::futex_wait_until(const atomic<std::uint32_t>& word, std::uint32_t expected,
                                    steady_time deadline) noexcept {
  if (deadline != steady_time::max()) return;
  {
    const std::lock_guard bucket(kernel);
    if (word.load(std::memory_order_relaxed) != expected) return;
    sleeps_on = &word;
  }
  wakeup.wait();
}

void gyre::detail::futex_wake_one(const atomic<std::uint32_t>* word) noexcept {
  const std::lock_guard bucket(kernel);
  if (sleeps_on != word) return;
  sleeps_on = nullptr;
  wakeup.wake();
}

namespace {

using gyre::future;
using gyre::inplace_stop_source;
using gyre::inplace_stop_token;
using gyre::detail::make_future_task;

// The task writes `written`, and the waiter reads it.
auto submit(int& written) {
  return make_future_task([&written] {
    written = 42;
    return 42;
  });
}

TEST(FutureStateModel, ThreadThatWaitsGetsTheResult) {
  const auto checked = model::check({.preemptions = model::unlimited}, [] {
    int written = 0;
    auto made = submit(written);
    const model::thread worker([&] { made.task.execute(); });
    model::assert_that(made.result.get() == 42 && written == 42, "the result arrived");
  });
  EXPECT_TRUE(checked) << checked;
  EXPECT_TRUE(checked.exhaustive);
}

TEST(FutureStateModel, ThreadThatWaitsLearnsOfADrop) {
  const auto checked = model::check({.preemptions = model::unlimited}, [] {
    int written = 0;
    auto made = submit(written);
    const model::thread worker([&] { made.task.drop(); });
    try {
      made.result.get();
      model::assert_that(false, "there is no result");
    } catch (const std::system_error&) {
    }
  });
  EXPECT_TRUE(checked) << checked;
}

TEST(FutureStateModel, FutureThatIsDroppedLeavesNothing) {
  const auto checked = model::check({.preemptions = model::unlimited}, [] {
    int written = 0;
    auto made = submit(written);
    {
      const model::thread worker([&] { made.task.execute(); });
      made.result = {};
    }
    model::assert_that(written == 42, "the task went on");
  });
  EXPECT_TRUE(checked) << checked;
  EXPECT_TRUE(checked.exhaustive);
}

// The thread checks, gives up, and waits again: the sleeper's bit is set and cleared.
TEST(FutureStateModel, ThreadMaySleepInSteps) {
  const auto checked = model::check({.preemptions = 3}, [] {
    struct idle final : gyre::detail::helper {
      bool help_once() noexcept override {
        model::yield();
        return false;
      }
    } helper;
    int written = 0;
    auto made = submit(written);
    const model::thread worker([&] { made.task.execute(); });
    {
      const gyre::detail::helping_scope helps(helper);
      made.result.wait();
    }
    model::assert_that(made.result.get() == 42, "the result arrived");
  });
  EXPECT_TRUE(checked) << checked;
}

// Wakes the thread whose turn it is, instead of resuming a coroutine.
struct bell final : gyre::executor {
  void post(gyre::operation&) noexcept override { rung.wake(); }
  bool running_here() const noexcept override { return true; }
  model::event rung;
};

struct fake_promise : gyre::detail::promise_base {};

// A coroutine that awaits a future, reduced to its interface to the future. It is on the heap,
// where the checker finds every access after its end.
struct caller {
  caller(future<int> result, gyre::executor& where, inplace_stop_token stop)
      : awaiter(std::move(result).operator co_await()) {
    context.where = &where;
    context.stop = stop;
    promise.context = &context;
  }
  bool suspend() {
    return !awaiter.await_ready() &&
           awaiter.await_suspend(std::coroutine_handle<fake_promise>::from_promise(promise));
  }
  gyre::task_context context;
  fake_promise promise{};
  gyre::detail::future_state_awaiter<int> awaiter;
};

// Returns the result, or nothing if the wait was cancelled.
std::optional<int> await(future<int> result, inplace_stop_token stop) {
  bell where;
  const auto coroutine = std::make_unique<caller>(std::move(result), where, stop);
  if (coroutine->suspend()) where.rung.wait();
  try {
    return coroutine->awaiter.await_resume();
  } catch (const gyre::operation_cancelled&) {
    return {};
  }
}

TEST(FutureStateModel, CoroutineThatWaitsGetsTheResult) {
  const auto checked = model::check({.preemptions = model::unlimited}, [] {
    int written = 0;
    auto made = submit(written);
    const model::thread worker([&] { made.task.execute(); });
    model::assert_that(await(std::move(made.result), {}) == 42 && written == 42, "it arrived");
  });
  EXPECT_TRUE(checked) << checked;
  EXPECT_TRUE(checked.exhaustive);
}

// Resumes the coroutine, which then ends, on the posting thread.
struct on_the_spot final : gyre::executor {
  void post(gyre::operation&) noexcept override { go_on(); }
  bool running_here() const noexcept override { return true; }
  std::function<void()> go_on;
};

TEST(FutureStateModel, GoesOnWithAllThatItDidBeforeItWaited) {
  const auto checked = model::check({.preemptions = 3}, [] {
    int written = 0;
    auto made = submit(written);
    on_the_spot workers_thread;
    bool arrived = false;
    auto* const waiting = new caller(std::move(made.result), workers_thread, {});
    workers_thread.go_on = [&] {
      arrived = waiting->awaiter.await_resume() == 42;
      delete waiting;
    };
    {
      const model::thread worker([&] { made.task.execute(); });
      if (!waiting->suspend()) workers_thread.go_on();
    }
    model::assert_that(arrived, "it arrived");
  });
  EXPECT_TRUE(checked) << checked;
}

TEST(FutureStateModel, GoesOnWhereItIsStoppedWithAllThatItDidBefore) {
  const auto checked = model::check({.preemptions = 3}, [] {
    int written = 0;
    inplace_stop_source source;
    auto made = submit(written);
    on_the_spot stoppers_thread;
    bool cancelled = false;
    auto* const waiting = new caller(std::move(made.result), stoppers_thread, source.get_token());
    stoppers_thread.go_on = [&] {
      try {
        waiting->awaiter.await_resume();
      } catch (const gyre::operation_cancelled&) {
        cancelled = true;
      }
      delete waiting;
    };
    {
      const model::thread stopper([&] { source.request_stop(); });
      if (!waiting->suspend()) stoppers_thread.go_on();
    }
    model::assert_that(cancelled, "it was cancelled");
    made.task.execute();
  });
  EXPECT_TRUE(checked) << checked;
}

TEST(FutureStateModel, EndAndStopResumeACoroutineOnce) {
  const auto checked = model::check({.preemptions = 2, .spurious_failures = 0}, [] {
    int written = 0;
    inplace_stop_source source;
    auto made = submit(written);
    {
      const model::thread worker([&] { made.task.execute(); });
      const model::thread stopper([&] { source.request_stop(); });
      const auto result = await(std::move(made.result), source.get_token());
      model::assert_that(!result || *result == 42, "the result, or none");
    }
    model::assert_that(written == 42, "the task went on");
  });
  EXPECT_TRUE(checked) << checked;
}

TEST(FutureStateModel, CoroutineThatIsDestroyedLeavesNothing) {
  const auto checked = model::check({.preemptions = model::unlimited}, [] {
    int written = 0;
    auto made = submit(written);
    {
      bell where;
      const auto coroutine =
          std::make_unique<caller>(std::move(made.result), where, inplace_stop_token());
      model::assert_that(coroutine->suspend(), "it waits");
    }
    model::thread worker([&] { made.task.execute(); });
    worker.join();
    model::assert_that(written == 42, "the task went on");
  });
  EXPECT_TRUE(checked) << checked;
}

}  // namespace
