// SPDX-License-Identifier: Apache-2.0
// Tests of the fifo inbox; inbox_stress_test.cpp has those with many threads. In small segments
// tasks often reach the end, where segments are linked, retired and reused.
#include <gyre/exec/inbox/fifo.hpp>

#include <gyre/exec/inbox/inbox_test_suite.hpp>
#include <gyre/exec/inbox/own_inboxes_test_support.hpp>

#include <vector>

namespace gyre::inbox::suite {

INSTANTIATE_TYPED_TEST_SUITE_P(fifo, InboxSuite, fifo_inboxes);

static_assert(fifo::order == ordering::total);

TEST(Fifo, ALoopThatPostsToItselfPassesTheHighWaterMark) {
  const int tasks = 3 * static_cast<int>(fifo::high_water);
  fifo inbox;
  std::vector<int> seen;
  inbox.push([&] {
    for (int i = 0; i < tasks; ++i) inbox.push([&seen, i] { seen.push_back(i); });
  });
  EXPECT_EQ(run(inbox), 1 + static_cast<std::size_t>(tasks));
  EXPECT_EQ(seen, numbers_up_to(tasks));
}

}  // namespace gyre::inbox::suite
