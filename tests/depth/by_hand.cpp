// SPDX-License-Identifier: Apache-2.0
// A program's file that is compiled with a hand-written command line: a level of optimisation and
// nothing else. Runs all checks on a thread with a small stack, and crashes where a compiler made
// no tail call although gyre relied on one.
#include <gyre/sync/channel.hpp>
#include <gyre/task/as_expected.hpp>
#include <gyre/task/generator.hpp>
#include <gyre/task/sync_wait.hpp>
#include <gyre/task/task_local.hpp>
#include <gyre/task/when_all.hpp>
#include <tests/support/small_stack.hpp>

#include "checks.hpp"

#include <cstdio>
#include <optional>
#include <utility>

namespace depth {
namespace {

struct this_file;
using here = coroutines<this_file>;

gyre::generator<long> numbers() {
  for (long i = 0; i < million; ++i) co_yield i;
}
gyre::task<long> elements() {
  long count = 0;
  for (const long next : numbers()) count += next >= 0 ? 1 : 0;
  co_return count;
}

gyre::task<> send_all(gyre::channel<long>& to) {
  for (long i = 0; i < million; ++i) co_await to.send(i);
  to.close();
}
gyre::task<long> receive_all(gyre::channel<long>& from) {
  long count = 0;
  while (const std::optional<long> next = co_await from.receive()) count += *next >= 0 ? 1 : 0;
  co_return count;
}
gyre::task<long> messages() {
  gyre::channel<long> between(1);
  const auto results = co_await gyre::when_all(receive_all(between), send_all(between));
  co_return std::get<0>(results);
}

const gyre::task_local<int> key;

gyre::task<long> wrapped() {
  long sum = 0;
  for (long i = 0; i < million / 4; ++i) {
    const auto expected = co_await gyre::as_expected(shared_link(1));
    sum += *expected;
    sum += co_await key.with(1, shared_link(1));
    sum += co_await link_with_option(1);
    sum += co_await shared_link(1);
  }
  co_return sum;
}

// The wait is ordinary code within a coroutine: the awaited work must not be left to a trampoline
// below it on the stack.
gyre::task<long> waits_within() {
  const long below = gyre::sync_wait(here::link(1000));
  const long also = gyre::sync_wait(link_with_option(1000));
  const long rest = co_await shared_link(million - below - also);
  co_return below + also + rest;
}

constexpr check more[]{{"a generator", elements},
                       {"a channel", messages},
                       {"wrapped awaits", wrapped},
                       {"sync_wait() in a coroutine", waits_within}};

bool run(const check& each) {
  std::printf("%s\n", each.name);
  std::fflush(stdout);
  return gyre::sync_wait(each.run()) == million;
}

bool run_all() {
  bool good = true;
  for (const check& each : here::all) good = run(each) && good;
  for (const check& each : more) good = run(each) && good;
  for (const check* each = with_option_begin; each != with_option_end; ++each) {
    good = run(*each) && good;
  }
  return good;
}

}  // namespace
}  // namespace depth

int main() {
  bool good = false;
  gyre::test::on_small_stack([&] { good = depth::run_all(); });
  std::puts(good ? "good" : "bad");
  return good ? 0 : 1;
}
