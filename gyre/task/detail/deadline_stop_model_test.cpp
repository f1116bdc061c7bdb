// SPDX-License-Identifier: Apache-2.0
// Model tests of a time limit that expires while the work under it ends, on an executor with many
// threads: the coroutine resumes exactly once, and nothing touches its frame afterwards.
//
// Each of these mutations, tried by hand, makes a test fail: wait_core::leave() lacks either half
// of acq_rel; cancel_timer() does not wait for the expiry; on_expiry() resumes a coroutine that
// does not wait for it, or outside of its executor.
#include <gyre/task/detail/deadline_stop.hpp>

#include <tests/model/model.hpp>

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <coroutine>
#include <cstddef>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <optional>

namespace {

namespace model = gyre::model;

// Every thread is one of its own; another one expires the timer at any time.
class any_thread final : public gyre::executor, public gyre::timer_service {
 public:
  void post(gyre::operation&) noexcept override { model::assert_that(false, "nobody posts"); }
  bool running_here() const noexcept override { return true; }
  gyre::timer_service* timers() noexcept override { return this; }

  void start_timer(gyre::timer_operation& timer, gyre::steady_time) noexcept override {
    expires_ = std::make_unique<model::thread>([this, &timer] {
      if (claim()) timer.expire();
    });
  }
  bool cancel_timer(gyre::timer_operation&) noexcept override { return claim(); }
  gyre::steady_time now() const noexcept override { return {}; }
  void join() { expires_.reset(); }

 private:
  bool claim() { return !claimed_.exchange(true, std::memory_order_acq_rel); }

  model::atomic<bool> claimed_{false};
  std::unique_ptr<model::thread> expires_;
};

// An executor whose timers expire outside of it, as those of a strand do. Each operation runs on a
// thread of its own.
class serial_threads final : public gyre::executor, public gyre::timer_service {
 public:
  void post(gyre::operation& op) noexcept override {
    const std::lock_guard lock(mutex_);
    model::assert_that(posts_ < runners_.size(), "the end of the work, and the expiry");
    runners_[posts_++].emplace([&op] { op.execute(); });
  }
  bool running_here() const noexcept override { return !is_outside; }
  gyre::timer_service* timers() noexcept override { return this; }

  void start_timer(gyre::timer_operation& timer, gyre::steady_time) noexcept override {
    expires_ = std::make_unique<model::thread>([this, &timer] {
      is_outside = true;
      if (claim()) timer.expire();
    });
  }
  bool cancel_timer(gyre::timer_operation&) noexcept override { return claim(); }
  gyre::steady_time now() const noexcept override { return {}; }
  void join() {
    expires_.reset();
    for (auto& each : runners_) each.reset();
  }

 private:
  static inline thread_local bool is_outside = false;
  bool claim() { return !claimed_.exchange(true, std::memory_order_acq_rel); }

  model::atomic<bool> claimed_{false};
  std::unique_ptr<model::thread> expires_;
  std::mutex mutex_;
  std::size_t posts_ = 0;
  std::array<std::optional<model::thread>, 2> runners_;
};

// The end of the work: by a thread of its own or, if it heeds them, by stops, within the request.
struct end_of_work {
  bool claim() { return !claimed.exchange(true, std::memory_order_acq_rel); }
  model::atomic<bool> claimed{false};
  bool heeds_stops = false;
  std::unique_ptr<model::thread> ends;
  int resumptions = 0;
  bool timed_out = false;
};

class limited_work final : gyre::detail::deadline_stop {
 public:
  explicit limited_work(end_of_work& origin) noexcept
      : deadline_stop(std::chrono::nanoseconds(1)), origin_(origin) {}
  ~limited_work() {}  // NOLINT: not defaulted, because of the union

  bool await_ready() const noexcept { return false; }
  template <class Promise>
  std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> awaiting) {
    return begin(awaiting);
  }
  bool await_resume() noexcept {
    if (origin_.heeds_stops) std::destroy_at(&on_stop_);
    return limit_came_first();
  }

 private:
  struct stop_function {
    limited_work* self;
    void operator()() const noexcept { self->end(self->origin_); }
  };
  using on_stop = gyre::inplace_stop_callback<stop_function>;
  void end(end_of_work& origin) noexcept {
    if (origin.claim()) stand_in_.resume();
  }
  std::coroutine_handle<> start_work(stand_in_handle stand_in) noexcept override {
    stand_in_ = stand_in;
    end_of_work& origin = origin_;  // soon this may be gone
    if (origin.heeds_stops) ::new (&on_stop_) on_stop(context().stop, stop_function{this});
    origin.ends = std::make_unique<model::thread>([this, &origin] { end(origin); });
    return std::noop_coroutine();
  }

  end_of_work& origin_;
  std::coroutine_handle<> stand_in_;
  union {
    on_stop on_stop_;  // without a flag, as it may resume the coroutine while it is constructed
  };
};

struct detached {
  struct promise_type : gyre::detail::promise_base {
    explicit promise_type(gyre::task_context& its, end_of_work&, model::event&) { context = &its; }
    detached get_return_object() noexcept { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() noexcept {}
    void unhandled_exception() { std::terminate(); }
  };
};

// The frame of this coroutine, on the heap, holds the limit: the checker finds every access after
// the end.
detached wait_for(gyre::task_context& context, end_of_work& origin, model::event& ended) {
  {
    limited_work limited(origin);
    origin.timed_out = co_await limited;
    model::assert_that(context.where->running_here(), "it resumes on its executor");
    ++origin.resumptions;
  }
  model::assert_that(!context.stop.stop_possible(), "the coroutine has its own stop token again");
  ended.wake();
}

template <class Executor>
void check_race(bool heeds_stops) {
  const auto checked = model::check({.preemptions = 2, .spurious_failures = 0}, [&] {
    Executor executor;
    gyre::task_context context;
    context.where = &executor;
    model::event ended;
    end_of_work origin;
    origin.heeds_stops = heeds_stops;
    wait_for(context, origin, ended);
    ended.wait();
    origin.ends.reset();
    executor.join();
    model::assert_that(origin.resumptions == 1, "it was resumed once");
  });
  EXPECT_TRUE(checked) << checked;
}

TEST(DeadlineStopModel, ExpiresWhileItsWorkEndsAndResumesOnce) { check_race<any_thread>(false); }
TEST(DeadlineStopModel, ExpiresWhileItsWorkEndsOrIsStoppedAndResumesOnce) {
  check_race<any_thread>(true);
}
TEST(DeadlineStopModel, ExpiresOutsideOfAStrandAndResumesOnItOnce) {
  check_race<serial_threads>(false);
}
TEST(DeadlineStopModel, ExpiresOutsideOfAStrandWhoseWorkIsStoppedAndResumesOnItOnce) {
  check_race<serial_threads>(true);
}

}  // namespace
