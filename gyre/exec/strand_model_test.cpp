// SPDX-License-Identifier: Apache-2.0
// Model tests of a strand on an executor with several threads: no operation is lost, none runs
// beside another or twice, each sees what the one before did, and the strand may end with the last.
//
// Each of these mutations, tried by hand, makes a test fail: push() does not release, or take() not
// acquire; a turn does not exchange its mark as an acquire, clears it without release, or only
// after it went idle; it goes idle without a look at the queue; close() does not wait for a turn,
// or says so by a relaxed store; every push posts the core; the mark is that of the thread, also
// while it runs other work.
#include <gyre/exec/strand.hpp>

#include <gyre/base/operation.hpp>
#include <gyre/task/detail/nested_run.hpp>
#include <gyre/task/executor.hpp>
#include <tests/model/model.hpp>

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <mutex>
#include <optional>
#include <utility>

namespace {

namespace model = gyre::model;
using gyre::strand;

// Runs each operation on a thread of its own, as an executor of many threads may.
class many_threads final : public gyre::executor {
 public:
  void post(gyre::operation& op) noexcept override {
    const std::lock_guard lock(mutex_);
    model::assert_that(posts_ < runners_.size(), "few turns");
    runners_[posts_++].emplace([&op] { op.execute(); });
  }
  bool running_here() const noexcept override { return false; }
  // All turns must have been posted.
  void join() {
    for (auto& each : runners_) each.reset();
  }

 private:
  std::mutex mutex_;
  std::size_t posts_ = 0;
  std::array<std::optional<model::thread>, 4> runners_;
};

// The data of the strand's operations, which no lock protects: the checker finds races.
struct shared_data {
  int runs = 0;
  bool running = false;
};

struct message : gyre::operation {
  explicit message(function to_run = &run) : operation(to_run) {}
  static void run(operation& self) {
    auto& own = static_cast<message&>(self);
    model::assert_that(own.sent != 0, "what came before the post is visible");
    model::assert_that(!own.data->running, "none runs beside another");
    own.data->running = true;
    ++own.runs;
    const bool last = ++own.data->runs == own.total;
    own.data->running = false;
    if (own.repost_to != nullptr) std::exchange(own.repost_to, nullptr)->post(self);
    if (last) own.ended->wake();
  }
  void post_to(strand& to, int number) {
    sent = number;
    to.post(*this);
  }
  shared_data* data = nullptr;
  model::event* ended = nullptr;
  strand* repost_to = nullptr;
  int total = 0;
  int sent = 0;
  int runs = 0;
};

template <std::size_t Count>
struct messages : std::array<message, Count> {
  explicit messages(int total = static_cast<int>(Count)) {
    for (message& each : *this) {
      each.data = &data;
      each.ended = &ended;
      each.total = total;
    }
  }
  shared_data data;
  model::event ended;
};

TEST(StrandModel, LosesNoOperationOfTwoThreadsAndRunsOneAtATime) {
  const auto checked = model::check({.preemptions = 2, .spurious_failures = 0}, [] {
    many_threads below;
    {
      strand serial(below);
      messages<2> sent;
      model::thread other([&] { sent[1].post_to(serial, 2); });
      sent[0].post_to(serial, 1);
      sent.ended.wait();
      other.join();
      model::assert_that(sent[0].runs == 1 && sent[1].runs == 1, "each ran once");
      below.join();
    }
  });
  EXPECT_TRUE(checked) << checked;
}

TEST(StrandModel, RunsOperationsOfOneThreadInTheirOrder) {
  const auto checked = model::check({.preemptions = 2, .spurious_failures = 0}, [] {
    many_threads below;
    strand serial(below);
    messages<3> sent;
    for (int i = 0; i < 3; ++i) sent[static_cast<std::size_t>(i)].post_to(serial, i + 1);
    sent.ended.wait();
    model::assert_that(sent[2].runs == 1, "the last ends it");
    below.join();
  });
  EXPECT_TRUE(checked) << checked;
}

TEST(StrandModel, MayEndWithItsLastOperation) {
  const auto checked = model::check({.preemptions = 2, .spurious_failures = 0}, [] {
    many_threads below;
    messages<2> sent;
    {
      strand serial(below);
      model::thread other([&] { sent[1].post_to(serial, 2); });
      sent[0].post_to(serial, 1);
      sent.ended.wait();
      other.join();
    }  // while the turn may not be over
    below.join();
  });
  EXPECT_TRUE(checked) << checked;
}

TEST(StrandModel, RunsAnOperationThatPostsItselfAgain) {
  const auto checked = model::check({.preemptions = 2, .spurious_failures = 0}, [] {
    many_threads below;
    messages<2> sent(3);
    {
      strand serial(below);
      sent[0].repost_to = &serial;
      model::thread other([&] { sent[1].post_to(serial, 2); });
      sent[0].post_to(serial, 1);
      sent.ended.wait();
      other.join();
    }
    model::assert_that(sent[0].runs == 2 && sent[1].runs == 1, "twice, and once");
    below.join();
  });
  EXPECT_TRUE(checked) << checked;
}

// An operation waits, and its thread runs other work meanwhile, which would resume a coroutine of
// the strand at once if the strand were here.
struct helping : message {
  helping() : message(&run) {}
  static void run(operation& self) {
    auto& own = static_cast<helping&>(self);
    own.data->running = true;
    {
      const gyre::detail::nested_run helped;
      if (own.serial->running_here()) {
        own.resumed->execute();
      } else {
        own.resumed->post_to(*own.serial, 2);
      }
    }
    model::assert_that(own.serial->running_here(), "the wait is over");
    own.data->running = false;
    message::run(self);
  }
  strand* serial = nullptr;
  message* resumed = nullptr;
};

TEST(StrandModel, RunsNoOperationAboveOneThatWaits) {
  const auto checked = model::check({.preemptions = 2, .spurious_failures = 0}, [] {
    many_threads below;
    strand serial(below);
    messages<2> sent(3);
    helping waits;
    waits.data = &sent.data;
    waits.ended = &sent.ended;
    waits.total = 3;
    waits.serial = &serial;
    waits.resumed = &sent[0];
    model::thread other([&] { sent[1].post_to(serial, 3); });
    waits.post_to(serial, 1);
    sent.ended.wait();
    other.join();
    below.join();
  });
  EXPECT_TRUE(checked) << checked;
}

// The strand ends while an operation waits for its turn: it is discarded, or has run.
struct spawned : gyre::operation {
  explicit spawned(int& fate) : operation(&run), ended(fate) {}
  static void run(operation& self) { static_cast<spawned&>(self).ended += 1; }
  static void discard(operation& self) noexcept { static_cast<spawned&>(self).ended += 10; }
  int& ended;
};

TEST(StrandModel, DiscardsWhatHasNotStartedOrHasRunIt) {
  const auto checked = model::check({.preemptions = 3, .spurious_failures = 0}, [] {
    many_threads below;
    int fate = 0;
    spawned one(fate);
    {
      strand serial(below);
      serial.post_discardable(one, &spawned::discard);
    }
    const int at_end = fate;
    below.join();
    model::assert_that(at_end == 1 || at_end == 10, "before the end of the strand");
    model::assert_that(fate == at_end, "once");
  });
  EXPECT_TRUE(checked) << checked;
}

}  // namespace
