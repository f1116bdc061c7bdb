// SPDX-License-Identifier: Apache-2.0
// A plug-in that uses gyre: coroutines, a loop, a channel between two threads, a pool.
#include <gyre/exec/loop.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/pool/thread_pool.hpp>
#include <gyre/sync/channel.hpp>
#include <gyre/task/schedule.hpp>
#include <gyre/task/sleep.hpp>
#include <gyre/task/sync_wait.hpp>
#include <gyre/task/task.hpp>

#include <chrono>
#include <optional>
#include <thread>

namespace {

gyre::task<> send_all(gyre::channel<int>& to, int count) {
  for (int i = 0; i < count; ++i) co_await to.send(1);
  to.close();
}

gyre::task<int> receive_all(gyre::loop& loop, gyre::channel<int>& from) {
  co_await gyre::sleep_for(std::chrono::milliseconds(1));
  int sum = 0;
  while (const std::optional<int> next = co_await from.receive()) {
    if (!loop.in_loop_thread()) co_return -1;
    sum += *next;
  }
  co_return sum;
}

}  // namespace

/// Sends `count` ones from one thread to a loop on another, and returns their sum through a pool.
extern "C" [[gnu::visibility("default")]] int run(int count) {
  gyre::loop loop;
  gyre::channel<int> ones(4);
  std::jthread sender([&] { gyre::sync_wait(send_all(ones, count)); });
  const int sum = gyre::sync_wait(loop, receive_all(loop, ones));
  gyre::thread_pool pool({.workers = 2});
  return pool.submit([sum] { return sum; }).get();
}
