// SPDX-License-Identifier: Apache-2.0
// Guide, part 1: coroutines that await each other, and main() that waits for them.
#include <gyre/task/sync_wait.hpp>
#include <gyre/task/task.hpp>

#include <iostream>
#include <string>

gyre::task<int> length_of(std::string text) { co_return static_cast<int>(text.size()); }

gyre::task<int> total_length() {
  const int first = co_await length_of("current");
  const int second = co_await length_of("eddy");
  co_return first + second;
}

int main() { std::cout << gyre::sync_wait(total_length()) << '\n'; }
