// SPDX-License-Identifier: Apache-2.0
// Model tests of a wait for a callback, concurrently reported, stopped and broken: it ends exactly
// once, and nothing of it is touched or leaked after its end.
//
// Each of these mutations, tried by hand, makes a test fail: wait_core::leave() lacks either half
// of acq_rel; release() or end_completion() is relaxed; wait_core::claim() loads and stores.
#include <gyre/task/from_callback.hpp>

#include <tests/model/model.hpp>

#include <gtest/gtest.h>

#include <coroutine>
#include <cstddef>
#include <functional>
#include <memory>
#include <new>
#include <system_error>
#include <utility>

namespace {

namespace model = gyre::model;
using gyre::completion;
using gyre::inplace_stop_source;
using gyre::inplace_stop_token;

// Wakes the thread whose turn it is, instead of resuming a coroutine.
struct bell final : gyre::executor {
  void post(gyre::operation&) noexcept override { rung.wake(); }
  bool running_here() const noexcept override { return true; }
  model::event rung;
};

struct fake_promise : gyre::detail::promise_base {};

enum class ending { value, cancelled, broken };

// A coroutine that awaits from_callback(start), reduced to its interface to the wait. It is on the
// heap, where the checker finds every access after its end.
template <class Start>
struct caller {
  caller(Start start, inplace_stop_token stop)
      : operation(gyre::from_callback<int>(std::move(start))) {
    context.where = &where;
    context.stop = stop;
    promise.context = &context;
  }
  bool suspend() {
    return operation.await_suspend(std::coroutine_handle<fake_promise>::from_promise(promise));
  }
  ending wait() {
    if (suspend()) where.rung.wait();
    try {
      model::assert_that(operation.await_resume() == 42, "the value arrived");
      return ending::value;
    } catch (const gyre::operation_cancelled&) {
      return ending::cancelled;
    } catch (const std::system_error&) {
      return ending::broken;
    }
  }
  bell where;
  gyre::task_context context;
  fake_promise promise{};
  decltype(gyre::from_callback<int>(std::declval<Start>())) operation;
};

template <class Start>
ending wait(Start start, inplace_stop_token stop) {
  return std::make_unique<caller<Start>>(std::move(start), stop)->wait();
}

TEST(FromCallbackModel, ReportFromAnotherThreadArrives) {
  const auto checked = model::check({.preemptions = model::unlimited}, [] {
    std::unique_ptr<model::thread> reporter;
    const ending end = wait(
        [&](completion<int> done) {
          reporter = std::make_unique<model::thread>([done] { done.set_value(42); });
        },
        {});
    model::assert_that(end == ending::value, "reported");
  });
  EXPECT_TRUE(checked) << checked;
}

// Resumes the coroutine, which then ends, on the posting thread.
struct on_the_spot final : gyre::executor {
  void post(gyre::operation&) noexcept override { go_on(); }
  bool running_here() const noexcept override { return true; }
  std::function<void()> go_on;
};

TEST(FromCallbackModel, GoesOnWithAllThatItDidBeforeItWaited) {
  const auto checked = model::check({.preemptions = 2, .spurious_failures = 0}, [] {
    inplace_stop_source source;
    on_the_spot reporters_thread;
    bool arrived = false;
    std::unique_ptr<model::thread> reporter;
    auto start = [&](completion<int> done) {
      reporter = std::make_unique<model::thread>([done] { done.set_value(42); });
    };
    auto* waiting = new caller<decltype(start)>(start, source.get_token());
    waiting->context.where = &reporters_thread;
    reporters_thread.go_on = [&] {
      arrived = waiting->operation.await_resume() == 42;
      delete waiting;
    };
    if (!waiting->suspend()) reporters_thread.go_on();
    reporter.reset();
    model::assert_that(arrived, "the value arrived");
  });
  EXPECT_TRUE(checked) << checked;
}

TEST(FromCallbackModel, ReportAndStopEndItOnce) {
  const auto checked = model::check({.preemptions = 2, .spurious_failures = 0}, [] {
    inplace_stop_source source;
    std::unique_ptr<model::thread> reporter;
    bool was_first = false;
    ending end{};
    {
      model::thread canceller([&] { source.request_stop(); });
      end = wait(
          [&](completion<int> done) {
            reporter = std::make_unique<model::thread>(
                [done, &was_first] { was_first = done.set_value(42); });
          },
          source.get_token());
    }
    const bool started = reporter != nullptr;
    reporter.reset();
    model::assert_that(end == (started && was_first ? ending::value : ending::cancelled),
                       "who was first decided");
  });
  EXPECT_TRUE(checked) << checked;
}

TEST(FromCallbackModel, LastCompletionOfSeveralThreadsBreaksThePromise) {
  const auto checked = model::check({.preemptions = 2, .spurious_failures = 0}, [] {
    std::unique_ptr<model::thread> one;
    std::unique_ptr<model::thread> other;
    const ending end = wait(
        [&](completion<int> done) {
          const auto drop = [](completion<int> copy) {
            return std::make_unique<model::thread>(
                [kept = std::make_shared<completion<int>>(std::move(copy))]() mutable {
                  kept.reset();
                });
          };
          one = drop(done);
          other = drop(std::move(done));
        },
        {});
    model::assert_that(end == ending::broken, "nobody reported");
  });
  EXPECT_TRUE(checked) << checked;
}

}  // namespace
