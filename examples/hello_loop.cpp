// SPDX-License-Identifier: Apache-2.0
// One loop, a timer on it, and a task posted from another thread.
#include <gyre/exec/loop.hpp>
#include <gyre/exec/timer.hpp>

#include <chrono>
#include <iostream>
#include <thread>

int main() {
  using namespace std::chrono_literals;
  gyre::loop loop;

  int ticks = 0;
  gyre::timer ticker(loop, [&] {
    std::cout << "tick " << ++ticks << '\n';
    if (ticks == 3) loop.stop();
  });

  std::jthread worker([&] {
    loop.post([&] {
      std::cout << "hello from another thread\n";
      ticker.start_every(100ms);
    });
  });
  loop.run();
}
