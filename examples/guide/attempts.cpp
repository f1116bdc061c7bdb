// SPDX-License-Identifier: Apache-2.0
// Guide, part 4: attempts that are repeated or compete, work at a fixed pace.
#include <gyre/exec/loop.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/sync/rate_limiter.hpp>
#include <gyre/task/as_result.hpp>
#include <gyre/task/first_success.hpp>
#include <gyre/task/hedge.hpp>
#include <gyre/task/interval.hpp>
#include <gyre/task/retry.hpp>
#include <gyre/task/sleep.hpp>
#include <gyre/task/task.hpp>
#include <gyre/task/with_timeout.hpp>

#include <chrono>
#include <cstddef>
#include <exception>
#include <expected>
#include <iostream>
#include <stdexcept>
#include <string>

using namespace std::chrono_literals;

gyre::task<std::string> ask(std::string server) {
  if (server == "down") throw std::runtime_error("no answer");
  co_await gyre::sleep_for(server == "slow" ? 1h : 1ms);
  co_return "answer of " + server;
}

gyre::task<> again() {
  auto attempt = [](std::size_t number) {
    std::cout << "attempt " << number << ", ";
    return gyre::with_timeout(ask(number < 2 ? "down" : "one"), 1s);
  };
  std::string answer = co_await gyre::retry(attempt, {.attempts = 5, .delay = {.initial = 1ms}});
  std::cout << answer << '\n';
}

gyre::task<> fastest_answer() {
  std::string first = co_await gyre::first_success(ask("down"), ask("slow"), ask("one"));
  std::cout << first << '\n';

  auto replica = [](std::size_t number) { return ask(number == 0 ? "slow" : "two"); };
  std::string sooner = co_await gyre::hedge(replica, {.delay = 5ms, .attempts = 2});
  std::cout << sooner << '\n';
}

gyre::task<> error_as_value() {
  std::expected<std::string, std::exception_ptr> answer = co_await gyre::as_result(ask("down"));
  std::cout << answer.value_or("no answer") << '\n';
}

gyre::task<> at_a_pace() {
  gyre::interval every(1ms);
  gyre::rate_limiter limit({.tokens = 1000, .per = 1s, .burst = 2});
  for (int i = 0; i < 3; ++i) {
    co_await every.tick();
    co_await limit.acquire();
    std::cout << "tick ";
  }
  std::cout << '\n';
}

gyre::task<> all_of_it() {
  co_await again();
  co_await fastest_answer();
  co_await error_as_value();
  co_await at_a_pace();
}

int main() {
  gyre::loop loop;
  gyre::sync_wait(loop, all_of_it());
}
