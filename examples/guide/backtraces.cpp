// SPDX-License-Identifier: Apache-2.0
// Guide, part 8: the backtrace of a suspended coroutine.
#include <gyre/task/async_backtrace.hpp>
#include <gyre/task/sync_wait.hpp>
#include <gyre/task/task.hpp>

#include <iostream>

gyre::task<> read_header() {
  const gyre::async_backtrace here = co_await gyre::current_backtrace();
  std::cout << "called from\n" << here;
}

gyre::task<> read_request() { co_await read_header(); }

int main() { gyre::sync_wait(read_request()); }
