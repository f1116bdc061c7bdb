// SPDX-License-Identifier: Apache-2.0
// Tests that a deferred release runs once: in a later turn or at its loop's end, even without
// memory.
#include <gyre/exec/detail/deferred_release.hpp>

#include <gyre/exec/loop.hpp>
#include <gyre/testing/virtual_time_loop.hpp>
#include <tests/support/full_inbox.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <exception>
#include <memory>
#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

namespace deferred_release_test {
namespace {

using gyre::detail::release_point;
using gyre::testing::virtual_time_loop;
using testing::ElementsAre;

using loop_type = gyre::basic_loop<gyre::test::inbox_that_may_be_full>;

// Records the turn of its release, and then calls the test's function.
struct owner {
  explicit owner(std::vector<release_point>& log) noexcept : ran(log) {}
  static void release(std::shared_ptr<owner> self, release_point point) {
    self->ran.push_back(point);
    if (self->then) self->then(self, point);
  }

  std::vector<release_point>& ran;
  gyre::move_only_function<void(const std::shared_ptr<owner>&, release_point)> then;
  gyre::detail::deferred_release<owner> release_{&owner::release};
};

class DeferredRelease : public testing::Test {
 protected:
  void SetUp() override { gyre::test::inbox_full = true; }
  void TearDown() override { gyre::test::inbox_full = false; }

  void post(const std::shared_ptr<owner>& released) {
    released->release_.post(time_->loop, released);
  }

  std::vector<release_point> ran_;
  std::vector<std::exception_ptr> errors_;
  std::optional<virtual_time_loop<loop_type>> time_{
      std::in_place, gyre::loop_options{.on_exception = [this](std::exception_ptr error) {
        errors_.push_back(error);
      }}};
};

TEST_F(DeferredRelease, RunsInALaterTurnAndKeepsItsOwnerUntilThen) {
  const std::weak_ptr<owner> alive = [&] {
    auto released = std::make_shared<owner>(ran_);
    post(released);
    return released;
  }();
  EXPECT_FALSE(alive.expired());
  EXPECT_TRUE(ran_.empty());
  EXPECT_TRUE(time_->loop.poll());
  EXPECT_THAT(ran_, ElementsAre(release_point::loop_turn));
  EXPECT_TRUE(alive.expired());
  EXPECT_FALSE(time_->loop.poll());
}

TEST_F(DeferredRelease, RunsWithTheLoopThatTurnsNoMore) {
  const std::weak_ptr<owner> alive = [&] {
    auto released = std::make_shared<owner>(ran_);
    post(released);
    return released;
  }();
  time_.reset();
  EXPECT_THAT(ran_, ElementsAre(release_point::loop_end));
  EXPECT_TRUE(alive.expired());
}

TEST_F(DeferredRelease, RunsWithTheLoopWhosePostedCallablesPostIt) {
  struct posts_when_destroyed {
    gyre::event_loop& loop;
    std::shared_ptr<owner> released;
    posts_when_destroyed(gyre::event_loop& on, std::shared_ptr<owner> one) noexcept
        : loop(on), released(std::move(one)) {}
    posts_when_destroyed(posts_when_destroyed&&) noexcept = default;
    ~posts_when_destroyed() {
      if (released == nullptr) return;
      gyre::event_loop& on = loop;
      released->release_.post(on, released);
    }
    void operator()() const noexcept {}
  };
  gyre::test::inbox_full = false;
  auto released = std::make_shared<owner>(ran_);
  time_->loop.post(posts_when_destroyed(time_->loop, std::move(released)));
  time_.reset();
  EXPECT_THAT(ran_, ElementsAre(release_point::loop_end));
}

TEST_F(DeferredRelease, RunsOnceHoweverOftenItWasPosted) {
  auto released = std::make_shared<owner>(ran_);
  for (int i = 0; i < 3; ++i) post(released);
  while (time_->loop.poll()) {
  }
  EXPECT_EQ(ran_.size(), 1u);
  post(released);
  EXPECT_TRUE(time_->loop.poll());
  EXPECT_EQ(ran_.size(), 2u);
}

TEST_F(DeferredRelease, MayPostItselfAgain) {
  auto released = std::make_shared<owner>(ran_);
  released->then = [&](const std::shared_ptr<owner>& self, release_point point) {
    if (point == release_point::loop_turn) post(self);
  };
  post(released);
  time_->loop.poll();
  time_->loop.poll();
  EXPECT_THAT(ran_, ElementsAre(release_point::loop_turn, release_point::loop_turn));
  time_.reset();
  EXPECT_EQ(ran_.size(), 3u);
  EXPECT_EQ(ran_.back(), release_point::loop_end);
}

TEST_F(DeferredRelease, RunsThoughAnotherThrows) {
  std::vector<std::shared_ptr<owner>> all;
  for (int i = 0; i < 3; ++i) {
    all.push_back(std::make_shared<owner>(ran_));
    all.back()->then = [](const std::shared_ptr<owner>&, release_point) {
      throw std::runtime_error("no");
    };
    post(all.back());
  }
  while (time_->loop.poll()) {
  }
  EXPECT_EQ(ran_.size(), 3u);
  EXPECT_EQ(errors_.size(), 3u);
}

// A caller that finds the release posted can rely on it: the release sees the caller's earlier
// write.
TEST(DeferredReleaseOnThreads, SeesTheLastChange) {
  struct counter {
    static void release(std::shared_ptr<counter> self, release_point) {
      self->seen = self->changes.load(std::memory_order_relaxed);
    }
    std::atomic<int> changes = 0;
    int seen = 0;
    gyre::detail::deferred_release<counter> release_{&counter::release};
  };
  constexpr int threads = 4;
  constexpr int changes = 5'000;
  gyre::loop loop;
  const auto counted = std::make_shared<counter>();
  std::atomic<int> running = threads;
  std::vector<std::jthread> all;
  for (int i = 0; i < threads; ++i) {
    all.emplace_back([&] {
      for (int n = 0; n < changes; ++n) {
        counted->changes.fetch_add(1, std::memory_order_relaxed);
        counted->release_.post(loop, counted);
      }
      if (--running == 0) loop.stop();
    });
  }
  loop.run();
  all.clear();
  loop.restart();
  while (loop.poll()) {
  }
  EXPECT_EQ(counted->seen, threads * changes);
}

}  // namespace
}  // namespace deferred_release_test
