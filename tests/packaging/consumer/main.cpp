// SPDX-License-Identifier: Apache-2.0
// A user's program: its own thread posts to a loop, a timer ends it.
#include <chrono>
#include <cstdio>
#include <thread>

#include <gyre/gyre.hpp>

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

  std::puts(posted && fired ? "consumer: posted and fired" : "consumer: something is missing");
  return posted && fired ? 0 : 1;
}
