// SPDX-License-Identifier: Apache-2.0
// Guide, part 2: arguments that a coroutine owns, and references that it keeps.
#include <gyre/task/invoke.hpp>
#include <gyre/task/schedule.hpp>
#include <gyre/task/sync_wait.hpp>
#include <gyre/task/task.hpp>

#include <iostream>
#include <string>
#include <utility>

gyre::task<> greet(std::string name) {
  co_await gyre::yield();
  std::cout << "hello, " << name << '\n';
}

gyre::task<> greet_later() {
  std::string name = "gyre";
  return greet(std::move(name));
}

gyre::task<> greet_by_lambda(std::string name) {
  return gyre::invoke([name = std::move(name)]() -> gyre::task<> {
    co_await gyre::yield();
    std::cout << "hello again, " << name << '\n';
  });
}

int main() {
  gyre::sync_wait(greet_later());
  gyre::sync_wait(greet_by_lambda("gyre"));
}
