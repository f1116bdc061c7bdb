// SPDX-License-Identifier: Apache-2.0
// A user's program: its own thread posts to a loop, a timer ends it; a coroutine counts afterwards.
#include <chrono>
#include <cstdio>
#include <thread>

#include <gyre/gyre.hpp>

gyre::task<int> count(gyre::mutex& mutex, int to) {
  int counted = 0;
  while (counted < to) {
    auto guard = co_await mutex.lock();
    ++counted;
  }
  co_return counted;
}

int main() {
  using namespace std::chrono_literals;
  gyre::loop loop;
  bool posted = false;
  bool fired = false;

  gyre::timer end(loop, [&] {
    fired = true;
    if (posted) loop.stop();
  });
  end.start_every(1ms);
  std::jthread poster([&] { loop.post([&] { posted = true; }); });
  loop.run();

  gyre::mutex mutex;
  const bool counted = gyre::sync_wait(count(mutex, 3)) == 3;

  const bool good = posted && fired && counted;
  std::puts(good ? "consumer: posted, fired and counted" : "consumer: something is missing");
  return good ? 0 : 1;
}
