// SPDX-License-Identifier: Apache-2.0
// Model tests of a call on another thread, begun, ended and stopped concurrently: the coroutine
// resumes exactly once, with the result if and only if the call was made; nothing of the wait is
// touched or leaked after its end, even if it is destroyed before.
//
// Each of these mutations, tried by hand, makes a test fail: the call begins by a load and a store,
// or regardless of the state; the coroutine is resumed regardless of the result of give_up() or
// begin(); give_up() does not withdraw the ticket while the ticket begins; a share of the ticket is
// not released; the stop callback stays registered; the destructor does not wait for a call that
// has been made, or for its wake-up.
#include <gyre/io/detail/blocking_call.hpp>

#include <tests/model/model.hpp>

#include <gtest/gtest.h>

#include <coroutine>
#include <functional>
#include <memory>
#include <new>
#include <utility>

namespace gyre::io::detail {

executor& default_pool() { return inline_executor(); }

}  // namespace gyre::io::detail

namespace {

namespace model = gyre::model;
using gyre::inplace_stop_source;
using gyre::inplace_stop_token;
using gyre::io::detail::blocking_work;

struct file_steps final : blocking_work {
  void run() noexcept override { made = true; }
  bool made = false;
};

// Runs its only operation on a thread of its own.
struct worker final : gyre::executor {
  void post(gyre::operation& op) noexcept override {
    thread = std::make_unique<model::thread>([&op] { op.execute(); });
  }
  bool running_here() const noexcept override { return false; }
  std::unique_ptr<model::thread> thread;
};

// A queue that no thread serves at present.
struct shelf final : gyre::executor {
  void post(gyre::operation& op) noexcept override { left = &op; }
  bool running_here() const noexcept override { return false; }
  gyre::operation* left = nullptr;
};

// Runs its operation on the thread that waits for it.
struct bell final : gyre::executor {
  void post(gyre::operation& op) noexcept override {
    left = &op;
    rung.wake();
  }
  bool running_here() const noexcept override { return true; }
  void wait() {
    rung.wait();
    std::exchange(left, nullptr)->execute();
  }
  model::event rung;
  gyre::operation* left = nullptr;
};

// Resumes on the thread that posts it.
struct on_the_spot final : gyre::executor {
  void post(gyre::operation& op) noexcept override { op.execute(); }
  bool running_here() const noexcept override { return true; }
};

struct fake_promise : gyre::detail::promise_base {};

// The memory to which a coroutine's handle points, in all compilers; resuming it calls a function.
struct fake_frame {
  void (*resume)(void* frame) = [](void* frame) { static_cast<fake_frame*>(frame)->go_on(); };
  void (*destroy)(void* frame) = nullptr;
  fake_promise promise{};
  std::function<void()> go_on = [] {};
};

// A coroutine that awaits a call, reduced to its interface to the call. On the heap, where the
// checker finds every access after its end.
struct caller {
  caller(gyre::executor& pool, gyre::executor& where, inplace_stop_token stop, file_steps& steps)
      : call(&pool, steps, true) {
    context.where = &where;
    context.stop = stop;
    frame.promise.context = &context;
  }
  bool suspend() {
    return call.begin(std::coroutine_handle<fake_promise>::from_promise(frame.promise), context);
  }
  // True if the call was made and the wait was not cancelled.
  bool has_value() { return call.end(); }

  gyre::task_context context;
  fake_frame frame;
  gyre::io::detail::blocking_call call;
};

TEST(BlockingCallModel, TheResultArrives) {
  const auto checked = model::check({.preemptions = model::unlimited}, [] {
    worker pool;
    bell home;
    file_steps steps;
    {
      const auto waiting = std::make_unique<caller>(pool, home, inplace_stop_token(), steps);
      if (waiting->suspend()) home.wait();
      model::assert_that(waiting->has_value() && steps.made, "made");
    }
  });
  EXPECT_TRUE(checked) << checked;
}

TEST(BlockingCallModel, TheCallAndAStopEndItOnce) {
  const auto checked = model::check({.preemptions = 2, .spurious_failures = 0}, [] {
    inplace_stop_source source;
    worker pool;
    bell home;
    file_steps steps;
    bool has_value = false;
    {
      model::thread canceller([&] { source.request_stop(); });
      const auto waiting = std::make_unique<caller>(pool, home, source.get_token(), steps);
      if (waiting->suspend()) home.wait();
      has_value = waiting->has_value();
    }
    pool.thread.reset();
    model::assert_that(has_value == steps.made, "who was first decided");
  });
  EXPECT_TRUE(checked) << checked;
}

TEST(BlockingCallModel, AStopEndsItWhileThePoolIsBusy) {
  const auto checked = model::check({.preemptions = 3, .spurious_failures = 0}, [] {
    inplace_stop_source source;
    shelf pool;
    bell home;
    file_steps steps;
    {
      model::thread canceller([&] { source.request_stop(); });
      const auto waiting = std::make_unique<caller>(pool, home, source.get_token(), steps);
      if (waiting->suspend()) home.wait();
      model::assert_that(!waiting->has_value(), "cancelled");
    }
    if (pool.left != nullptr) pool.left->execute();
    model::assert_that(!steps.made, "not made");
  });
  EXPECT_TRUE(checked) << checked;
}

TEST(BlockingCallModel, TheCoroutineMayEndBeforeItsSuspensionReturns) {
  const auto checked = model::check({.preemptions = 2, .spurious_failures = 0}, [] {
    inplace_stop_source source;
    worker pool;
    on_the_spot home;
    file_steps steps;
    bool has_value = false;
    int ends = 0;
    {
      auto* waiting = new caller(pool, home, source.get_token(), steps);
      const std::function<void()> go_on = waiting->frame.go_on = [&] {
        ++ends;
        has_value = waiting->has_value();
        delete std::exchange(waiting, nullptr);
      };
      model::thread canceller([&] { source.request_stop(); });
      if (!waiting->suspend()) go_on();
    }
    pool.thread.reset();
    model::assert_that(ends == 1, "goes on once");
    model::assert_that(has_value == steps.made, "who was first decided");
  });
  EXPECT_TRUE(checked) << checked;
}

TEST(BlockingCallModel, TheCoroutineMayBeDestroyedAtAnyTime) {
  const auto checked = model::check({.preemptions = 3, .spurious_failures = 0}, [] {
    worker pool;
    file_steps steps;
    {
      const auto home = std::make_unique<shelf>();
      auto waiting = std::make_unique<caller>(pool, *home, inplace_stop_token(), steps);
      waiting->frame.go_on = [] { model::assert_that(false, "went on"); };
      model::assert_that(waiting->suspend(), "waits");
      waiting.reset();
      if (home->left != nullptr) home->left->execute();
    }
    pool.thread.reset();
  });
  EXPECT_TRUE(checked) << checked;
}

}  // namespace
