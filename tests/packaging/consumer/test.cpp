// SPDX-License-Identifier: Apache-2.0
// A user's test without a test framework: a session of a stream is run against a script, its
// allocations are counted, a system call fails, and an order of coroutines is explored.
#include <gyre/gyre.hpp>
#include <gyre/testing/allocations.hpp>
#include <gyre/testing/explore.hpp>
#include <gyre/testing/scripted_peer.hpp>
#include <gyre/testing/system_call_faults.hpp>
#include <gyre/testing/virtual_time_loop.hpp>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <system_error>

using namespace std::chrono_literals;

gyre::task<> echo(gyre::io::stream& stream) {
  for (;;) {
    auto data = co_await stream.receive();
    if (data.empty()) co_return;
    co_await stream.write_all(std::move(data));
  }
}

bool echoes_in_virtual_time() {
  gyre::testing::virtual_time_loop virtual_time;
  gyre::testing::scripted_peer peer(virtual_time);
  peer.send("hel").wait(1h).send("lo").end();
  peer.take_at_most(1);
  auto stream = peer.connect();
  virtual_time.run(echo(stream));
  return peer.received() == "hello";
}

bool counts_allocations() {
  const gyre::testing::allocation_count during;
  ::operator delete(::operator new(100));
  return during.allocations() == 1;
}

// The call is made by gyre's library, also if that is a shared one.
bool lets_a_call_fail() {
  gyre::loop loop;
  const gyre::testing::fault full("pipe2", EMFILE);
  try {
    gyre::io::make_pipe(loop);
  } catch (const std::system_error& error) {
    return error.code() == std::errc::too_many_files_open;
  }
  return false;
}

bool explores() {
  return gyre::testing::explore(10, [](gyre::executor&) -> gyre::task<> { co_await gyre::yield(); })
      .passed();
}

int main() {
  const bool good =
      echoes_in_virtual_time() && counts_allocations() && lets_a_call_fail() && explores();
  std::puts(good ? "test: passed" : "test: failed");
  return good ? 0 : 1;
}
