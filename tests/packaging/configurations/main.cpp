// SPDX-License-Identifier: Apache-2.0
// A user's program whose coroutines go through the compiled part of the library: it crashes if the
// library and the program disagree on the layout of promises.
#include <gyre/task/async_backtrace.hpp>
#include <gyre/task/schedule.hpp>
#include <gyre/task/scope.hpp>
#include <gyre/task/sync_wait.hpp>
#include <gyre/task/task.hpp>
#include <gyre/task/when_all.hpp>

#include <cstdio>
#include <stdexcept>

namespace {

gyre::task<int> value(int number) {
  co_await gyre::yield();
  co_return number;
}

gyre::task<int> failing() {
  co_await gyre::yield();
  throw std::runtime_error("expected");
}

gyre::task<int> sum_in_scope() {
  int sum = 0;
  co_await gyre::with_scope([&](gyre::scope& scope) -> gyre::task<> {
    for (int i = 0; i < 10; ++i) {
      scope.spawn(
          [](int& to, int number) -> gyre::task<> { to += co_await value(number); }(sum, i));
    }
    co_return;
  });
  auto [six, eight] = co_await gyre::when_all(value(6), value(8));
  try {
    sum += co_await failing();
  } catch (const std::runtime_error&) {
    sum += six + eight;
  }
  co_return sum;
}

gyre::task<bool> backtraces_are_as_promised() {
  const gyre::async_backtrace here = co_await gyre::current_backtrace();
  co_return here.empty() != gyre::async_backtrace_is_on;
}

}  // namespace

int main() {
  const int sum = gyre::sync_wait(sum_in_scope());
  const bool good = sum == 59 && gyre::sync_wait(backtraces_are_as_promised());
  std::printf("coroutines: %s, backtraces %s\n", good ? "good" : "bad",
              gyre::async_backtrace_is_on ? "on" : "off");
  return good ? 0 : 1;
}
