// SPDX-License-Identifier: Apache-2.0
// A pipeline with bounded queues between its stages, a limited rate and a report of its progress.
// For docs/guide/patterns.md.
#include <gyre/gyre.hpp>

#include <chrono>
#include <iostream>
#include <optional>
#include <utility>

using namespace std::chrono_literals;

namespace {

using numbers = gyre::channel<int>;

gyre::task<> produce(numbers& to, int count) {
  for (int number = 1; number <= count; ++number) co_await to.send(number);
  to.close();
}

// At most 1000 numbers in a second, and 10 at once.
gyre::task<> square(numbers& from, numbers& to) {
  gyre::rate_limiter limit({.tokens = 1000, .per = 1s, .burst = 10});
  while (true) {
    const std::optional<int> number = co_await from.receive();
    if (!number) break;
    co_await limit.acquire();
    co_await to.send(*number * *number);
  }
  to.close();
}

gyre::task<> add_up(numbers& from, long& sum) {
  while (true) {
    const std::optional<int> number = co_await from.receive();
    if (!number) co_return;
    sum += *number;
  }
}

gyre::task<> report(const long& sum) {
  gyre::interval every(20ms);
  while (true) {
    co_await every.tick();
    std::cerr << "so far " << sum << '\n';
  }
}

gyre::task<long> run() {
  numbers plain(8);
  numbers squared(8);
  long sum = 0;
  // The report is stopped when the stages have ended.
  auto stages = gyre::when_all(produce(plain, 60), square(plain, squared), add_up(squared, sum));
  co_await gyre::when_any(gyre::as_task(std::move(stages)), report(sum));
  co_return sum;
}

}  // namespace

int main() {
  gyre::loop loop;
  std::cout << gyre::sync_wait(loop, run()) << '\n';
}
