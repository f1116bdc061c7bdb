// SPDX-License-Identifier: Apache-2.0
// A user's program: its own thread posts to a loop, a timer ends it; a coroutine counts afterwards.
// The library and the program agree on the thread that runs the loop, and on exceptions.
#include <gyre/gyre.hpp>

#include <chrono>
#include <cstdio>
#include <stdexcept>
#include <thread>

gyre::task<int> count(gyre::mutex& mutex, int to) {
  int counted = 0;
  while (counted < to) {
    auto guard = co_await mutex.lock();
    ++counted;
  }
  co_return counted;
}

gyre::task<> fails() {
  throw std::runtime_error("expected");
  co_return;
}

// The program catches exceptions that the library throws.
bool scope_throws_what_it_says() {
  try {
    auto body = [](gyre::scope& scope) -> gyre::task<> {
      scope.spawn(fails());
      co_return;
    };
    gyre::sync_wait(gyre::with_scope(body, gyre::scope_errors::collect));
  } catch (const gyre::scope_error& error) {
    return error.errors().size() == 1;
  }
  return false;
}

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
  std::jthread poster([&] {
    loop.post([&] { posted = loop.in_loop_thread() && gyre::event_loop::current() == &loop; });
  });
  loop.run();

  gyre::mutex mutex;
  const bool counted = gyre::sync_wait(count(mutex, 3)) == 3;

  const bool good = posted && fired && counted && scope_throws_what_it_says();
  std::puts(good ? "consumer: posted, fired and counted" : "consumer: something is missing");
  return good ? 0 : 1;
}
