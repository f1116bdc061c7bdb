// SPDX-License-Identifier: Apache-2.0
// The protocol of waiting under every schedule, in the smallest primitive that needs all of it: a
// waiter that is completed, cancelled and destroyed at once is woken exactly once or not at all,
// and nothing of it is touched when it may be gone.
#include <gyre/sync/detail/state_word.hpp>
#include <gyre/sync/detail/waiter.hpp>

#include <gtest/gtest.h>
#include <tests/model/model.hpp>

#include <coroutine>
#include <memory>

namespace {

namespace model = gyre::model;
using gyre::inplace_stop_source;
using gyre::inplace_stop_token;
using gyre::detail::locked_state;
using gyre::detail::state_word;
using gyre::detail::wait_operation;
using gyre::detail::waiter;
using gyre::detail::woken_waiters;

// Lets through as many as were allowed, in their order.
class gate {
 public:
  void allow() {
    woken_waiters ready;
    locked_state state(state_);
    if (waiting_.empty()) {
      state.now += one;
    } else {
      ready.complete(waiting_.front());
    }
  }

  bool enlist(waiter& arriving) {
    locked_state state(state_);
    if (arriving.is_cancelled()) return false;
    if (state.now >= one) {
      state.now -= one;
      arriving.complete();
      return false;
    }
    arriving.join(waiting_);
    return true;
  }
  bool withdraw(waiter& leaving) {
    locked_state state(state_);
    return leaving.withdraw();
  }

  unsigned allowed() {
    locked_state state(state_);
    return static_cast<unsigned>(state.now / one);
  }

 private:
  static constexpr state_word::word one = 2;
  state_word state_;
  gyre::intrusive_list<waiter> waiting_;
};

struct pass : wait_operation<gate> {
  explicit pass(gate& through) : wait_operation(through) {}
  using wait_operation::finish;
};

// Wakes the thread whose turn it is, instead of resuming a coroutine.
struct bell final : gyre::executor {
  void post(gyre::operation&) noexcept override { rung.wake(); }
  bool running_here() const noexcept override { return true; }
  model::event rung;
};

struct fake_promise : gyre::detail::promise_base {};

// A coroutine that waits, as far as the protocol sees it. On the heap, where every access after its
// end is found.
struct visitor {
  visitor(gate& through, inplace_stop_token stop) : operation(through) {
    context.where = &where;
    context.stop = stop;
    promise.context = &context;
  }
  bool suspend() {
    return operation.await_suspend(std::coroutine_handle<fake_promise>::from_promise(promise));
  }
  bool wait() {
    if (suspend()) where.rung.wait();
    return operation.finish();
  }
  bell where;
  gyre::task_context context;
  fake_promise promise{};
  pass operation;
};

bool visit(gate& through, inplace_stop_token stop) {
  return std::make_unique<visitor>(through, stop)->wait();
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
    auto first = std::make_unique<visitor>(place, inplace_stop_token());
    auto second = std::make_unique<visitor>(place, source.get_token());
    auto third = std::make_unique<visitor>(place, inplace_stop_token());
    model::assert_that(first->suspend() && second->suspend() && third->suspend(), "all wait");
    {
      model::thread canceller([&] { source.request_stop(); });
      model::thread completer([&] {
        place.allow();
        place.allow();
      });
      first->where.rung.wait();
      model::assert_that(first->operation.finish(), "the first passed");
      first.reset();
      second->where.rung.wait();
      const bool both = second->operation.finish();
      second.reset();
      if (both) place.allow();
      third->where.rung.wait();
      model::assert_that(third->operation.finish(), "the last passed");
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
    auto gone = std::make_unique<visitor>(place, inplace_stop_token());
    auto stays = std::make_unique<visitor>(place, source.get_token());
    model::assert_that(gone->suspend() && stays->suspend(), "both wait");
    {
      model::thread canceller([&] { source.request_stop(); });
      gone.reset();
      place.allow();
      stays->where.rung.wait();
      const bool passed = stays->operation.finish();
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
