// SPDX-License-Identifier: Apache-2.0
// Model tests of the protocol of waiting, in the smallest primitive that needs all of it: a waiter
// that is concurrently completed, cancelled and destroyed is woken exactly once or not at all, and
// nothing touches it after its possible end.
#include <gyre/sync/detail/waiter.hpp>

#include <gyre/sync/detail/model_visitor_test_support.hpp>
#include <gyre/sync/detail/primitive_wait.hpp>
#include <gyre/sync/detail/state_word.hpp>
#include <tests/model/model.hpp>

#include <gtest/gtest.h>

#include <memory>

namespace {

namespace model = gyre::model;
using gyre::inplace_stop_source;
using gyre::inplace_stop_token;
using gyre::detail::locked_state;
using gyre::detail::state_word;
using gyre::detail::waiter;
using gyre::detail::woken_waiters;
using gyre::test::await;
using gyre::test::make_visitor;

// Lets as many waiters through as were allowed, in their order.
class gate {
 public:
  void allow() {
    woken_waiters ready;
    locked_state state(state_);
    if (waiting_.empty()) {
      state.value += one;
    } else {
      ready.complete(waiting_.front());
    }
  }

  static bool admit(waiter&) { return false; }
  bool enlist(waiter& node) {
    locked_state state(state_);
    if (state.value >= one) {
      state.value -= one;
      node.complete();
      return false;
    }
    if (node.is_cancelled()) return false;
    node.join(waiting_);
    return true;
  }
  bool withdraw(waiter& node) {
    locked_state state(state_);
    return node.withdraw();
  }

  unsigned allowed() {
    locked_state state(state_);
    return static_cast<unsigned>(state.value / one);
  }

 private:
  static constexpr state_word::word one = 2;
  state_word state_;
  gyre::detail::waiter_list<waiter> waiting_;
};

using pass = gyre::detail::primitive_wait<void, gate>;

bool visit(gate& through, inplace_stop_token stop) {
  return await(pass(through), stop).has_value();
}

TEST(WaiterModel, IsCompletedOrCancelledNotBothNorNeither) {
  const auto checked =
      model::check({.preemptions = 2, .stale_reads = 1, .spurious_failures = 0}, [] {
        gate place;
        inplace_stop_source source;
        bool passed = false;
        {
          model::thread completer([&] { place.allow(); });
          model::thread canceller([&] { source.request_stop(); });
          passed = visit(place, source.get_token());
        }
        model::assert_that(place.allowed() == (passed ? 0U : 1U), "nothing was lost or doubled");
      });
  EXPECT_TRUE(checked) << checked;
}

TEST(WaiterModel, CompletionNeedsNoStopToken) {
  const auto checked = model::check({.preemptions = model::unlimited}, [] {
    gate place;
    model::thread completer([&] { place.allow(); });
    model::assert_that(visit(place, {}), "passed");
    completer.join();
    model::assert_that(place.allowed() == 0, "used");
  });
  EXPECT_TRUE(checked) << checked;
  EXPECT_TRUE(checked.exhaustive);
}

TEST(WaiterModel, CancellationAloneEndsTheWait) {
  const auto checked = model::check({.preemptions = 3, .spurious_failures = 0}, [] {
    gate place;
    inplace_stop_source source;
    model::thread canceller([&] { source.request_stop(); });
    model::assert_that(!visit(place, source.get_token()), "cancelled");
    canceller.join();
  });
  EXPECT_TRUE(checked) << checked;
}

TEST(WaiterModel, ResumptionSeesWhatCameBeforeTheCompletion) {
  const auto checked = model::check({.preemptions = model::unlimited}, [] {
    gate place;
    int sent = 0;
    model::thread completer([&] {
      sent = 42;
      place.allow();
    });
    model::assert_that(visit(place, {}) && sent == 42, "arrived");
    completer.join();
  });
  EXPECT_TRUE(checked) << checked;
  EXPECT_TRUE(checked.exhaustive);
}

TEST(WaiterModel, CancelledNeighbourLeavesTheListInOrder) {
  const auto checked = model::check({.preemptions = 2, .spurious_failures = 0}, [] {
    gate place;
    inplace_stop_source source;
    auto first = make_visitor(pass(place));
    auto second = make_visitor(pass(place), source.get_token());
    auto third = make_visitor(pass(place));
    model::assert_that(first->begin() && second->begin() && third->begin(), "all wait");
    {
      model::thread canceller([&] { source.request_stop(); });
      model::thread completer([&] {
        place.allow();
        place.allow();
      });
      first->sleep();
      model::assert_that(first->end().has_value(), "the first passed");
      first.reset();
      second->sleep();
      const bool both = second->end().has_value();
      second.reset();
      if (both) place.allow();
      third->sleep();
      model::assert_that(third->end().has_value(), "the last passed");
      third.reset();
    }
    model::assert_that(place.allowed() == 0, "nothing left over");
  });
  EXPECT_TRUE(checked) << checked;
}

TEST(WaiterModel, DestroyedWaiterIsNotTouchedByThoseWhoComeLater) {
  const auto checked = model::check({.preemptions = 2, .spurious_failures = 0}, [] {
    gate place;
    inplace_stop_source source;
    auto gone = make_visitor(pass(place));
    auto stays = make_visitor(pass(place), source.get_token());
    model::assert_that(gone->begin() && stays->begin(), "both wait");
    {
      model::thread canceller([&] { source.request_stop(); });
      gone.reset();
      place.allow();
      stays->sleep();
      const bool passed = stays->end().has_value();
      stays.reset();
      model::assert_that(place.allowed() == (passed ? 0U : 1U), "nothing was lost or doubled");
    }
  });
  EXPECT_TRUE(checked) << checked;
}

TEST(WaiterModel, PlaceMayEndWithItsLastVisitor) {
  const auto checked = model::check({.preemptions = model::unlimited}, [] {
    auto place = std::make_unique<gate>();
    model::thread completer([through = place.get()] { through->allow(); });
    model::assert_that(visit(*place, {}), "passed");
    place.reset();
  });
  EXPECT_TRUE(checked) << checked;
  EXPECT_TRUE(checked.exhaustive);
}

}  // namespace
