// SPDX-License-Identifier: Apache-2.0
// forking_tree: a tree of forks that yield and fail on the way, for stress tests of executors.
#pragma once

#include <gyre/task/fork.hpp>
#include <gyre/task/schedule.hpp>
#include <gyre/task/task.hpp>

#include <atomic>
#include <stdexcept>
#include <utility>

namespace gyre::test {

/// Gives 2^depth, and adds one to `failed` for each node but the leaves. Handles are awaited in the
/// order of the forks and the reverse, on the thread of the fork or another.
inline task<int> forking_tree(int depth, std::atomic<int>& failed) {
  if (depth == 0) co_return 1;
  if (depth % 4 == 3) co_await yield();
  auto first = co_await fork(forking_tree(depth - 1, failed));
  auto second = co_await fork(forking_tree(depth - 1, failed));
  auto bad = co_await fork([](int waits) -> task<int> {
    for (int i = 0; i < waits; ++i) co_await yield();
    throw std::runtime_error("failed");
  }(depth % 3));
  if (depth % 4 == 1) co_await yield();  // perhaps on another worker
  int sum = 0;
  if (depth % 2 == 0) {
    sum += co_await std::move(first);
    sum += co_await std::move(second);
  } else {
    sum += co_await std::move(second);
    sum += co_await std::move(first);
  }
  try {
    sum += co_await std::move(bad);
  } catch (const std::runtime_error&) {
    ++failed;
  }
  co_return sum;
}

}  // namespace gyre::test
