// SPDX-License-Identifier: Apache-2.0
// Tests of post_after() and post_at(), in virtual time.
#include <gyre/exec/loop.hpp>

#include <gyre/exec/inbox/mutex.hpp>
#include <gyre/exec/inbox/sharded.hpp>
#include <gyre/testing/virtual_time_loop.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

namespace event_loop_delayed_test {
namespace {

using namespace std::chrono_literals;
using gyre::event_loop;
using gyre::steady_time;
using gyre::testing::virtual_time_loop;
using testing::ElementsAre;

template <class Inbox>
class EventLoopDelayed : public testing::Test {
 protected:
  using loop_type = gyre::basic_loop<Inbox>;
  virtual_time_loop<loop_type> virtual_time_;
  loop_type& loop_ = virtual_time_.loop;
};

using inboxes = testing::Types<gyre::inbox::fifo, gyre::inbox::sharded, gyre::inbox::mutex>;
TYPED_TEST_SUITE(EventLoopDelayed, inboxes);

TYPED_TEST(EventLoopDelayed, RunInTheOrderOfTheirTimesAndNeverEarly) {
  const steady_time start = this->loop_.now();
  std::vector<int> ran;
  const auto expect_at = [&](int number, std::chrono::nanoseconds delay) {
    return [&, delay, owned = std::make_unique<int>(number)] {
      EXPECT_GE(this->loop_.now(), start + delay);
      EXPECT_LE(this->loop_.now(), start + delay + 2us);
      EXPECT_TRUE(this->loop_.in_loop_thread());
      ran.push_back(*owned);
    };
  };
  this->loop_.post_after(3h, expect_at(3, 3h));
  this->loop_.post_after(1ms, expect_at(1, 1ms));
  this->loop_.post_at(start + 2s, expect_at(2, 2s));
  this->loop_.post_after(4h, [&] { this->loop_.stop(); });
  this->loop_.run();
  EXPECT_THAT(ran, ElementsAre(1, 2, 3));
}

TYPED_TEST(EventLoopDelayed, FromAnotherThreadRunOnTheLoopsThread) {
  const steady_time start = this->loop_.now();
  std::thread([&] {
    this->loop_.post_after(1min, [&] {
      EXPECT_TRUE(this->loop_.in_loop_thread());
      EXPECT_GE(this->loop_.now(), start + 1min);
      this->loop_.stop();
    });
  }).join();
  this->loop_.run();
  EXPECT_EQ(this->loop_.metrics().timers_fired, 1u);
}

TYPED_TEST(EventLoopDelayed, FromAnotherThreadWakeTheSleepingLoop) {
  std::jthread poster;
  this->virtual_time_.time.on_sleep([&] {
    if (poster.joinable()) return;
    poster = std::jthread([&] { this->loop_.post_after(1ms, [&] { this->loop_.stop(); }); });
  });
  this->loop_.run();
  EXPECT_EQ(this->loop_.metrics().timers_fired, 1u);
}

TYPED_TEST(EventLoopDelayed, FromManyThreadsAllRun) {
  typename TestFixture::loop_type loop;  // on the real poller
  int ran = 0;
  std::vector<std::jthread> posters;
  for (int i = 0; i < 4; ++i) {
    posters.emplace_back([&] {
      for (int n = 0; n < 250; ++n) {
        loop.post_after(std::chrono::microseconds(n % 7), [&] {
          if (++ran == 1000) loop.stop();
        });
      }
    });
  }
  loop.run();
  EXPECT_EQ(ran, 1000);
}

TYPED_TEST(EventLoopDelayed, DelaysOfZeroAndLessRunInTheNextTurn) {
  int ran = 0;
  this->loop_.post_after(0s, [&] { ++ran; });
  this->loop_.post_after(-1h, [&] { ++ran; });
  this->loop_.post_at(steady_time::min(), [&] { ++ran; });
  this->loop_.post_at(steady_time::min() + 1ns, [&] { ++ran; });
  this->loop_.poll();
  this->loop_.poll();
  EXPECT_EQ(ran, 4);
  EXPECT_EQ(this->loop_.metrics().sleeps, 0u);
}

TYPED_TEST(EventLoopDelayed, BeyondTheEndOfTimeNeverRun) {
  this->loop_.post_after(std::chrono::nanoseconds::max(), [] { FAIL(); });
  this->loop_.post_at(steady_time::max(), [] { FAIL(); });
  this->loop_.run_for(24h * 365 * 100);
  EXPECT_EQ(this->loop_.metrics().timers_pending, 2u);
}

TYPED_TEST(EventLoopDelayed, OneMayPostTheNext) {
  struct chain {
    event_loop& loop;
    int left;
    void step() {
      if (--left == 0) return loop.stop();
      loop.post_after(1s, [this] { step(); });
    }
  } chain{this->loop_, 100};
  const steady_time start = this->loop_.now();
  this->loop_.post([&] { chain.step(); });
  this->loop_.run();
  EXPECT_GE(this->loop_.now(), start + 99s);
}

TYPED_TEST(EventLoopDelayed, AreDroppedUnrunWithTheLoop) {
  const auto held = std::make_shared<int>();
  {
    virtual_time_loop<typename TestFixture::loop_type> dying;
    dying.loop.post_after(1h, [held] { FAIL(); });
    dying.loop.poll();                              // makes a timer of it
    dying.loop.post_after(1h, [held] { FAIL(); });  // still in the inbox
    EXPECT_EQ(held.use_count(), 3);
  }
  EXPECT_EQ(held.use_count(), 1);
}

// A callable whose destruction posts once more, at once or later.
class posts_when_dropped {
 public:
  posts_when_dropped(event_loop& loop, std::shared_ptr<int> held, bool later)
      : loop_(&loop), held_(std::move(held)), later_(later) {}
  posts_when_dropped(posts_when_dropped&& other) noexcept
      : loop_(std::exchange(other.loop_, nullptr)),
        held_(std::move(other.held_)),
        later_(other.later_) {}
  ~posts_when_dropped() {
    if (loop_ == nullptr) return;
    if (later_) {
      loop_->post_after(1s, [held = held_] { FAIL(); });
    } else {
      loop_->post([held = held_] { FAIL(); });
    }
  }
  void operator()() {}

 private:
  event_loop* loop_;
  std::shared_ptr<int> held_;
  bool later_;
};

TYPED_TEST(EventLoopDelayed, DestructorsOfDroppedOnesMayPost) {
  const auto held = std::make_shared<int>();
  for (const bool later : {false, true}) {
    virtual_time_loop<typename TestFixture::loop_type> dying;
    dying.loop.post_after(1h, posts_when_dropped(dying.loop, held, later));
    dying.loop.post_after(2h, posts_when_dropped(dying.loop, held, later));
    dying.loop.poll();
    EXPECT_EQ(dying.loop.metrics().timers_pending, 2u);
  }
  EXPECT_EQ(held.use_count(), 1);
}

}  // namespace
}  // namespace event_loop_delayed_test
