// SPDX-License-Identifier: Apache-2.0
// InboxSuite: tests of every inbox on one thread, which each inbox instantiates:
//     INSTANTIATE_TYPED_TEST_SUITE_P(fifo, InboxSuite, ::testing::Types<gyre::inbox::fifo>);
#pragma once

#include <gyre/exec/inbox/inbox.hpp>
#include <gyre/exec/inbox/inbox_test_support.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <latch>
#include <memory>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

namespace gyre::inbox::suite {

/// Posts another one of its kind when it is destroyed, `left` times over.
template <class Inbox>
class heir {
 public:
  heir(Inbox& inbox, fates& told, int left) noexcept : inbox_(&inbox), told_(&told), left_(left) {}
  heir(heir&& other) noexcept
      : inbox_(std::exchange(other.inbox_, nullptr)), told_(other.told_), left_(other.left_) {}
  heir& operator=(heir&&) = delete;
  ~heir() {
    if (inbox_ == nullptr) return;
    ++told_->destroyed;
    if (left_ > 0) inbox_->push(heir(*inbox_, *told_, left_ - 1));
  }
  void operator()() const { ++told_->run; }

 private:
  Inbox* inbox_;
  fates* told_;
  int left_;
};

/// Posts its successor when it runs, `left` times over.
template <class Inbox>
struct chain_link {
  Inbox& inbox;
  int& runs;
  int left;
  void operator()() const {
    ++runs;
    if (left > 0) inbox.push(chain_link{inbox, runs, left - 1});
  }
};

template <class Inbox>
class InboxSuite : public ::testing::Test {};
TYPED_TEST_SUITE_P(InboxSuite);

TYPED_TEST_P(InboxSuite, AFreshInboxHoldsNothing) {
  TypeParam inbox;
  EXPECT_FALSE(inbox.ready());
  expect_pending(inbox, 0);
  EXPECT_EQ(run(inbox), 0U);
}

TYPED_TEST_P(InboxSuite, RunsTasksInTheOrderInWhichOneThreadPostsThem) {
  TypeParam inbox;
  std::vector<int> seen;
  for (int i = 0; i < 2500; ++i) inbox.push([&seen, i] { seen.push_back(i); });
  EXPECT_EQ(run(inbox), 2500U);
  EXPECT_EQ(seen, numbers_up_to(2500));
}

TYPED_TEST_P(InboxSuite, KeepsTheOrderWhileTasksComeAndGo) {
  TypeParam inbox;
  std::vector<int> seen;
  int posted = 0;
  for (std::size_t round = 0; round < 300; ++round) {
    for (std::size_t i = 0; i < round % 23; ++i, ++posted) {
      inbox.push([&seen, id = posted] { seen.push_back(id); });
    }
    run(inbox, round % 19);
  }
  run(inbox);
  EXPECT_EQ(seen, numbers_up_to(posted));
}

TYPED_TEST_P(InboxSuite, KnowsWhatWaits) {
  TypeParam inbox;
  for (std::size_t i = 1; i <= 20; ++i) {
    inbox.push([] {});
    EXPECT_TRUE(inbox.ready());
    expect_pending(inbox, i);
  }
  for (std::size_t left = 20; left-- > 0;) {
    EXPECT_EQ(run(inbox, 1), 1U);
    EXPECT_EQ(inbox.ready(), left > 0);
    expect_pending(inbox, left);
  }
}

TYPED_TEST_P(InboxSuite, ABatchIsNeverExceeded) {
  TypeParam inbox;
  int runs = 0;
  for (int i = 0; i < 100; ++i) inbox.push([&] { ++runs; });
  EXPECT_EQ(run(inbox, 0), 0U);
  EXPECT_EQ(runs, 0);
  for (const int size : {1, 2, 3, 5, 7, 11, 13, 17, 19}) {
    const int before = runs;
    EXPECT_EQ(run(inbox, static_cast<std::size_t>(size)), static_cast<std::size_t>(size));
    EXPECT_EQ(runs - before, size);
  }
  EXPECT_EQ(run(inbox, 100), 22U) << "the batch is larger than what is left";
  EXPECT_EQ(runs, 100);
}

TYPED_TEST_P(InboxSuite, ATaskMayEndItsBatch) {
  TypeParam inbox;
  int runs = 0;
  batch some(no_limit);
  for (int i = 0; i < 10; ++i) {
    inbox.push([&, i] {
      ++runs;
      if (i % 4 == 2) some.end();
    });
  }
  inbox.run(some);
  EXPECT_EQ(runs, 3);
  EXPECT_EQ(some.ran(), 3U);
  EXPECT_FALSE(some.more());
  some = batch(no_limit);
  inbox.run(some);
  EXPECT_EQ(runs, 7);
  EXPECT_EQ(run(inbox), 3U);
}

TYPED_TEST_P(InboxSuite, TakesCallablesOfEverySize) {
  TypeParam inbox;
  fates told;
  int posted = 0;
  static int runs_of_empty;
  runs_of_empty = 0;
  // Posts each kind at many positions of a segment, including its end.
  for (int round = 0; round < 30; ++round) {
    inbox.push([] { ++runs_of_empty; });
    inbox.push(sized_task<16>(told));
    inbox.push(sized_task<24>(told));
    inbox.push(sized_task<32>(told));
    inbox.push(sized_task<64>(told));
    inbox.push(sized_task<120>(told));
    inbox.push(sized_task<128>(told));
    inbox.push(sized_task<200>(told));
    inbox.push(sized_task<6000>(told));
    inbox.push(sized_task<16, 16>(told));
    inbox.push(sized_task<64, 64>(told));
    inbox.push(sized_task<512, 256>(told));
    posted += 11;
  }
  run(inbox);
  EXPECT_EQ(runs_of_empty, 30);
  EXPECT_EQ(told.run, posted);
  EXPECT_EQ(told.destroyed, posted);
}

TYPED_TEST_P(InboxSuite, CallablesOfDifferentSizesKeepTheirOrderAndCountOneEach) {
  TypeParam inbox;
  std::vector<int> seen;
  int posted = 0;
  const auto post = [&]<std::size_t Extra>(std::array<char, Extra> extra) {
    inbox.push([&seen, id = posted, extra] {
      seen.push_back(id);
      EXPECT_TRUE(std::ranges::all_of(extra, [](char each) { return each == 0; }));
    });
    ++posted;
    expect_pending(inbox, static_cast<std::size_t>(posted) - seen.size());
  };
  // Each round begins elsewhere in a segment, whose end comes before callables of every size.
  for (std::size_t round = 0; round < 3000; ++round) {
    if (round % 2 == 0) post(std::array<char, 1>{});
    if (round % 3 == 0) post(std::array<char, 100>{});
    if (round % 5 < 3) post(std::array<char, 40>{});
    if (round % 7 < 2) post(std::array<char, 72>{});
    if (round % 11 == 0) run(inbox, round % 13);
  }
  run(inbox);
  EXPECT_EQ(seen, numbers_up_to(posted));
  expect_pending(inbox, 0);
  EXPECT_FALSE(inbox.ready());
}

TYPED_TEST_P(InboxSuite, TakesFunctionsLvaluesAndWhatCannotBeCopied) {
  TypeParam inbox;
  static int runs;
  runs = 0;
  struct local {
    static void function() { ++runs; }
  };
  inbox.push(local::function);
  inbox.push(&local::function);
  const auto shared = std::make_shared<int>(7);
  const auto lvalue = [shared] { runs += *shared; };
  inbox.push(lvalue);
  inbox.push(lvalue);
  EXPECT_EQ(shared.use_count(), 4) << "an lvalue is copied, not moved from";
  inbox.push([owned = std::make_unique<int>(100)] { runs += *owned; });
  inbox.push([count = 0]() mutable { runs += ++count; });
  run(inbox);
  EXPECT_EQ(runs, 2 + 2 * 7 + 100 + 1);
  EXPECT_EQ(shared.use_count(), 2) << "a task is destroyed when it has run";
}

TYPED_TEST_P(InboxSuite, TakesACopyOfWhatMightThrowWhenMoved) {
  TypeParam inbox;
  int runs = 0;
  const unmovable_task task(runs);
  inbox.push(task);
  inbox.push(task);
  run(inbox);
  EXPECT_EQ(runs, 2);
}

TYPED_TEST_P(InboxSuite, ACopyThatThrowsLeavesTheInboxAsItWas) {
  TypeParam inbox;
  const uncopyable_task uncopyable;
  const large_uncopyable_task large;
  std::vector<int> seen;
  for (int i = 0; i < 20; ++i) {
    EXPECT_THROW(inbox.push(uncopyable), std::runtime_error);
    EXPECT_THROW(inbox.push(large), std::runtime_error);
    expect_pending(inbox, static_cast<std::size_t>(i));
    inbox.push([&seen, i] { seen.push_back(i); });
  }
  EXPECT_EQ(run(inbox), 20U);
  EXPECT_EQ(seen, numbers_up_to(20));
}

TYPED_TEST_P(InboxSuite, ATaskThatThrowsIsDoneAndTheNextOneFollows) {
  TypeParam inbox;
  fates told;
  std::vector<int> seen;
  for (int i = 0; i < 60; ++i) {
    inbox.push([&seen, i, held = witness(told)]() mutable {
      held.ran();
      seen.push_back(i);
      if (i % 3 == 0) throw std::runtime_error("a task's own");
    });
    inbox.push([&told, large = sized_task<100>(told)]() mutable {
      large();
      if (told.run % 5 == 0) throw std::runtime_error("a large task's own");
    });
  }
  std::size_t ran = 0;
  int thrown = 0;
  while (inbox.ready()) {
    batch some(7);
    try {
      inbox.run(some);
    } catch (const std::runtime_error&) {
      ++thrown;
    }
    ran += some.ran();
    EXPECT_EQ(told.destroyed, told.run);
    expect_pending(inbox, 120 - ran);
  }
  EXPECT_EQ(ran, 120U) << "a task that throws counts";
  EXPECT_EQ(seen, numbers_up_to(60));
  EXPECT_EQ(thrown, 20 + 12);
  EXPECT_EQ(told.destroyed, 120);
}

TYPED_TEST_P(InboxSuite, ATaskMayPost) {
  TypeParam inbox;
  int runs = 0;
  inbox.push(chain_link<TypeParam>{inbox, runs, 5000});
  EXPECT_EQ(run(inbox), 5001U) << "a run that is not full leaves nothing behind";
  EXPECT_EQ(runs, 5001);
  expect_pending(inbox, 0);
}

TYPED_TEST_P(InboxSuite, TasksPostedByATaskRunBehindPendingOnes) {
  TypeParam inbox;
  std::vector<int> seen;
  for (int i = 0; i < 10; ++i) {
    inbox.push([&, i] {
      seen.push_back(i);
      inbox.push([&seen, i] { seen.push_back(10 + i); });
    });
  }
  EXPECT_EQ(run(inbox), 20U);
  EXPECT_EQ(seen, numbers_up_to(20));
}

TYPED_TEST_P(InboxSuite, ATaskFromElsewhereMayMakeTheLoopPostForTheFirstTime) {
  TypeParam inbox;
  bool ran = false;
  std::thread([&] { inbox.push([&] { inbox.push([&] { ran = true; }); }); }).join();
  EXPECT_EQ(run(inbox), 2U);
  EXPECT_TRUE(ran);
}

TYPED_TEST_P(InboxSuite, ADestructorMayPost) {
  TypeParam inbox;
  fates told;
  for (int i = 0; i < 5; ++i) inbox.push(heir(inbox, told, 100));
  EXPECT_EQ(run(inbox), 5U * 101);
  EXPECT_EQ(told.run, 5 * 101);
  EXPECT_EQ(told.destroyed, 5 * 101);
}

TYPED_TEST_P(InboxSuite, ItsEndDestroysWhatHasNotRunWithoutRunningIt) {
  fates told;
  {
    TypeParam inbox;
    for (int i = 0; i < 100; ++i) {
      inbox.push(sized_task<16>(told));
      inbox.push(sized_task<300>(told));
      inbox.push(sized_task<100>(told));
      inbox.push(sized_task<64, 64>(told));
    }
    EXPECT_EQ(run(inbox, 50), 50U);
  }
  EXPECT_EQ(told.run, 50);
  EXPECT_EQ(told.destroyed, 400);
}

TYPED_TEST_P(InboxSuite, ItsEndDestroysWhatDestructorsPost) {
  for (const bool owner_posts_too : {false, true}) {
    fates told;
    {
      TypeParam inbox;
      if (owner_posts_too) inbox.push(heir(inbox, told, 40));
      std::thread([&] { inbox.push(heir(inbox, told, 40)); }).join();
      if (owner_posts_too) inbox.push(heir(inbox, told, 40));
    }
    EXPECT_EQ(told.run, 0);
    EXPECT_EQ(told.destroyed, owner_posts_too ? 3 * 41 : 41);
  }
}

TYPED_TEST_P(InboxSuite, ARunThatIsNotFullLeavesNothingBehindWhateverThreadsHaveEnded) {
  TypeParam inbox;
  for (int round = 0; round < 6; ++round) {
    // Threads that end after their tasks have run come before a thread whose task still waits.
    std::latch posted(round);
    std::latch ran(1);
    std::vector<std::jthread> threads;
    for (int i = 0; i < round; ++i) {
      threads.emplace_back([&] {
        inbox.push([] {});
        posted.count_down();
        ran.wait();
      });
    }
    posted.wait();
    EXPECT_EQ(run(inbox), static_cast<std::size_t>(round));
    ran.count_down();
    threads.clear();
    int runs = 0;
    std::thread([&] { inbox.push([&] { ++runs; }); }).join();
    inbox.push([&] { ++runs; });
    EXPECT_EQ(run(inbox), 2U);
    EXPECT_EQ(runs, 2);
    EXPECT_FALSE(inbox.ready());
  }
}

REGISTER_TYPED_TEST_SUITE_P(
    InboxSuite, AFreshInboxHoldsNothing, RunsTasksInTheOrderInWhichOneThreadPostsThem,
    KeepsTheOrderWhileTasksComeAndGo, KnowsWhatWaits, ABatchIsNeverExceeded, ATaskMayEndItsBatch,
    TakesCallablesOfEverySize, CallablesOfDifferentSizesKeepTheirOrderAndCountOneEach,
    TakesFunctionsLvaluesAndWhatCannotBeCopied, TakesACopyOfWhatMightThrowWhenMoved,
    ACopyThatThrowsLeavesTheInboxAsItWas, ATaskThatThrowsIsDoneAndTheNextOneFollows, ATaskMayPost,
    TasksPostedByATaskRunBehindPendingOnes, ATaskFromElsewhereMayMakeTheLoopPostForTheFirstTime,
    ADestructorMayPost, ItsEndDestroysWhatHasNotRunWithoutRunningIt,
    ItsEndDestroysWhatDestructorsPost,
    ARunThatIsNotFullLeavesNothingBehindWhateverThreadsHaveEnded);

}  // namespace gyre::inbox::suite
