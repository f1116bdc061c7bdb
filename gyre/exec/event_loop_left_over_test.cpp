// SPDX-License-Identifier: Apache-2.0
// Tests that an operation is never lost, even if the inbox has no memory: a coroutine waits for it.
#include <gyre/exec/loop.hpp>

#include <gyre/base/operation.hpp>
#include <gyre/exec/inbox/mutex.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/task/schedule.hpp>
#include <gyre/testing/virtual_time_loop.hpp>
#include <tests/support/thread_executor.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <exception>
#include <new>
#include <stdexcept>
#include <utility>
#include <vector>

namespace event_loop_left_over_test {
namespace {

using gyre::testing::virtual_time_loop;
using testing::ElementsAre;

// An inbox that finds no memory while the test says so.
class poor_inbox {
 public:
  static constexpr gyre::inbox::ordering order = gyre::inbox::mutex::order;
  static inline std::atomic<bool> out_of_memory = false;

  template <class F>
  void push(F&& callable) {
    if (out_of_memory) throw std::bad_alloc();
    rich_.push(std::forward<F>(callable));
  }
  void run(gyre::inbox::batch& tasks) { rich_.run(tasks); }
  bool ready() noexcept { return rich_.ready(); }
  std::size_t pending() const noexcept { return rich_.pending(); }

 private:
  gyre::inbox::mutex rich_;
};
static_assert(gyre::inbox::policy<poor_inbox>);

using poor_loop = gyre::basic_loop<poor_inbox>;

// Records its number, then calls the test's function.
struct writes : gyre::operation {
  explicit writes(std::vector<int>& to, int its_number, void (*and_then)(writes&) = nullptr)
      : operation([](operation& self) {
          auto& own = static_cast<writes&>(self);
          own.log.push_back(own.number);
          if (own.then != nullptr) own.then(own);
        }),
        log(to),
        number(its_number),
        then(and_then) {}
  std::vector<int>& log;
  int number;
  void (*then)(writes&);
};

class EventLoopWithoutMemory : public testing::Test {
 protected:
  void SetUp() override { poor_inbox::out_of_memory = true; }
  void TearDown() override { poor_inbox::out_of_memory = false; }

  std::vector<int> log_;
  std::vector<std::exception_ptr> errors_;
  gyre::loop_options collecting() {
    return {.on_exception = [this](std::exception_ptr error) { errors_.push_back(error); }};
  }
};

TEST_F(EventLoopWithoutMemory, RunsOperationsInTheirOrder) {
  virtual_time_loop<poor_loop> virtual_time;
  writes one(log_, 1);
  writes two(log_, 2);
  writes three(log_, 3);
  for (gyre::operation* each : {&one, &two, &three}) virtual_time.loop.post(*each);
  EXPECT_THROW(virtual_time.loop.post([] {}), std::bad_alloc);
  EXPECT_TRUE(virtual_time.loop.run_once());
  EXPECT_THAT(log_, ElementsAre(1, 2, 3));
  EXPECT_FALSE(virtual_time.loop.poll());
}

// Posts itself until two numbers are in the log, as a group of connections does before it is freed.
struct waits_for_two : gyre::operation {
  waits_for_two(gyre::event_loop& its_loop, const std::vector<int>& of)
      : operation([](operation& self) {
          auto& own = static_cast<waits_for_two&>(self);
          if (own.log.size() < 2) own.loop.post(own);
        }),
        loop(its_loop),
        log(of) {}
  gyre::event_loop& loop;
  const std::vector<int>& log;
};

// A batch has one task, as on a slow machine, whose loop shrinks its batches.
TEST_F(EventLoopWithoutMemory, OneThatComesBackKeepsNoOtherOutOfASmallBatch) {
  virtual_time_loop<poor_loop> virtual_time({.batch = 1});
  waits_for_two first(virtual_time.loop, log_);
  writes second(log_, 2);
  poor_inbox::out_of_memory = false;
  virtual_time.loop.post([&] { log_.push_back(1); });
  poor_inbox::out_of_memory = true;
  virtual_time.loop.post(first);
  virtual_time.loop.post(second);
  int turns = 0;
  while (virtual_time.loop.poll()) ASSERT_LT(++turns, 100) << "kept out";
  EXPECT_THAT(log_, testing::UnorderedElementsAre(1, 2));
}

TEST_F(EventLoopWithoutMemory, CountsThemAsTasks) {
  virtual_time_loop<poor_loop> virtual_time({.inbox_limit = 2});
  writes one(log_, 1);
  writes two(log_, 2);
  virtual_time.loop.post(one);
  virtual_time.loop.post(two);
  poor_inbox::out_of_memory = false;
  EXPECT_FALSE(virtual_time.loop.try_post([] {}));
  virtual_time.loop.run_once();
  EXPECT_EQ(virtual_time.loop.metrics().tasks_run, 2);
  EXPECT_TRUE(virtual_time.loop.try_post([] {}));
  EXPECT_TRUE(virtual_time.loop.try_post([] {}));
  EXPECT_FALSE(virtual_time.loop.try_post([] {}));
  virtual_time.loop.poll();
}

TEST_F(EventLoopWithoutMemory, KeepsTheOthersWhenOneThrows) {
  virtual_time_loop<poor_loop> virtual_time(collecting());
  writes one(log_, 1, [](writes&) { throw std::runtime_error("no"); });
  writes two(log_, 2);
  writes three(log_, 3);
  for (gyre::operation* each : {&one, &two, &three}) virtual_time.loop.post(*each);
  while (virtual_time.loop.poll()) {
  }
  EXPECT_THAT(log_, ElementsAre(1, 2, 3));
  EXPECT_EQ(errors_.size(), 1);
}

TEST_F(EventLoopWithoutMemory, OperationMayPostItselfAgain) {
  struct again : gyre::operation {
    explicit again(gyre::event_loop& in)
        : operation([](operation& self) {
            auto& own = static_cast<again&>(self);
            if (--own.left > 0) own.loop.post(self);
          }),
          loop(in) {}
    gyre::event_loop& loop;
    int left = 1000;
  };
  virtual_time_loop<poor_loop> virtual_time;
  again counting(virtual_time.loop);
  virtual_time.loop.post(static_cast<gyre::operation&>(counting));
  while (virtual_time.loop.poll()) {
  }
  EXPECT_EQ(counting.left, 0);
}

// After stop() the waiting operations keep waiting, as they do after a stop by a task of the inbox.
TEST_F(EventLoopWithoutMemory, StopsAfterTheOperationThatStopsIt) {
  struct stops : writes {
    stops(std::vector<int>& to, gyre::event_loop& of)
        : writes(to, 1, [](writes& self) { static_cast<stops&>(self).loop.stop(); }), loop(of) {}
    gyre::event_loop& loop;
  };
  virtual_time_loop<poor_loop> virtual_time;
  stops one(log_, virtual_time.loop);
  writes two(log_, 2);
  virtual_time.loop.post(static_cast<gyre::operation&>(one));
  virtual_time.loop.post(static_cast<gyre::operation&>(two));
  virtual_time.loop.run();
  EXPECT_THAT(log_, ElementsAre(1));
  virtual_time.loop.restart();
  virtual_time.loop.poll();
  EXPECT_THAT(log_, ElementsAre(1, 2));
}

TEST_F(EventLoopWithoutMemory, RunsNoMoreThanABatchBetweenLooksAtTheRest) {
  virtual_time_loop<poor_loop> virtual_time({.batch = 2});
  writes one(log_, 1);
  writes two(log_, 2);
  writes three(log_, 3);
  for (gyre::operation* each : {&one, &two, &three}) virtual_time.loop.post(*each);
  virtual_time.loop.poll();
  EXPECT_THAT(log_, ElementsAre(1, 2));
  virtual_time.loop.poll();
  EXPECT_THAT(log_, ElementsAre(1, 2, 3));
}

TEST_F(EventLoopWithoutMemory, IsWokenByAnotherThread) {
  poor_loop loop;
  gyre::test::thread_executor there;
  auto hops = [](gyre::executor& to) -> gyre::task<int> {
    gyre::executor& home = co_await gyre::current_executor();
    int hops_home = 0;
    for (int i = 0; i < 1000; ++i) {
      co_await gyre::resume_on(to);
      co_await gyre::resume_on(home);
      hops_home += home.running_here() ? 1 : 0;
    }
    co_return hops_home;
  };
  EXPECT_EQ(gyre::sync_wait(loop, hops(there)), 1000);
}

}  // namespace
}  // namespace event_loop_left_over_test
