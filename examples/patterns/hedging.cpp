// SPDX-License-Identifier: Apache-2.0
// A request that is hedged and retried. For docs/guide/patterns.md.
#include <gyre/gyre.hpp>

#include <chrono>
#include <cstddef>
#include <iostream>
#include <string>
#include <system_error>

using namespace std::chrono_literals;

namespace {

// Two replicas: the first one is slow today.
gyre::task<std::string> ask(std::size_t replica) {
  co_await gyre::sleep_for(replica == 0 ? 1h : 1ms);
  co_return "replica " + std::to_string(replica);
}

gyre::task<std::string> ask_quickly() {
  // The second replica is asked if the first has not answered within 5 ms, or has failed.
  co_return co_await gyre::hedge([](std::size_t attempt) { return ask(attempt); }, {.delay = 5ms});
}

// Fails twice.
gyre::task<std::string> ask_unreliable(int& calls) {
  if (++calls < 3) throw std::system_error(std::make_error_code(std::errc::connection_refused));
  co_return "call " + std::to_string(calls);
}

gyre::task<> ask_both() {
  const std::string quick = co_await ask_quickly();
  std::cout << quick << '\n';
  int calls = 0;
  const std::string retried = co_await gyre::retry([&calls] { return ask_unreliable(calls); },
                                                   {.attempts = 5, .delay = {.initial = 2ms}});
  std::cout << retried << '\n';
}

}  // namespace

int main() {
  gyre::loop loop;
  gyre::sync_wait(loop, ask_both());
}
