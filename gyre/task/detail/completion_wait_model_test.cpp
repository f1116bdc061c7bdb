// SPDX-License-Identifier: Apache-2.0
// Model tests of the wait for an operation that completes while it is started, or later, on another
// thread: the coroutine is resumed exactly once, sees the outcome, and nothing of the wait is
// touched afterwards.
//
// Each of these mutations, tried by hand, makes a test fail: wait_core::leave() lacks either half
// of acq_rel; complete() posts always, or never.
#include <gyre/task/detail/completion_wait.hpp>

#include <tests/model/model.hpp>

#include <gtest/gtest.h>

#include <coroutine>
#include <functional>
#include <memory>

namespace {

namespace model = gyre::model;

// Resumes the coroutine, which then ends, on the posting thread.
struct on_the_spot final : gyre::executor {
  void post(gyre::operation&) noexcept override { go_on(); }
  bool running_here() const noexcept override { return true; }
  std::function<void()> go_on;
};

// On the heap, where the checker finds every access after its end.
struct waiting_coroutine : gyre::detail::completion_wait {
  explicit waiting_coroutine(gyre::executor& where) {
    begin(std::noop_coroutine(), where);
    written_before = 1;
  }
  using completion_wait::begin_wait;
  using completion_wait::complete;
  int written_before = 0;
  int outcome = 0;
};

// One thread starts the operation, another completes it.
void start_and_complete() {
  on_the_spot where;
  int resumed = 0;
  auto* waiting = new waiting_coroutine(where);
  where.go_on = [&] {
    ++resumed;
    model::assert_that(waiting->outcome == 42, "the outcome arrived");
    model::assert_that(waiting->written_before == 2, "what the coroutine wrote is there");
    delete waiting;
  };
  {
    model::thread operation([=] {
      waiting->outcome = 42;
      waiting->complete();
    });
    waiting->written_before = 2;
    if (!waiting->begin_wait()) where.go_on();
  }
  model::assert_that(resumed == 1, "the coroutine went on once");
}

TEST(CompletionWaitModel, GoesOnOnceWithTheOutcome) {
  const auto checked = model::check({.preemptions = model::unlimited}, start_and_complete);
  EXPECT_TRUE(checked) << checked;
}

TEST(CompletionWaitModel, CompletionWithinTheStartNeedsNoExecutor) {
  const auto checked = model::check({}, [] {
    on_the_spot where;
    where.go_on = [] { model::assert_that(false, "nothing is posted"); };
    const auto waiting = std::make_unique<waiting_coroutine>(where);
    waiting->complete();
    model::assert_that(!waiting->begin_wait(), "completed");
  });
  EXPECT_TRUE(checked) << checked;
}

}  // namespace
