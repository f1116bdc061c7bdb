// SPDX-License-Identifier: Apache-2.0
// Guide to tests of programs that use gyre: the program under test, and a test of each kind.
// check() stands for the assertions of a test framework.
#include <gyre/exec/loop.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/exec/timer.hpp>
#include <gyre/io/buffer.hpp>
#include <gyre/io/stream.hpp>
#include <gyre/net/address.hpp>
#include <gyre/net/resolver.hpp>
#include <gyre/task/as_expected.hpp>
#include <gyre/task/schedule.hpp>
#include <gyre/task/sleep.hpp>
#include <gyre/task/spawn.hpp>
#include <gyre/task/task.hpp>
#include <gyre/task/when_all.hpp>
#include <gyre/task/with_timeout.hpp>
#include <gyre/testing/allocations.hpp>
#include <gyre/testing/explore.hpp>
#include <gyre/testing/fake_dns_server.hpp>
#include <gyre/testing/manual_executor.hpp>
#include <gyre/testing/run_in_virtual_time.hpp>
#include <gyre/testing/scripted_peer.hpp>
#include <gyre/testing/system_call_faults.hpp>
#include <gyre/testing/virtual_time_loop.hpp>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <iostream>
#include <stdexcept>
#include <string>
#include <system_error>

using namespace std::chrono_literals;

void check(bool holds) {
  if (!holds) std::abort();
}

// Tries until an attempt succeeds, with growing delays between.
gyre::task<int> retry(int& attempts_that_fail) {
  for (auto delay = 1min;; delay *= 2) {
    if (attempts_that_fail-- <= 0) co_return 42;
    co_await gyre::sleep_for(delay);
  }
}

void time_passes_at_once() {
  int failures = 10;
  check(gyre::testing::run_in_virtual_time(retry(failures)) == 42);  // after 17 hours, at once
}

void time_passes_step_by_step() {
  gyre::testing::manual_executor executor;
  int failures = 2;
  gyre::spawn(executor, retry(failures));
  executor.run_all();
  check(failures == 1);   // the first attempt has failed
  executor.advance(59s);  // not yet
  check(failures == 1);
  executor.advance(1s);
  check(failures == 0);
}

void a_loop_in_virtual_time() {
  gyre::testing::virtual_time_loop virtual_time;
  int ticks = 0;
  gyre::timer timer(virtual_time.loop, [&] { ++ticks; });
  timer.start_every(1s);
  virtual_time.loop.run_for(1h);
  check(ticks >= 3599);
}

// Greets each line by the name in it, until the peer ends its side.
gyre::task<> greet(gyre::io::stream& stream) {
  gyre::io::buffer input;
  for (;;) {
    auto line = co_await gyre::as_expected(gyre::with_timeout(stream.read_until(input, "\n"), 10s));
    if (!line) co_return;
    std::string name(input.text().substr(0, *line));
    input.consume(*line);
    co_await stream.write_all("hello, " + name);
  }
}

void a_line_comes_in_pieces() {
  gyre::testing::virtual_time_loop virtual_time;
  gyre::testing::scripted_peer peer(virtual_time);
  peer.send("an").wait(5s).send("na\nbo").wait(5s).send("b\n").end();
  auto stream = peer.connect();
  virtual_time.run(greet(stream));
  check(peer.received() == "hello, anna\nhello, bob\n");
}

void a_slow_peer_is_given_up() {
  gyre::testing::virtual_time_loop virtual_time;
  gyre::testing::scripted_peer peer(virtual_time);
  peer.send("an").wait(11s).send("na\n");
  auto stream = peer.connect();
  virtual_time.run(greet(stream));
  check(peer.received().empty());
}

void a_write_fails_half_way() {
  gyre::testing::virtual_time_loop virtual_time;
  gyre::testing::scripted_peer peer(virtual_time);
  peer.send("anna\n").take_at_most(3).fail_write(std::errc::broken_pipe);
  auto stream = peer.connect();
  try {
    virtual_time.run(greet(stream));
    check(false);
  } catch (const std::system_error& error) {
    check(error.code() == std::errc::broken_pipe);
  }
  check(peer.received() == "hel");
}

struct account {
  int balance = 100;
};

gyre::task<> withdraw(account& from, int amount) {
  if (from.balance < amount) co_return;
  co_await gyre::yield();  // asks another service, say
  from.balance -= amount;
}

gyre::task<> withdraw_twice(gyre::executor&) {
  account shared;
  co_await gyre::when_all(withdraw(shared, 60), withdraw(shared, 60));
  if (shared.balance < 0) throw std::logic_error("overdrawn");
}

void an_order_that_fails_is_found() {
  const auto found = gyre::testing::explore(100, withdraw_twice);
  check(!found.passed());
  const auto again = gyre::testing::explore(1, withdraw_twice, {.first_seed = *found.failed_seed});
  check(!again.passed());  // the same order
}

void a_full_table_of_descriptors_is_reported() {
  gyre::loop loop;
  const gyre::testing::fault full("pipe2", EMFILE);  // the next call fails
  const int open = gyre::testing::open_descriptors();
  try {
    gyre::io::make_pipe(loop);
    check(false);
  } catch (const std::system_error& error) {
    check(error.code() == std::errc::too_many_files_open);
  }
  check(gyre::testing::open_descriptors() == open);  // nothing leaked
}

gyre::task<std::size_t> count_addresses(gyre::net::resolver& names) {
  const auto found = co_await names.resolve("www.example.org", "https");
  co_return found.size();
}

void a_name_server_that_answers_as_told() {
  gyre::loop loop;
  gyre::testing::fake_dns_server dns(loop);
  dns["www.example.org"].addresses = {gyre::net::ip_address("192.0.2.1")};
  gyre::net::resolver names(
      loop, {.servers = {dns.local_endpoint()}, .order = gyre::net::lookup_order::dns_only});
  check(gyre::sync_wait(loop, count_addresses(names)) == 1);
}

void nothing_is_allocated_or_leaked() {
  gyre::testing::manual_executor executor;
  int failures = 0;
  gyre::testing::run_in_virtual_time(executor, retry(failures));  // warms up
  const gyre::testing::allocation_count during;
  gyre::testing::run_in_virtual_time(executor, retry(failures));
  check(during.slab_blocks() == 0);  // every frame was given back
  check(during.bytes_in_use() == 0);
}

int main() {
  time_passes_at_once();
  time_passes_step_by_step();
  a_loop_in_virtual_time();
  a_line_comes_in_pieces();
  a_slow_peer_is_given_up();
  a_write_fails_half_way();
  an_order_that_fails_is_found();
  a_full_table_of_descriptors_is_reported();
  a_name_server_that_answers_as_told();
  nothing_is_allocated_or_leaked();
  std::cout << "all tests passed\n";
}
