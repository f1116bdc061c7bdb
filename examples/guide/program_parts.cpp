// SPDX-License-Identifier: Apache-2.0
// Guide to whole programs: signals without a runtime, data of each loop, child processes.
#include <gyre/exec/loop.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/io/buffer.hpp>
#include <gyre/io/exit_status.hpp>
#include <gyre/io/process.hpp>
#include <gyre/runtime/loop_pool.hpp>
#include <gyre/runtime/sharded.hpp>
#include <gyre/runtime/signal_set.hpp>
#include <gyre/task/sync_wait.hpp>
#include <gyre/task/task.hpp>

#include <csignal>
#include <functional>
#include <iostream>
#include <map>
#include <string>
#include <string_view>

void reload() { std::cout << "reloaded\n"; }

gyre::task<> reload_until_quit(gyre::loop& loop) {
  gyre::signal_set signals(loop, {SIGHUP, SIGTERM});
  std::raise(SIGHUP);
  for (;;) {
    const gyre::signal_info info = co_await signals.wait();
    if (info.ssi_signo == SIGTERM) co_return;
    reload();
    std::raise(SIGTERM);
  }
}

using stock = std::map<std::string, int, std::less<>>;

gyre::task<int> count_apples(gyre::loop_pool& loops) {
  gyre::sharded<stock> stocks(loops);  // a map for each loop
  co_await stocks.start();
  const auto add = [](stock& of_loop) { return of_loop["apples"] += 3; };
  co_await stocks.call("apples", add);
  const int apples = co_await stocks.call("apples", add);
  co_await stocks.stop();
  co_return apples;
}

gyre::task<std::string> shout(gyre::loop& loop, std::string_view text) {
  gyre::io::process upper(loop, {"tr", "a-z", "A-Z"},
                          {.input = gyre::io::stdio::pipe(), .output = gyre::io::stdio::pipe()});
  co_await upper.input().write_all(text);
  upper.input().close();
  gyre::io::buffer line;
  co_await upper.output().read_until(line, "\n");
  const gyre::io::exit_status status = co_await upper.wait();
  co_return status.success() ? std::string(line.text()) : "tr failed\n";
}

int main() {
  gyre::loop loop;
  gyre::sync_wait(loop, reload_until_quit(loop));
  gyre::loop_pool loops(2);
  std::cout << gyre::sync_wait(count_apples(loops)) << " apples\n";
  std::cout << gyre::sync_wait(loop, shout(loop, "hello\n"));
}
