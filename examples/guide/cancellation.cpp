// SPDX-License-Identifier: Apache-2.0
// Guide, part 5: stopping coroutines, and scopes that wait for everything they started.
#include <gyre/exec/loop.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/task/finally.hpp>
#include <gyre/task/schedule.hpp>
#include <gyre/task/scope.hpp>
#include <gyre/task/shielded.hpp>
#include <gyre/task/sleep.hpp>
#include <gyre/task/stop_token.hpp>
#include <gyre/task/stop_when.hpp>
#include <gyre/task/task.hpp>
#include <gyre/task/when_all.hpp>
#include <gyre/task/with_timeout.hpp>

#include <chrono>
#include <exception>
#include <iostream>
#include <stdexcept>
#include <string_view>
#include <system_error>

using namespace std::chrono_literals;

struct announce_end {
  std::string_view who;
  ~announce_end() { std::cout << who << " ends\n"; }
};

gyre::task<> tick_forever(std::string_view who) {
  [[maybe_unused]] const announce_end guard{who};
  for (;;) co_await gyre::sleep_for(1ms);
}

gyre::task<> press_the_button(gyre::inplace_stop_source& shutdown) {
  co_await gyre::sleep_for(10ms);
  shutdown.request_stop();
}

gyre::task<> run_until_shutdown(gyre::inplace_stop_token shutdown) {
  try {
    co_await gyre::stop_when(tick_forever("ticker"), shutdown);
  } catch (const std::system_error& error) {
    if (error.code() != std::errc::operation_canceled) throw;
  }
}

gyre::task<> visit() {
  co_await gyre::sleep_for(2ms);
  throw std::runtime_error("nobody at home");
}

gyre::task<> try_again_and_again(std::string_view who) {
  for (;;) {
    try {
      co_await visit();
    } catch (const std::exception& error) {
      std::cout << who << ": " << error.what() << '\n';
    }
  }
}

gyre::task<> visit_for_a_while() {
  try {
    co_await gyre::with_timeout(try_again_and_again("friend"), 5ms);
  } catch (const std::system_error& error) {
    if (error.code() != std::errc::timed_out) throw;
  }
}

gyre::task<> say_goodbye(std::string_view peer) {
  co_await gyre::sleep_for(1ms);  // stands for the network
  std::cout << "goodbye, " << peer << '\n';
}

gyre::task<> talk_to(std::string_view peer) {
  co_await gyre::finally(tick_forever(peer), gyre::shielded(say_goodbye(peer), 1s));
}

gyre::task<> talk_for_a_while() {
  try {
    co_await gyre::with_timeout(talk_to("peer"), 5ms);
  } catch (const std::system_error& error) {
    if (error.code() != std::errc::timed_out) throw;
  }
}

gyre::task<long> sum_to(long last) {
  const gyre::inplace_stop_token stop = co_await gyre::current_stop_token();
  long sum = 0;
  for (long i = 1; i <= last && !stop.stop_requested(); ++i) sum += i;
  co_return sum;
}

gyre::task<> fail_soon() {
  co_await gyre::sleep_for(5ms);
  throw std::runtime_error("a worker failed");
}

gyre::task<> serve() {
  co_await gyre::with_scope([](gyre::scope& scope) -> gyre::task<> {
    scope.spawn(tick_forever("first"));
    scope.spawn(tick_forever("second"));
    scope.spawn(fail_soon());
    co_return;
  });
}

gyre::task<> all_of_it() {
  gyre::inplace_stop_source shutdown;
  co_await gyre::when_all(run_until_shutdown(shutdown.get_token()), press_the_button(shutdown));

  co_await visit_for_a_while();
  co_await talk_for_a_while();

  const long sum = co_await sum_to(100);
  std::cout << sum << '\n';

  try {
    co_await serve();
  } catch (const std::runtime_error& error) {
    std::cout << error.what() << '\n';
  }
}

int main() {
  gyre::loop loop;
  gyre::sync_wait(loop, all_of_it());
}
