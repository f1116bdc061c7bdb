// SPDX-License-Identifier: Apache-2.0
// Guide, part 9: the live tasks of a program, whenever SIGUSR1 asks for them.
#include <gyre/exec/loop.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/runtime/signal_set.hpp>
#include <gyre/task/live_tasks.hpp>
#include <gyre/task/scope.hpp>
#include <gyre/task/sleep.hpp>
#include <gyre/task/task.hpp>

#include <chrono>
#include <csignal>
#include <iostream>

using namespace std::chrono_literals;

gyre::task<> serve() { co_await gyre::sleep_for(1h); }

gyre::task<> show_live_tasks(gyre::signal_set& usr1) {
  for (;;) {
    co_await usr1.wait();
    std::cout << gyre::live_tasks_summary();
  }
}

gyre::task<> run(gyre::loop& loop) {
  gyre::signal_set usr1(loop, {SIGUSR1});
  co_await gyre::with_scope([&](gyre::scope& scope) -> gyre::task<> {
    scope.spawn(show_live_tasks(usr1));
    for (int session = 0; session < 3; ++session) scope.spawn(serve(), "session");
    std::raise(SIGUSR1);
    co_await gyre::sleep_for(1ms);
    scope.request_stop();
  });
}

int main() {
  gyre::record_live_tasks(true);
  gyre::loop loop;
  gyre::sync_wait(loop, run(loop));
}
