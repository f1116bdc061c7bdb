// SPDX-License-Identifier: Apache-2.0
// Tests of operations that are posted to a loop at once, with each inbox that needs no dependency.
#include <gyre/exec/loop.hpp>

#include <gyre/base/intrusive_queue.hpp>
#include <gyre/exec/inbox/mutex.hpp>
#include <gyre/exec/inbox/sharded.hpp>
#include <gyre/exec/timer.hpp>
#include <gyre/sync/event.hpp>
#include <gyre/task/spawn.hpp>
#include <gyre/task/stop_token.hpp>
#include <gyre/task/task.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

namespace event_loop_post_all_test {
namespace {

using gyre::intrusive_queue;
using gyre::operation;
using testing::ElementsAre;

// Notes its number when it runs, then calls a function.
struct noting : operation {
  noting(std::vector<int>& notes, int its_number)
      : operation(&run), order(notes), number(its_number) {}
  static void run(operation& self) {
    auto& ran = static_cast<noting&>(self);
    ran.order.push_back(ran.number);
    if (ran.then) ran.then();
  }
  std::vector<int>& order;
  int number;
  std::function<void()> then;
};

template <class Inbox>
class EventLoopPostAll : public testing::Test {
 protected:
  using loop_type = gyre::basic_loop<Inbox>;

  noting& add(int number) { return operations_.emplace_back(order_, number); }
  void add_numbers(int first, int last) {
    for (int number = first; number <= last; ++number) add(number);
  }
  // Posts those that were added since the last call.
  void post_all(gyre::executor& target) {
    intrusive_queue<operation> all;
    const std::size_t count = operations_.size() - posted_;
    for (; posted_ < operations_.size(); ++posted_) all.push_back(operations_[posted_]);
    target.post_all(all, count);
    EXPECT_TRUE(all.empty());
  }
  std::vector<int> numbers(int first, int last) {
    std::vector<int> all(static_cast<std::size_t>(last - first + 1));
    std::iota(all.begin(), all.end(), first);
    return all;
  }

  std::vector<int> order_;
  std::deque<noting> operations_;
  std::size_t posted_ = 0;
};

using inboxes = testing::Types<gyre::inbox::fifo, gyre::inbox::sharded, gyre::inbox::mutex>;
TYPED_TEST_SUITE(EventLoopPostAll, inboxes);

TYPED_TEST(EventLoopPostAll, RunsThemInTheOrderOfAllPosts) {
  typename TestFixture::loop_type loop;
  loop.post([&] { this->order_.push_back(0); });
  this->add_numbers(1, 3);
  this->post_all(loop);
  loop.post([&] { this->order_.push_back(4); });
  this->add_numbers(5, 5);
  this->post_all(loop);
  this->add_numbers(6, 7);
  this->post_all(loop);
  while (loop.poll()) continue;
  EXPECT_THAT(this->order_, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
}

TYPED_TEST(EventLoopPostAll, TimersComeBetweenTheBatchesAndNothingOvertakes) {
  typename TestFixture::loop_type loop({.batch = 8});
  this->add_numbers(1, 100);
  this->post_all(loop);
  loop.post([&] { this->order_.push_back(101); });
  std::size_t ran_before = 0;
  gyre::timer due(loop, [&] { ran_before = this->order_.size(); });
  due.start_at(gyre::steady_time::min());
  EXPECT_TRUE(loop.poll());
  EXPECT_GE(ran_before, 1u);
  EXPECT_LE(ran_before, 16u) << "more than twice the batch";
  while (loop.poll()) continue;
  EXPECT_EQ(this->order_, this->numbers(1, 101));
}

TYPED_TEST(EventLoopPostAll, RestRunsAfterAnException) {
  int caught = 0;
  typename TestFixture::loop_type loop({.on_exception = [&](std::exception_ptr) { ++caught; }});
  for (int number = 1; number <= 6; ++number) {
    noting& added = this->add(number);
    if (number == 1 || number == 3 || number == 6) {
      added.then = [] { throw std::runtime_error("on purpose"); };
    }
  }
  this->post_all(loop);
  loop.post([&] { this->order_.push_back(7); });
  while (loop.poll()) continue;
  EXPECT_EQ(caught, 3);
  EXPECT_EQ(this->order_, this->numbers(1, 7));
  EXPECT_EQ(loop.metrics().tasks_run, 7u);
  EXPECT_EQ(loop.metrics().tasks_pending, 0u);
}

TYPED_TEST(EventLoopPostAll, RestWaitsWhileTheLoopIsStopped) {
  typename TestFixture::loop_type loop;
  for (int number = 1; number <= 5; ++number) {
    noting& added = this->add(number);
    if (number == 1 || number == 4) added.then = [&] { loop.stop(); };
  }
  this->post_all(loop);
  loop.post([&] { this->order_.push_back(6); });
  loop.run();
  EXPECT_THAT(this->order_, ElementsAre(1));
  loop.restart();
  loop.run();
  EXPECT_EQ(this->order_, this->numbers(1, 4));
  loop.restart();
  while (loop.poll()) continue;
  EXPECT_EQ(this->order_, this->numbers(1, 6));
}

TYPED_TEST(EventLoopPostAll, EachIsCounted) {
  typename TestFixture::loop_type loop;
  this->add_numbers(1, 10);
  this->post_all(loop);
  EXPECT_EQ(loop.metrics().tasks_pending, 10u);
  while (loop.poll()) continue;
  EXPECT_EQ(loop.metrics().tasks_pending, 0u);
  EXPECT_EQ(loop.metrics().tasks_run, 10u);
}

TYPED_TEST(EventLoopPostAll, EachTakesASlotOfALimitedInbox) {
  typename TestFixture::loop_type loop({.inbox_limit = 11});
  this->add_numbers(1, 10);
  this->post_all(loop);
  EXPECT_TRUE(loop.try_post([&] { this->order_.push_back(11); }));
  EXPECT_FALSE(loop.try_post([] {}));
  while (loop.poll()) continue;
  EXPECT_EQ(this->order_, this->numbers(1, 11));
}

TYPED_TEST(EventLoopPostAll, OperationMayPostItselfAndOthersAgain) {
  typename TestFixture::loop_type loop({.batch = 4});
  for (int number = 1; number <= 6; ++number) {
    noting& added = this->add(number);
    added.then = [&] {
      if (added.number > 6) return;
      added.number += 6;
      loop.post(added);
    };
  }
  this->post_all(loop);
  while (loop.poll()) continue;
  EXPECT_EQ(this->order_, this->numbers(1, 12));
}

TYPED_TEST(EventLoopPostAll, WakesALoopThatSleepsInAnotherThread) {
  constexpr int rounds = 300;
  typename TestFixture::loop_type loop;
  std::atomic<int> ran{0};
  for (int number = 1; number <= 3; ++number) this->add(number).then = [&] { ++ran; };
  std::jthread other([&] { loop.run(); });
  for (int round = 1; round <= rounds; ++round) {
    this->posted_ = 0;
    this->post_all(loop);
    while (ran.load() != 3 * round) std::this_thread::yield();
  }
  loop.stop();
  other.join();
  EXPECT_EQ(this->order_.size(), std::size_t{3 * rounds});
}

// Coroutines on two loops wait for the same event. Some are asked to stop at the same time.
TEST(EventLoopWaking, AllCoroutinesOfTwoLoopsEndTheirWaitsOnce) {
  constexpr int rounds = 200;
  constexpr int waiters = 24;
  gyre::loop first;
  gyre::loop second;
  std::jthread first_thread([&] { first.run(); });
  std::jthread second_thread([&] { second.run(); });
  for (int round = 0; round < rounds; ++round) {
    gyre::manual_reset_event event;
    gyre::inplace_stop_source source;
    std::atomic<int> ended{0};
    const auto wait = [](gyre::manual_reset_event& awaited, gyre::loop& on,
                         std::atomic<int>& count) -> gyre::task<> {
      struct counted {
        std::atomic<int>& count;
        ~counted() { ++count; }
      } const at_end{count};
      co_await awaited.wait();
      EXPECT_TRUE(on.running_here());
    };
    for (int number = 0; number < waiters; ++number) {
      gyre::loop& on = number / 4 % 2 == 0 ? first : second;
      gyre::spawn(on, wait(event, on, ended),
                  {.stop = number % 3 == 0 ? source.get_token() : gyre::inplace_stop_token{}});
    }
    {
      const std::jthread stopper([&] { source.request_stop(); });
      event.set();
    }
    while (ended.load() != waiters) std::this_thread::yield();
  }
  first.stop();
  second.stop();
}

}  // namespace
}  // namespace event_loop_post_all_test
