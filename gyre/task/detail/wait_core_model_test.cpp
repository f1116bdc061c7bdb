// SPDX-License-Identifier: Apache-2.0
// Model tests of the claim word of a wait: one party is the last, sees what the others did, and
// nobody else touches the wait afterwards.
//
// Each of these mutations, tried by hand, makes a test fail: leave() lacks either half of acq_rel;
// has() is relaxed; join() does not look for the party that it needs; join() or claim() loads and
// stores.
#include <gyre/task/detail/wait_core.hpp>

#include <tests/model/model.hpp>

#include <gtest/gtest.h>

#include <array>
#include <memory>

namespace {

namespace model = gyre::model;
using gyre::detail::wait_core;

constexpr wait_core::parties starter = 1;
constexpr wait_core::parties event = 2;
constexpr wait_core::parties stop = 4;
constexpr wait_core::parties right_to_report = 8;

// On the heap, where the checker finds every access after its end.
struct wait {
  wait_core core;
  int written_by_starter = 0;
  int written_by_event = 0;
};

TEST(WaitCoreModel, TheLastPartySeesWhatTheOthersDid) {
  const auto checked = model::check({.preemptions = model::unlimited}, [] {
    auto* const shared = new wait{.core = wait_core(starter | event)};
    const auto finish = [shared] {
      model::assert_that(shared->written_by_starter == 1, "what the starter wrote is there");
      model::assert_that(shared->written_by_event == 2, "what the event wrote is there");
      delete shared;  // leaks, or is freed twice, unless one party is the last
    };
    model::thread completes([=] {
      shared->written_by_event = 2;
      if (shared->core.leave(event)) finish();
    });
    shared->written_by_starter = 1;
    if (shared->core.leave(starter)) finish();
  });
  EXPECT_TRUE(checked) << checked;
}

TEST(WaitCoreModel, AnAbsentPartyHasShownWhatItDid) {
  const auto checked = model::check({.preemptions = model::unlimited}, [] {
    wait shared{.core = wait_core(starter | event)};
    model::thread completes([&] {
      shared.written_by_event = 2;
      static_cast<void>(shared.core.leave(event));
    });
    if (!shared.core.has(event)) {
      model::assert_that(shared.written_by_event == 2, "what the event wrote is there");
    }
  });
  EXPECT_TRUE(checked) << checked;
}

// A stop joins after the start, as a stop callback does.
TEST(WaitCoreModel, AStopJoinsOnlyWhileTheEventIsThere) {
  const auto checked = model::check({.preemptions = 3}, [] {
    model::atomic<int> ends{0};
    const std::unique_ptr<wait> shared(new wait{.core = wait_core(event)});
    const auto end = [&] {
      // relaxed: only counted.
      ends.fetch_add(1, std::memory_order_relaxed);
      model::assert_that(shared->written_by_event == 2, "what the event wrote is there");
    };
    {
      model::thread stops([&] {
        if (!shared->core.join(stop, event)) {
          model::assert_that(shared->written_by_event == 2, "the event has left");
        } else if (shared->core.leave(stop)) {
          end();
        }
      });
      shared->written_by_event = 2;
      if (shared->core.leave(event)) end();
    }
    model::assert_that(ends.load(std::memory_order_relaxed) == 1, "it ended once");
    model::assert_that(!shared->core.has(event | stop), "nobody is left");
  });
  EXPECT_TRUE(checked) << checked;
}

TEST(WaitCoreModel, OneOfSeveralReportersClaimsTheRight) {
  const auto checked = model::check({.preemptions = 3}, [] {
    auto* const shared = new wait{.core = wait_core(starter | event | right_to_report)};
    std::array<bool, 2> claimed{};
    {
      const auto report = [&, shared](bool& is_first) {
        is_first = shared->core.claim(right_to_report);
        if (!is_first) return;
        shared->written_by_event = 2;
        static_cast<void>(shared->core.leave(event));
      };
      model::thread one([&] { report(claimed[0]); });
      model::thread other([&] { report(claimed[1]); });
    }
    model::assert_that(claimed[0] != claimed[1], "one of them reports");
    model::assert_that(shared->core.leave(starter), "the starter is the last");
    model::assert_that(shared->written_by_event == 2, "the report is there");
    delete shared;
  });
  EXPECT_TRUE(checked) << checked;
}

// As select() waits: a claimant comes after the start, a stop at any time.
TEST(WaitCoreModel, AClaimantOrAStopEndsTheWaitAndResumesOnce) {
  const auto checked = model::check({.preemptions = 3}, [] {
    wait shared{.core = wait_core(starter | event | right_to_report)};
    model::atomic<bool> queued{false};
    model::atomic<int> resumptions{0};
    bool continues = false;
    {
      model::thread claims([&] {
        // acquire: as the lock of the queue.
        if (!queued.load(std::memory_order_acquire)) return;
        if (!shared.core.claim(right_to_report)) return;
        shared.written_by_event = 1;
        resumptions.fetch_add(1, std::memory_order_relaxed);  // relaxed: only counted
      });
      model::thread stops([&] {
        if (!shared.core.claim(right_to_report)) return;
        shared.written_by_event = 2;
        if (shared.core.leave(event)) {
          resumptions.fetch_add(1, std::memory_order_relaxed);  // relaxed: only counted
        }
      });
      continues = shared.core.leave(starter);
      if (continues) {
        model::assert_that(shared.written_by_event == 2, "what the stop wrote is there");
      } else {
        queued.store(true, std::memory_order_release);
      }
    }
    const int resumed = resumptions.load(std::memory_order_relaxed);
    model::assert_that(resumed == (continues ? 0 : 1), "it continued or was resumed once");
  });
  EXPECT_TRUE(checked) << checked;
}

}  // namespace
