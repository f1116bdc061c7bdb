// SPDX-License-Identifier: Apache-2.0
//
// Model tests of one message for many wakers: no waker relies on a message that is not sent.
//
// Mutations, tried by hand one at a time, and the tests that fail:
//   begin() exchanges relaxed: both
//   taken() stores, or exchanges relaxed: both
//   failed() stores: …CannotBeSent
//   begin() always allows sending: OneMessageTells…, as more messages come than were taken
#include <gyre/base/detail/wake_event.hpp>

#include <gyre/base/atomic.hpp>
#include <tests/model/model.hpp>

#include <gtest/gtest.h>

#include <array>
#include <cstddef>

namespace {

namespace model = gyre::model;

constexpr auto relaxed = std::memory_order_relaxed;

// A loop that waits for messages, and wakers, each with a flag that only the message makes visible.
struct party {
  void post(std::size_t waker, bool can_send = true) {
    posted[waker].store(true, relaxed);
    if (!message.begin()) return;
    if (can_send) {
      sent.fetch_add(1, relaxed);
    } else {
      message.failed();
    }
    told.wake();
  }
  bool has_all() const { return posted[0].load(relaxed) && posted[1].load(relaxed); }
  void wait_for_all() {
    while (!has_all()) {
      told.wait();
      ++taken;
      message.taken();
    }
  }

  gyre::detail::pending_message message;
  model::event told;  // the ring, or a descriptor
  std::array<gyre::detail::atomic<bool>, 2> posted{};
  gyre::detail::atomic<int> sent{0};
  int taken = 0;
};

TEST(PendingMessageModel, OneMessageTellsOfAllWhoReliedOnIt) {
  const auto checked = model::check({.preemptions = model::unlimited}, [] {
    party all;
    {
      model::thread one([&] { all.post(0); });
      model::thread other([&] { all.post(1); });
      all.wait_for_all();
    }
    model::assert_that(all.sent.load(relaxed) <= all.taken + 1, "one at a time is under way");
  });
  EXPECT_TRUE(checked) << checked;
  EXPECT_TRUE(checked.exhaustive);
}

TEST(PendingMessageModel, TheDescriptorWakesIfTheMessageCannotBeSent) {
  const auto checked = model::check({.preemptions = model::unlimited}, [] {
    party all;
    model::thread one([&] { all.post(0, false); });
    model::thread other([&] { all.post(1); });
    all.wait_for_all();
    one.join();
    other.join();
  });
  EXPECT_TRUE(checked) << checked;
  EXPECT_TRUE(checked.exhaustive);
}

}  // namespace
