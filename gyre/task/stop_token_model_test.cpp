// SPDX-License-Identifier: Apache-2.0
//
// Model tests of stop tokens: a callback runs once or not at all, never after its end, and an
// observer of a stop sees the writes before the request.
//
// Each of these mutations, tried by hand, makes a test fail: a memory order is weaker; detach()
// does not wait; detach() does not check the thread; a link is made twice, is not made before the
// callback is attached, or a source without one does not ask its parent.
#include <gyre/task/stop_token.hpp>

#include <tests/model/model.hpp>

#include <gtest/gtest.h>

#include <memory>

namespace {

namespace model = gyre::model;
using gyre::inplace_stop_callback;
using gyre::inplace_stop_source;
using gyre::detail::linked_stop_source;

// Counts in plain memory, so that a call that is not ordered with the reader is a race.
struct counted {
  int* calls;
  void operator()() const { ++*calls; }
};
using counting = inplace_stop_callback<counted>;

// A callback on the heap, where every access after its end is found.
struct passing {
  explicit passing(const inplace_stop_source& source)
      : callback(std::make_unique<counting>(source.get_token(), counted{calls.get()})) {}
  int leave() {
    callback.reset();
    const int called = *calls;
    calls.reset();
    return called;
  }
  std::unique_ptr<int> calls = std::make_unique<int>(0);
  std::unique_ptr<counting> callback;
};

TEST(StopTokenModel, CallbackThatLeavesIsNeverCalledAfterwards) {
  const auto checked = model::check({.preemptions = model::unlimited}, [] {
    inplace_stop_source source;
    model::thread requester([&] { source.request_stop(); });
    passing callback(source);
    model::assert_that(callback.leave() <= 1, "called at most once");
    requester.join();
  });
  EXPECT_TRUE(checked) << checked;
  EXPECT_TRUE(checked.exhaustive);
}

TEST(StopTokenModel, CallbackThatStaysIsCalledOnce) {
  const auto checked = model::check({.preemptions = model::unlimited}, [] {
    inplace_stop_source source;
    model::thread requester([&] { source.request_stop(); });
    passing callback(source);
    requester.join();
    model::assert_that(*callback.calls == 1, "called once");
    callback.leave();
  });
  EXPECT_TRUE(checked) << checked;
  EXPECT_TRUE(checked.exhaustive);
}

TEST(StopTokenModel, CallbacksLeaveAListThatIsBeingCalled) {
  const auto checked = model::check({.preemptions = 2, .spurious_failures = 0}, [] {
    inplace_stop_source source;
    passing older(source);
    passing younger(source);
    model::thread requester([&] { source.request_stop(); });
    model::thread other([&] { model::assert_that(older.leave() <= 1, "called at most once"); });
    model::assert_that(younger.leave() <= 1, "called at most once");
  });
  EXPECT_TRUE(checked) << checked;
}

TEST(StopTokenModel, CallbacksComeAndGoTogether) {
  const auto checked = model::check({.preemptions = 3}, [] {
    inplace_stop_source source;
    passing resident(source);
    {
      model::thread one([&] { model::assert_that(passing(source).leave() == 0, "no stop"); });
      model::thread other([&] { model::assert_that(passing(source).leave() == 0, "no stop"); });
    }
    source.request_stop();
    model::assert_that(*resident.calls == 1, "called once");
    resident.leave();
  });
  EXPECT_TRUE(checked) << checked;
}

TEST(StopTokenModel, OneOfTwoRequestsIsTheFirst) {
  const auto checked = model::check({.preemptions = 3}, [] {
    inplace_stop_source source;
    passing callback(source);
    bool mine = false;
    bool theirs = false;
    model::thread requester([&] { theirs = source.request_stop(); });
    mine = source.request_stop();
    requester.join();
    model::assert_that(mine != theirs, "one of them is the first");
    model::assert_that(*callback.calls == 1, "called once");
    callback.leave();
  });
  EXPECT_TRUE(checked) << checked;
}

TEST(StopTokenModel, ObserverOfTheStopSeesWritesBeforeIt) {
  const auto checked = model::check({.preemptions = 6}, [] {
    inplace_stop_source source;
    int reason = 0;
    model::thread requester([&] {
      reason = 42;
      source.request_stop();
    });
    if (source.stop_requested()) model::assert_that(reason == 42, "the reason arrived");
    {
      inplace_stop_callback callback(
          source.get_token(), [&] { model::assert_that(reason == 42, "the reason arrived"); });
    }
    requester.join();
  });
  EXPECT_TRUE(checked) << checked;
}

TEST(StopTokenModel, CallbackMayDestroyItselfWhileOthersLeave) {
  struct destroys {
    std::unique_ptr<inplace_stop_callback<destroys>>* self;
    void operator()() const { self->reset(); }
  };
  const auto checked = model::check({.preemptions = 3}, [] {
    inplace_stop_source source;
    passing older(source);
    std::unique_ptr<inplace_stop_callback<destroys>> callback;
    callback =
        std::make_unique<inplace_stop_callback<destroys>>(source.get_token(), destroys{&callback});
    model::thread requester([&] { source.request_stop(); });
    model::assert_that(older.leave() <= 1, "called at most once");
    requester.join();
    model::assert_that(callback == nullptr, "called");
  });
  EXPECT_TRUE(checked) << checked;
}

TEST(StopTokenModel, LinkedSourceMayEndWhileItsParentStops) {
  const auto checked = model::check({.preemptions = 2, .spurious_failures = 0}, [] {
    inplace_stop_source parent;
    model::thread requester([&] { parent.request_stop(); });
    {
      auto child = std::make_unique<linked_stop_source>(parent.get_token());
      passing callback(*child);
      model::assert_that(callback.leave() <= 1, "called at most once");
    }
    requester.join();
  });
  EXPECT_TRUE(checked) << checked;
}

TEST(StopTokenModel, AStopReachesSourcesWhoseLinksAreBeingMade) {
  const auto checked = model::check({.preemptions = 1, .spurious_failures = 0}, [] {
    inplace_stop_source oldest;
    linked_stop_source parent(oldest.get_token());
    linked_stop_source child(parent.get_token());
    model::thread requester([&] { oldest.request_stop(); });
    {
      passing early(child);
      requester.join();
      model::assert_that(*early.calls == 1, "called once");
      early.leave();
    }
    model::assert_that(child.stop_requested(), "the stop has come through");
  });
  EXPECT_TRUE(checked) << checked;
}

TEST(StopTokenModel, TwoThreadsMakeOneLink) {
  const auto checked = model::check({.preemptions = 2, .spurious_failures = 0}, [] {
    inplace_stop_source parent;
    linked_stop_source child(parent.get_token());
    {
      model::thread other([&] { model::assert_that(passing(child).leave() == 0, "no stop"); });
      passing mine(child);
      other.join();
      parent.request_stop();
      model::assert_that(*mine.calls == 1, "called once");
      mine.leave();
    }
    model::assert_that(child.stop_requested(), "the stop has come through");
  });
  EXPECT_TRUE(checked) << checked;
}

TEST(StopTokenModel, AStopIsSeenThroughALinkThatIsNotMade) {
  const auto checked = model::check({.preemptions = 3}, [] {
    inplace_stop_source parent;
    linked_stop_source child(parent.get_token());
    int reason = 0;
    model::thread requester([&] {
      reason = 42;
      parent.request_stop();
    });
    if (child.stop_requested()) model::assert_that(reason == 42, "the reason arrived");
    requester.join();
    model::assert_that(child.stop_requested(), "seen after the request");
  });
  EXPECT_TRUE(checked) << checked;
}

}  // namespace
