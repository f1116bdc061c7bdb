// SPDX-License-Identifier: Apache-2.0
//
// Model tests of the whole loop, with a poller made for the model, while other threads post to it
// and stop it: under no schedule does the loop sleep through a call.
//
// Each of these mutations, tried by hand, makes a test fail: the loop does not check its inbox or
// stop() again before it sleeps; post() or stop() does not notify; a fence of the gate is omitted.
#include <gyre/exec/loop.hpp>

#include <gyre/base/intrusive_queue.hpp>
#include <gyre/base/operation.hpp>
#include <gyre/exec/inbox/sharded.hpp>
#include <tests/model/model.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

namespace {

namespace model = gyre::model;

// Waits on a model::event without a deadline: a missed wake() is a deadlock. Its clock advances by
// a nanosecond at each read.
class model_poller final : public gyre::poller {
 public:
  explicit model_poller(std::size_t descriptors = 0) noexcept : descriptors_(descriptors) {}

  gyre::steady_time now() const noexcept override {
    return gyre::steady_time{std::chrono::nanoseconds{++now_}};
  }
  std::size_t wait(gyre::steady_time deadline) override {
    if (deadline == gyre::steady_time::min()) return 0;
    model::assert_that(deadline == gyre::steady_time::max(), "only waits for calls");
    event_.wait();
    return 0;
  }
  void complete(std::size_t&) override {}
  void wake() noexcept override { event_.wake(); }
  void watch(gyre::readiness_operation&, gyre::readiness, gyre::trigger) override {}
  void rewatch(gyre::readiness_operation&, gyre::readiness, gyre::trigger) override {}
  void unwatch(gyre::readiness_operation&) noexcept override {}
  std::size_t watched() const noexcept override { return descriptors_; }
  void after_fork() override {}
  const char* name() const noexcept override { return "model"; }

 private:
  model::event event_;
  const std::size_t descriptors_;
  mutable std::atomic<std::int64_t> now_{0};  // not modelled, as its order is of no interest
};

}  // namespace

std::unique_ptr<gyre::poller> gyre::make_poller(gyre::io_interface) {
  return std::make_unique<model_poller>();
}

namespace {

template <typename Inbox>
class EventLoopModel : public testing::Test {};

using inboxes = testing::Types<gyre::inbox::basic_fifo<2>, gyre::inbox::basic_sharded<2>>;
TYPED_TEST_SUITE(EventLoopModel, inboxes);

TYPED_TEST(EventLoopModel, ATaskPostedToASleepingLoopRuns) {
  const auto checked = model::check({.preemptions = 2, .stale_reads = 2}, [] {
    gyre::basic_loop<TypeParam> loop;
    model::thread producer([&] { loop.post([&] { loop.stop(); }); });
    loop.run();
    producer.join();
    const gyre::loop_metrics metrics = loop.metrics();
    model::assert_that(metrics.tasks_run == 1 && metrics.tasks_pending == 0, "it ran once");
    model::assert_that(metrics.wakeups <= 1, "one wake-up at most");
  });
  EXPECT_TRUE(checked) << checked;
}

TYPED_TEST(EventLoopModel, TasksOfTwoThreadsRun) {
  const auto checked = model::check({.preemptions = 1, .stale_reads = 1}, [] {
    gyre::basic_loop<TypeParam> loop;
    int ran = 0;
    {
      const auto produce = [&] {
        loop.post([&] {
          if (++ran == 2) loop.stop();
        });
      };
      model::thread one(produce);
      model::thread other(produce);
      loop.run();
    }
    model::assert_that(ran == 2, "both ran");
  });
  EXPECT_TRUE(checked) << checked;
}

// An operation that calls a function.
struct calling final : gyre::operation {
  explicit calling(std::function<void()> callable)
      : operation([](operation& self) { static_cast<calling&>(self).function(); }),
        function(std::move(callable)) {}
  std::function<void()> function;
};

TYPED_TEST(EventLoopModel, OperationsPostedAtOnceToASleepingLoopRunInOrder) {
  const auto checked = model::check({.preemptions = 2, .stale_reads = 1}, [] {
    gyre::basic_loop<TypeParam> loop;
    int ran = 0;
    calling first([&] { model::assert_that(++ran == 1, "first"); });
    calling second([&] {
      model::assert_that(++ran == 2, "second");
      loop.stop();
    });
    model::thread producer([&] {
      gyre::intrusive_queue<gyre::operation> both;
      both.push_back(first);
      both.push_back(second);
      loop.post_all(both, 2);
    });
    loop.run();
    producer.join();
    model::assert_that(loop.metrics().tasks_pending == 0, "both are counted");
  });
  EXPECT_TRUE(checked) << checked;
}

TYPED_TEST(EventLoopModel, StopFromAnotherThreadEndsRun) {
  const auto checked = model::check({.preemptions = 2, .stale_reads = 2}, [] {
    gyre::basic_loop<TypeParam> loop;
    model::thread other([&] { loop.stop(); });
    loop.run();
    model::assert_that(loop.stopped(), "it stays stopped");
    other.join();
  });
  EXPECT_TRUE(checked) << checked;
}

TYPED_TEST(EventLoopModel, ATaskPostedWhileTheLoopPollsRuns) {
  const auto checked = model::check({.preemptions = 2, .stale_reads = 1}, [] {
    gyre::basic_loop<TypeParam> loop({.busy_poll = std::chrono::nanoseconds{1}},
                                     std::make_unique<model_poller>(1));
    model::thread producer([&] { loop.post([&] { loop.stop(); }); });
    loop.run();
    producer.join();
    model::assert_that(loop.metrics().tasks_run == 1, "it ran once");
  });
  EXPECT_TRUE(checked) << checked;
}

TYPED_TEST(EventLoopModel, RunOnceReturnsAfterATask) {
  const auto checked = model::check({.preemptions = 2, .stale_reads = 1}, [] {
    gyre::basic_loop<TypeParam> loop;
    bool ran = false;
    model::thread producer([&] { loop.post([&] { ran = true; }); });
    model::assert_that(loop.run_once() && ran, "the task was something to do");
    producer.join();
  });
  EXPECT_TRUE(checked) << checked;
}

}  // namespace
