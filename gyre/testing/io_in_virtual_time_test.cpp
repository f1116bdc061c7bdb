// SPDX-License-Identifier: Apache-2.0
#include <gyre/testing/io_in_virtual_time.hpp>

#include <gyre/exec/timer.hpp>
#include <gyre/io/blocking.hpp>
#include <gyre/io/stream.hpp>
#include <gyre/net/socket.hpp>
#include <gyre/sync/event.hpp>
#include <gyre/task/sleep.hpp>
#include <gyre/task/spawn.hpp>
#include <gyre/task/task.hpp>
#include <gyre/task/when_all.hpp>
#include <gyre/task/with_timeout.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <latch>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

namespace io_in_virtual_time_test {
namespace {

using namespace std::chrono_literals;
using gyre::task;
using gyre::io::stream;
using gyre::testing::io_in_virtual_time;

class IoInVirtualTime : public testing::Test {
 protected:
  static stream made(io_in_virtual_time& world, gyre::net::socket& end) {
    return {world.loop, end.release(), gyre::io::handle_kind::socket};
  }

  io_in_virtual_time world;
  std::pair<gyre::net::socket, gyre::net::socket> wire = gyre::net::socket_pair();
  stream near = made(world, wire.first);
  stream far = made(world, wire.second);
};

TEST_F(IoInVirtualTime, ATimeLimitExpiresAtOnceAndExactly) {
  const gyre::steady_time begin = world.now();
  EXPECT_THROW(world.run(gyre::with_timeout(near.receive(), 24h)), std::system_error);
  EXPECT_GE(world.now() - begin, 24h);
  EXPECT_LT(world.now() - begin, 24h + 1s);
}

task<std::string> echo_slowly(stream& near, stream& far) {
  auto answer = [](stream& own) -> task<> {
    for (;;) {
      auto bytes = co_await own.receive();
      if (bytes.empty()) co_return;
      co_await gyre::sleep_for(59min);
      co_await own.write_all(std::move(bytes));
    }
  };
  auto ask = [](stream& own) -> task<std::string> {
    std::string text;
    for (int i = 0; i < 100; ++i) {
      co_await own.write_all("ping");
      auto bytes = co_await gyre::with_timeout(own.receive(), 1h);
      text += bytes.text();
    }
    own.close();
    co_return text;
  };
  auto [nothing, text] = co_await gyre::when_all(answer(far), ask(near));
  co_return std::move(text);
}

TEST_F(IoInVirtualTime, BytesArriveBeforeTimePasses) {
  EXPECT_EQ(world.run(echo_slowly(near, far)).size(), 400U);
}

TEST_F(IoInVirtualTime, MuchIsSentWithoutTime) {
  const gyre::steady_time begin = world.now();
  auto send = [](stream& own) -> task<> {
    const std::string text(8 << 20, 'x');
    co_await own.write_all(text);
    own.close();
  };
  auto receive = [](stream& own) -> task<std::size_t> {
    std::size_t count = 0;
    for (;;) {
      auto bytes = co_await own.receive();
      if (bytes.empty()) co_return count;
      count += bytes.size();
    }
  };
  gyre::timer tick(world.loop, [] {});
  tick.start_after(1ms);
  gyre::spawn(world.loop, send(near));
  EXPECT_EQ(world.run(receive(far)), std::size_t{8} << 20);
  EXPECT_LT(world.now() - begin, 1ms);
}

TEST_F(IoInVirtualTime, AWaitForNothingIsAnError) {
  gyre::manual_reset_event never;
  EXPECT_THROW(world.run(never.wait()), std::logic_error);
  EXPECT_THROW(world.run(near.receive()), std::logic_error);
  world.run(gyre::sleep_for(1h));
}

TEST_F(IoInVirtualTime, AYearIsTooLong) {
  gyre::timer tick(world.loop, [] {});
  tick.start_every(24h);
  gyre::manual_reset_event never;
  EXPECT_THROW(world.run(never.wait()), std::logic_error);
}

TEST_F(IoInVirtualTime, TimeStandsStillWhileTheBlockingPoolWorks) {
  for (int round = 0; round < 50; ++round) {
    auto call = gyre::io::blocking([] { std::this_thread::yield(); });
    world.run(gyre::with_timeout(std::move(call), 1ns));
  }
}

TEST_F(IoInVirtualTime, SettleRunsWhatIsReadyAndNoTimer) {
  bool has_expired = false;
  gyre::timer timer(world.loop, [&] { has_expired = true; });
  timer.start_after(1ms);
  int steps = 0;
  auto work = [](int& done) -> task<> {
    for (; done < 10; ++done) co_await gyre::io::blocking([] {});
  };
  gyre::spawn(world.loop, work(steps));
  world.settle();
  EXPECT_EQ(steps, 10);
  EXPECT_FALSE(has_expired);
  world.advance(10ms);
  EXPECT_TRUE(has_expired);
}

TEST_F(IoInVirtualTime, AdvanceRunsTheTimersOnTheWay) {
  int ticks = 0;
  gyre::timer timer(world.loop, [&] { ++ticks; });
  timer.start_every(1s);
  const gyre::steady_time begin = world.now();
  world.advance(10s);
  EXPECT_GE(ticks, 9);
  EXPECT_GE(world.now() - begin, 10s);
}

TEST_F(IoInVirtualTime, WaitsForThreadsWhereAsked) {
  world.set_waiting_for_threads(true);
  gyre::manual_reset_event done;
  std::latch waits(1);
  const std::jthread other([&] {
    waits.wait();
    done.set();
  });
  world.loop.post([&] { waits.count_down(); });
  world.run(gyre::with_timeout(done.wait(), 1ns + 1h));
  EXPECT_TRUE(done.is_set());
}

}  // namespace
}  // namespace io_in_virtual_time_test
