// SPDX-License-Identifier: Apache-2.0
// Tests of post, dispatch and intrusive operations, with each inbox that needs no dependency.
#include <gyre/exec/loop.hpp>

#include <gyre/exec/inbox/mutex.hpp>
#include <gyre/exec/inbox/sharded.hpp>
#include <gyre/exec/timer.hpp>
#include <gyre/task/spawn.hpp>
#include <gyre/task/task.hpp>
#include <gyre/testing/virtual_time_loop.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace event_loop_post_test {
namespace {

using gyre::event_loop;
using gyre::testing::virtual_time_loop;
using testing::ElementsAre;

template <class Inbox>
class EventLoopPost : public testing::Test {
 protected:
  using loop_type = gyre::basic_loop<Inbox>;
  virtual_time_loop<loop_type> virtual_time_;
  loop_type& loop_ = virtual_time_.loop;
};

using inboxes = testing::Types<gyre::inbox::fifo, gyre::inbox::sharded, gyre::inbox::mutex>;
TYPED_TEST_SUITE(EventLoopPost, inboxes);

int calls_of_a_function = 0;
void a_function() { ++calls_of_a_function; }

TYPED_TEST(EventLoopPost, TakesAFunction) {
  calls_of_a_function = 0;
  event_loop& loop = this->loop_;
  loop.post(a_function);
  loop.post(&a_function);
  EXPECT_TRUE(loop.try_post(a_function));
  this->loop_.post(a_function);
  loop.dispatch(a_function);
  this->loop_.poll();
  EXPECT_EQ(calls_of_a_function, 5);
}

TYPED_TEST(EventLoopPost, TasksPostedBeforeRunRunBeforeTheFirstWait) {
  std::size_t waits = 1;
  bool timer_fired = false;
  gyre::timer overdue(this->loop_, [&] { timer_fired = true; });
  overdue.start_after({});
  this->loop_.post([&] {
    waits = this->virtual_time_.time.waits();
    EXPECT_FALSE(timer_fired);
    this->loop_.stop();
  });
  this->loop_.run();
  EXPECT_EQ(waits, 0u);
}

TYPED_TEST(EventLoopPost, TasksOfOneThreadRunInOrder) {
  std::vector<int> ran;
  for (int i = 0; i < 5000; ++i) this->loop_.post([&ran, i] { ran.push_back(i); });
  while (this->loop_.poll()) continue;
  ASSERT_EQ(ran.size(), 5000u);
  EXPECT_TRUE(std::is_sorted(ran.begin(), ran.end()));
}

TYPED_TEST(EventLoopPost, ATaskPostedByATaskRunsAfterIt) {
  std::vector<std::string> log;
  this->loop_.post([&] {
    log.push_back("outer begins");
    this->loop_.post([&] { log.push_back("inner"); });
    log.push_back("outer ends");
  });
  this->loop_.poll();
  EXPECT_THAT(log, ElementsAre("outer begins", "outer ends", "inner"));
}

TYPED_TEST(EventLoopPost, TakesMoveOnlyLargeAndOveralignedCallables) {
  struct alignas(64) wide {
    std::array<int, 40> numbers{};
  };
  int sum = 0;
  wide given;
  given.numbers[39] = 30;
  this->loop_.post([&sum, owned = std::make_unique<int>(2)] { sum += *owned; });
  this->loop_.post([&sum, given] {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(&given) % alignof(wide), 0u);
    sum += given.numbers[39];
  });
  static_cast<event_loop&>(this->loop_).post([&sum, given] {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(&given) % alignof(wide), 0u);
    sum += 10 * given.numbers[39];
  });
  this->loop_.poll();
  EXPECT_EQ(sum, 332);
}

TYPED_TEST(EventLoopPost, ACallableIsDestroyedAsSoonAsItHasRun) {
  const auto held = std::make_shared<int>();
  this->loop_.post([held] { EXPECT_EQ(held.use_count(), 2); });
  this->loop_.post([&held] { EXPECT_EQ(held.use_count(), 1); });
  EXPECT_TRUE(this->loop_.poll());
}

TYPED_TEST(EventLoopPost, PendingTasksAreDestroyedWithTheLoopAndNotRun) {
  const auto held = std::make_shared<int>();
  bool ran = false;
  {
    virtual_time_loop<typename TestFixture::loop_type> dying;
    dying.loop.post([held, &ran] { ran = true; });
    dying.loop.post([held, &ran, padding = std::array<char, 100>{}] { ran = padding[0] == 0; });
    EXPECT_EQ(held.use_count(), 3);
  }
  EXPECT_EQ(held.use_count(), 1);
  EXPECT_FALSE(ran);
}

TYPED_TEST(EventLoopPost, SpawnedCoroutineThatHasNotStartedIsDestroyedWithTheLoop) {
  const auto held = std::make_shared<int>();
  bool ran = false;
  std::future<int> never;
  {
    virtual_time_loop<typename TestFixture::loop_type> dying;
    auto work = [](std::shared_ptr<int> keeps, bool& runs) -> gyre::task<int> {
      runs = true;
      co_return *keeps;
    };
    gyre::spawn(dying.loop, work(held, ran));
    never = gyre::spawn_future(dying.loop, work(held, ran));
    EXPECT_EQ(held.use_count(), 3);
  }
  EXPECT_EQ(held.use_count(), 1);
  EXPECT_FALSE(ran);
  ASSERT_EQ(never.wait_for(std::chrono::seconds(0)), std::future_status::ready);
  EXPECT_THROW(never.get(), std::future_error);
}

TYPED_TEST(EventLoopPost, TheBaseClassPostsInTheSameOrder) {
  event_loop& base = this->loop_;
  std::vector<int> ran;
  base.post([&] { ran.push_back(1); });
  this->loop_.post([&] { ran.push_back(2); });
  base.dispatch([&] { ran.push_back(3); });
  EXPECT_TRUE(base.try_post([&] { ran.push_back(4); }));
  EXPECT_TRUE(base.poll());
  EXPECT_THAT(ran, ElementsAre(1, 2, 3, 4));
}

TYPED_TEST(EventLoopPost, DispatchRunsAtOnceOnTheLoopsThread) {
  std::vector<int> ran;
  this->loop_.post([&] {
    this->loop_.dispatch([&] { ran.push_back(1); });
    static_cast<event_loop&>(this->loop_).dispatch([&] { ran.push_back(2); });
    ran.push_back(3);
  });
  this->loop_.poll();
  EXPECT_THAT(ran, ElementsAre(1, 2, 3));
}

TYPED_TEST(EventLoopPost, DispatchPostsWhileATaskRunsAnotherLoop) {
  std::vector<int> ran;
  this->loop_.post([&] {
    gyre::loop inner;
    inner.post([&] { this->loop_.dispatch([&] { ran.push_back(2); }); });
    EXPECT_TRUE(inner.poll());
    ran.push_back(1);
  });
  while (this->loop_.poll()) continue;
  EXPECT_THAT(ran, ElementsAre(1, 2));
}

TYPED_TEST(EventLoopPost, DispatchElsewherePosts) {
  bool ran = false;
  this->loop_.dispatch([&] { ran = true; });
  EXPECT_FALSE(ran) << "nobody runs the loop";

  virtual_time_loop<> other;
  other.loop.post([&] { this->loop_.dispatch([&] { ran = true; }); });
  other.loop.poll();
  EXPECT_FALSE(ran) << "this thread runs another loop";

  this->loop_.poll();
  EXPECT_TRUE(ran);
}

struct counting_operation : gyre::operation {
  explicit counting_operation(int& runs) : operation(&run), count(runs) {}
  static void run(operation& self) { ++static_cast<counting_operation&>(self).count; }
  int& count;
};

TYPED_TEST(EventLoopPost, AnOperationRunsOnceForEachPost) {
  int runs = 0;
  counting_operation op(runs);
  this->loop_.post(op);
  EXPECT_EQ(runs, 0);
  EXPECT_TRUE(this->loop_.poll());
  EXPECT_EQ(runs, 1);
  EXPECT_FALSE(this->loop_.poll());
  static_cast<event_loop&>(this->loop_).post(op);
  EXPECT_TRUE(this->loop_.poll());
  EXPECT_EQ(runs, 2);
}

TYPED_TEST(EventLoopPost, AnOperationMayPostItselfAgain) {
  struct repeating : gyre::operation {
    explicit repeating(event_loop& on) : operation(&run), loop(on) {}
    static void run(operation& op) {
      auto& self = static_cast<repeating&>(op);
      if (++self.runs < 3000) self.loop.post(self);
    }
    event_loop& loop;
    int runs = 0;
  } op(this->loop_);
  this->loop_.post(op);
  while (this->loop_.poll()) continue;
  EXPECT_EQ(op.runs, 3000);
}

TYPED_TEST(EventLoopPost, AnOperationMayDestroyItself) {
  struct mortal : gyre::operation {
    explicit mortal(std::shared_ptr<int> kept) : operation(&run), held(std::move(kept)) {}
    static void run(operation& self) { delete static_cast<mortal*>(&self); }
    std::shared_ptr<int> held;
  };
  const auto held = std::make_shared<int>();
  this->loop_.post(*new mortal(held));
  this->loop_.poll();
  EXPECT_EQ(held.use_count(), 1);
}

TYPED_TEST(EventLoopPost, TasksOfManyThreadsAllRunOnceAndInEachThreadsOrder) {
  constexpr int producers = 4;
  constexpr int tasks = 5000;
  typename TestFixture::loop_type loop;
  std::array<int, producers> next{};
  int disorder = 0;
  int total = 0;
  std::vector<std::jthread> threads;
  for (std::size_t producer = 0; producer < producers; ++producer) {
    threads.emplace_back([&, producer] {
      for (int i = 0; i < tasks; ++i) {
        loop.post([&, producer, i] {
          if (next[producer]++ != i) ++disorder;
          if (++total == producers * tasks) loop.stop();
        });
      }
    });
  }
  loop.run();
  threads.clear();
  EXPECT_EQ(disorder, 0);
  EXPECT_EQ(loop.metrics().tasks_pending, 0u);
  EXPECT_FALSE((loop.restart(), loop.poll())) << "nothing ran twice";
}

TYPED_TEST(EventLoopPost, ATokenGoesRoundBetweenSleepingLoops) {
  constexpr int hops = 2000;
  std::array<typename TestFixture::loop_type, 2> loops;
  struct token {
    std::array<typename TestFixture::loop_type, 2>& ring;
    int left;
    void hop() {
      if (left-- == 0) {
        for (auto& each : ring) each.stop();
        return;
      }
      ring[static_cast<std::size_t>(left % 2)].post([this] { hop(); });
    }
  } token{loops, hops};
  loops[0].post([&] { token.hop(); });
  std::jthread other([&] { loops[1].run(); });
  loops[0].run();
  other.join();
  EXPECT_EQ(token.left, -1);
}

TYPED_TEST(EventLoopPost, CallablesThatPostWhenDestroyedAreDroppedWithTheLoop) {
  struct posts_when_destroyed {
    event_loop* loop = nullptr;
    std::shared_ptr<int> held;
    posts_when_destroyed(event_loop& on, std::shared_ptr<int> kept)
        : loop(&on), held(std::move(kept)) {}
    posts_when_destroyed(posts_when_destroyed&& other) noexcept
        : loop(std::exchange(other.loop, nullptr)), held(std::move(other.held)) {}
    ~posts_when_destroyed() {
      if (loop != nullptr)
        loop->post([kept = std::move(held)] { FAIL() << "nobody runs the loop"; });
    }
    void operator()() {}
  };
  const auto held = std::make_shared<int>();
  {
    virtual_time_loop<typename TestFixture::loop_type> dying;
    for (int i = 0; i < 100; ++i) dying.loop.post(posts_when_destroyed(dying.loop, held));
  }
  EXPECT_EQ(held.use_count(), 1);
}

}  // namespace
}  // namespace event_loop_post_test
