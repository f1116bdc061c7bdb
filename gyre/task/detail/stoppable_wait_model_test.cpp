// SPDX-License-Identifier: Apache-2.0
// Model tests of a stoppable wait, concurrently completed and stopped, on an executor with several
// threads: it resumes its coroutine exactly once, and nothing touches it afterwards.
//
// Each of these mutations, tried by hand, makes a test fail: wait_core::leave() lacks either half
// of acq_rel; stop() does not check for the event; start_here() leaves before the stop callback is
// set.
#include <gyre/task/detail/stoppable_wait.hpp>

#include <tests/model/model.hpp>

#include <gtest/gtest.h>

#include <array>
#include <coroutine>
#include <cstddef>
#include <exception>
#include <memory>
#include <optional>

namespace {

namespace model = gyre::model;
using gyre::inplace_stop_source;

// Runs each operation on a thread of its own, as an executor of many threads may.
class many_threads final : public gyre::executor {
 public:
  explicit many_threads(bool runs_here) : runs_here_(runs_here) {}
  void post(gyre::operation& op) noexcept override {
    model::assert_that(posts_ < runners_.size(), "at most a start, a stop and a resumption");
    runners_[posts_++].emplace([&op] { op.execute(); });
  }
  bool running_here() const noexcept override { return runs_here_; }
  // The last operation must have begun.
  void join() {
    for (auto& each : runners_) each.reset();
  }

 private:
  bool runs_here_;
  std::size_t posts_ = 0;
  std::array<std::optional<model::thread>, 3> runners_;
};

// An event that is completed or cancelled, by the first to claim it. Outlives the wait.
struct signal {
  bool claim() { return !claimed.exchange(true, std::memory_order_acq_rel); }
  model::atomic<bool> claimed{false};
  std::unique_ptr<model::thread> signaller;
  int ends = 0;
  bool completed = false;
};

class signalled_wait final : gyre::detail::stoppable_wait {
 public:
  signalled_wait(gyre::executor& home, gyre::task_context& context, signal& on)
      : home_(home), coroutine_context_(context), signal_(on) {}
  ~signalled_wait() { model::assert_that(resumed_, "resumed before its end"); }

  bool await_ready() const noexcept { return false; }
  bool await_suspend(std::coroutine_handle<> awaiting) noexcept {
    return begin(home_, awaiting, coroutine_context_);
  }
  bool await_resume() noexcept {
    end();
    resumed_ = true;
    return completed_;
  }

 private:
  bool start() noexcept override {
    signal_.signaller = std::make_unique<model::thread>([this, &on = signal_] {
      if (!on.claim()) return;
      completed_ = true;
      complete_event();
    });
    return false;
  }
  bool cancel() noexcept override { return signal_.claim(); }

  gyre::executor& home_;
  gyre::task_context& coroutine_context_;
  signal& signal_;
  bool completed_ = false;
  bool resumed_ = false;
};

struct detached {
  struct promise_type {
    detached get_return_object() noexcept { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() noexcept {}
    void unhandled_exception() { std::terminate(); }
  };
};

// The frame of this coroutine, on the heap, holds the wait: the checker finds every access after
// the end.
detached wait_for(signal& on, gyre::executor& home, gyre::task_context& context,
                  model::event& ended) {
  {
    signalled_wait wait(home, context, on);
    on.completed = co_await wait;
    ++on.ends;
  }
  ended.wake();
}

// Parameter: the threads that begin the wait and stop it.
enum class threads { of_home, of_others };

void check_race(threads callers, bool coroutine_is_elsewhere) {
  const auto checked = model::check({.preemptions = 2, .spurious_failures = 0}, [&] {
    many_threads home(callers == threads::of_home);
    many_threads elsewhere(false);
    inplace_stop_source source;
    gyre::task_context context;
    context.where = coroutine_is_elsewhere ? &elsewhere : &home;
    context.stop = source.get_token();
    model::event ended;
    signal on;
    {
      model::thread canceller([&] { source.request_stop(); });
      wait_for(on, home, context, ended);
      ended.wait();
    }
    if (on.signaller) on.signaller->join();
    home.join();
    elsewhere.join();
    model::assert_that(on.ends == 1, "it ended once");
  });
  EXPECT_TRUE(checked) << checked;
}

TEST(StoppableWaitModel, StoppedAtHomeEndsOnceWhereItsCoroutineIsAtHome) {
  check_race(threads::of_home, false);
}
TEST(StoppableWaitModel, StoppedAtHomeEndsOnceWhereItsCoroutineIsElsewhere) {
  check_race(threads::of_home, true);
}
TEST(StoppableWaitModel, StoppedFromOutsideEndsOnceWhereItsCoroutineIsAtHome) {
  check_race(threads::of_others, false);
}
TEST(StoppableWaitModel, StoppedFromOutsideEndsOnceWhereItsCoroutineIsElsewhere) {
  check_race(threads::of_others, true);
}

}  // namespace
