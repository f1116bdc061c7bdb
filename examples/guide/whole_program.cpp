// SPDX-License-Identifier: Apache-2.0
// Guide to whole programs: one call in main(), tasks on all loops, and a shutdown in phases.
#include <gyre/pool/future.hpp>
#include <gyre/runtime/runtime.hpp>
#include <gyre/sync/channel.hpp>
#include <gyre/task/sleep.hpp>

#include <chrono>
#include <iostream>
#include <utility>

using namespace std::chrono_literals;

int checksum(int document) { return document * 37 % 101; }

gyre::task<> archive(gyre::runtime& rt, gyre::channel<int>& documents) {
  while (auto document = co_await documents.receive()) {
    gyre::future<int> sum = rt.pool().submit([document] { return checksum(*document); });
    std::cout << "archived " << co_await std::move(sum) << '\n';
  }
}

gyre::task<> clean_up_hourly() {
  while (true) {
    co_await gyre::sleep_for(1h);
    std::cout << "cleaned up\n";
  }
}

gyre::task<int> run(gyre::runtime& rt) {
  gyre::channel<int> documents(16);
  rt.spawn(clean_up_hourly());
  rt.spawn(archive(rt, documents), gyre::shutdown_phase::force);
  const gyre::shutdown_hook hook =
      rt.on_shutdown(gyre::shutdown_phase::drain, [&] { documents.close(); });
  co_await documents.send(1);
  co_await documents.send(2);
  rt.shutdown();  // as does Ctrl-C
  co_await rt.drained();
  co_return 0;
}

int main() { return gyre::runtime::main({.loops = 2, .drain_time = 5s}, run); }
