// SPDX-License-Identifier: Apache-2.0
// The examples in the comments of exec's headers.
#include <gyre/gyre.hpp>
#include <gyre/testing/virtual_time_loop.hpp>
#include <tests/header_examples/support.hpp>
#include <tests/support/socket_pairs.hpp>

#include <gtest/gtest.h>

#include <sys/socket.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace exec_test {
namespace {

using namespace std::chrono_literals;

// gyre/exec/fd_watch.hpp
TEST(ExecExamples, FdWatchTellsThatInputIsThere) {
  auto [reader, writer] = gyre::test::pipe_pair();
  const gyre::unique_fd before(::dup(STDIN_FILENO));
  ASSERT_EQ(::dup2(reader.get(), STDIN_FILENO), STDIN_FILENO);
  gyre::loop loop;
  std::string got;
  const auto read_some = [&] {
    char room[16];
    const ssize_t count = ::read(STDIN_FILENO, room, sizeof room);
    ASSERT_GT(count, 0);
    got.assign(room, static_cast<std::size_t>(count));
    loop.stop();
  };
  gyre::fd_watch input(loop, STDIN_FILENO, [&](gyre::readiness) { read_some(); });
  input.start(gyre::readiness::readable);
  input.pause();   // nothing is reported: no system call
  input.resume();  // as before the pause: none either, unless something came meanwhile
  ASSERT_EQ(::write(writer.get(), "hello", 5), 5);
  loop.run();
  input.stop();
  if (before) ::dup2(before.get(), STDIN_FILENO);
  EXPECT_EQ(got, "hello");
}

// gyre/pool/future.hpp
int compute() { return 42; }
int another_task() { return 43; }

gyre::task<int> submit_and_await(gyre::thread_pool& pool) {
  int there = co_await pool.submit(another_task);  // in a coroutine
  co_return there;
}

TEST(ExecExamples, FutureGivesTheResult) {
  gyre::thread_pool pool(1);
  gyre::future<int> answer = pool.submit([] { return compute(); });
  int here = answer.get();  // in a thread, or
  EXPECT_EQ(here, 42);
  EXPECT_EQ(gyre::sync_wait(submit_and_await(pool)), 43);
}

// gyre/exec/loop.hpp
TEST(ExecExamples, LoopRunsWhatAnotherThreadPosts) {
  // clang-format off
  gyre::loop loop;
  std::jthread other([&] { loop.post([&] { std::puts("on the loop"); loop.stop(); }); });
  loop.run();
  // clang-format on
}

// gyre/runtime/loop_pool.hpp
TEST(ExecExamples, LoopPoolChoosesByHash) {
  const std::size_t user_id = 1234;
  std::promise<void> one;
  std::promise<std::thread::id> first;
  std::promise<std::thread::id> second;
  const auto tell = [](std::promise<std::thread::id>& to) {
    to.set_value(std::this_thread::get_id());
  };
  gyre::loop_pool loops(4, {.name = "io"});
  loops.next().post([&] { one.set_value(); });         // in turn
  loops.for_hash(user_id).post([&] { tell(first); });  // always the same one for the same user
  loops.for_hash(user_id).post([&] { tell(second); });
  one.get_future().get();
  EXPECT_EQ(first.get_future().get(), second.get_future().get());
}

// gyre/exec/loop_thread.hpp
TEST(ExecExamples, LoopThreadRunsPosts) {
  std::promise<std::thread::id> ran;
  gyre::loop_thread io({.name = "io"});
  io.loop().post([&] { ran.set_value(std::this_thread::get_id()); });
  EXPECT_NE(ran.get_future().get(), std::this_thread::get_id());
}

// gyre/exec/executor_watchdog.hpp
TEST(ExecExamples, WatchdogWatchesALoop) {
  gyre::loop loop;
  gyre::executor_watchdog watchdog({.limit = 100ms});
  watchdog.watch(loop, "network");
  loop.poll();
}

// gyre/pool/parallel.hpp
struct picture {
  std::vector<int> rows;
  int height() const { return static_cast<int>(rows.size()); }
};

TEST(ExecExamples, ParallelCallsDoAll) {
  gyre::thread_pool pool(2);
  picture image{std::vector<int>(100)};
  const auto sharpen = [](picture& of, int row) { ++of.rows[static_cast<std::size_t>(row)]; };
  const auto sort = [](std::vector<int>& numbers) { std::ranges::sort(numbers); };
  const auto square = [](double number) { return number * number; };
  std::vector<int> left{2, 1};
  std::vector<int> right{4, 3};
  const std::vector<double> samples{1, 2, 3};
  gyre::parallel_for(pool, 0, image.height(), [&](int row) { sharpen(image, row); });
  gyre::parallel_invoke(pool, [&] { sort(left); }, [&] { sort(right); });
  double sum = gyre::parallel_reduce(pool, samples, 0.0, square, std::plus());
  EXPECT_EQ(image.rows, std::vector<int>(100, 1));
  EXPECT_EQ(left, (std::vector<int>{1, 2}));
  EXPECT_EQ(right, (std::vector<int>{3, 4}));
  EXPECT_EQ(sum, 14.0);
}

// gyre/runtime/runtime.hpp
// A program is a class here, with a main() that is not the process's.
struct accepting_program {
  static inline header_examples::listening_already endpoint;

  static gyre::task<> serve(gyre::loop& home, gyre::net::socket client) {
    gyre::net::tcp_stream peer(home, std::move(client));
    co_await peer.write_all("hello");
    ::kill(::getpid(), SIGTERM);
  }

  int main() {
    return gyre::runtime::main([](gyre::runtime& rt) -> gyre::task<int> {
      gyre::net::tcp_listener clients(rt.loops()[0], endpoint);
      for (;;) {
        gyre::net::socket client = co_await clients.accept_socket();  // until SIGINT or SIGTERM
        gyre::loop& home = rt.loops().next();  // serve() may continue until `force`
        rt.spawn(home, serve(home, std::move(client)), gyre::shutdown_phase::force);
      }
    });
  }
};

TEST(ExecExamples, RuntimeServesUntilASignal) {
  const gyre::net::socket peer =
      gyre::net::socket::open(gyre::net::address_family::ipv4, gyre::net::socket_type::stream);
  static_cast<void>(peer.connect(accepting_program::endpoint.where()));
  EXPECT_EQ(accepting_program().main(), 0);
  char room[8];
  EXPECT_EQ(::recv(peer.fd(), room, sizeof room, 0), 5);
}

gyre::task<> stop_server_at_the_end(gyre::runtime& rt, bool& stopped) {
  gyre::loop& loop = rt.loops()[0];
  gyre::net::tcp_server server(loop);
  server.listen({gyre::net::ip_address::loopback_v4(), 0});
  server.start();
  auto hook = rt.on_shutdown(gyre::shutdown_phase::drain, loop, [&](gyre::shutdown_step step) {
    const gyre::steady_time deadline = step.deadline();
    server.stop(deadline, [step = std::move(step)] {});
  });
  rt.shutdown();
  co_await rt.drained();
  stopped = true;
}

TEST(ExecExamples, ShutdownHookStopsAServer) {
  gyre::runtime rt({.loops = 1, .pool = {.workers = 1}});
  bool stopped = false;
  EXPECT_EQ(rt.run([&](gyre::runtime& here) { return stop_server_at_the_end(here, stopped); }), 0);
  EXPECT_TRUE(stopped);
}

struct draining_program {
  // clang-format off
  gyre::task<> serve(gyre::runtime& rt) {
    gyre::net::tcp_server echo(rt.loops());
    auto hook = rt.on_shutdown(gyre::shutdown_phase::drain,
                               [&] { return echo.stop_async(); });
    co_await rt.drained();
  }
  // clang-format on
};

TEST(ExecExamples, RuntimeDrainsAServer) {
  gyre::runtime rt({.loops = 1, .pool = {.workers = 1}});
  draining_program program;
  rt.shutdown();
  EXPECT_EQ(rt.run([&](gyre::runtime& here) { return program.serve(here); }), 0);
}

// gyre/runtime/signal_set.hpp
TEST(ExecExamples, SignalSetStopsTheLoop) {
  gyre::loop loop;
  bool received = false;
  loop.post([&] {
    received = true;
    std::raise(SIGTERM);
  });
  gyre::signal_set quit(loop, {SIGINT, SIGTERM}, [&](const gyre::signal_info&) { loop.stop(); });
  loop.run();
  EXPECT_TRUE(received);
}

// The second example of the header of signal_set.
gyre::task<> reload_at_hang_up(gyre::loop& loop, int& reloads) {
  const auto reload = [&] {
    if (++reloads == 2) throw header_examples::seen_enough();
    std::raise(SIGHUP);
  };
  loop.post([] { std::raise(SIGHUP); });
  gyre::signal_set hang_up(loop, {SIGHUP});
  for (;;) {
    co_await hang_up.wait();
    reload();
  }
}

TEST(ExecExamples, SignalSetGivesSignalsToACoroutine) {
  gyre::loop loop;
  int reloads = 0;
  EXPECT_THROW(gyre::sync_wait(loop, reload_at_hang_up(loop, reloads)),
               header_examples::seen_enough);
  EXPECT_EQ(reloads, 2);
}

// gyre/exec/strand.hpp
TEST(ExecExamples, StrandRunsOneAtATime) {
  int balance = 0;
  std::promise<void> done;
  const auto deposit = [&](int amount) {
    return [](int& to, int added, std::promise<void>& full) -> gyre::task<> {
      to += added;
      if (to == 30) full.set_value();
      co_return;
    }(balance, amount, done);
  };
  gyre::thread_pool pool({.workers = 2});
  gyre::strand account(pool);
  gyre::spawn(account, deposit(10));  // on any thread of the pool, but never both at once:
  gyre::spawn(account, deposit(20));  // the balance needs no lock
  done.get_future().get();
  EXPECT_EQ(balance, 30);
}

// gyre/runtime/sharded.hpp
class session_table {
 public:
  explicit session_table(std::size_t room) { sessions_.reserve(room); }
  void insert(int user, const std::string& session) { sessions_.emplace_back(user, session); }
  std::size_t size() const { return sessions_.size(); }

 private:
  std::vector<std::pair<int, std::string>> sessions_;
};

gyre::task<std::size_t> use_tables(gyre::loop_pool& loops, int user_id, std::string session) {
  gyre::sharded<session_table> tables(loops);
  co_await tables.start(std::size_t{1024});  // session_table(1024) on each loop
  auto insert = [&](session_table& table) { table.insert(user_id, session); };
  co_await tables.call(user_id, insert);
  std::size_t sessions = co_await tables.map_reduce(&session_table::size, std::size_t{0});
  co_await tables.stop();
  co_return sessions;
}

TEST(ExecExamples, ShardedTakesCallsToTheData) {
  gyre::loop_pool loops(2);
  EXPECT_EQ(gyre::sync_wait(use_tables(loops, 7, "session")), 1U);
}

// gyre/exec/sync_wait.hpp
gyre::task<> serve(gyre::loop& loop) {
  co_await gyre::yield();
  EXPECT_TRUE(loop.running_here());
}

TEST(ExecExamples, SyncWaitRunsTheLoop) {
  gyre::loop loop;
  gyre::sync_wait(loop, serve(loop));
}

// gyre/pool/thread_pool.hpp
gyre::task<> go_there(gyre::thread_pool& pool) {
  co_await gyre::resume_on(pool);  // a coroutine continues there
  EXPECT_TRUE(pool.running_here());
}

gyre::task<int> submit_when_there_is_room(gyre::thread_pool& pool) {
  auto submitting = pool.async_submit([] { return 6 * 7; });
  gyre::future<int> answer = co_await std::move(submitting);
  co_return co_await std::move(answer);
}

TEST(ExecExamples, ThreadPoolRunsTasks) {
  std::promise<void> ran;
  gyre::thread_pool pool;               // a worker per CPU
  pool.post([&] { ran.set_value(); });  // no result
  gyre::future<int> answer = pool.submit([] { return 6 * 7; });
  int result = answer.get();  // or co_await std::move(answer)
  EXPECT_EQ(result, 42);
  ran.get_future().get();
  gyre::sync_wait(go_there(pool));
  EXPECT_EQ(gyre::sync_wait(submit_when_there_is_room(pool)), 42);
}

// gyre/exec/timer.hpp
TEST(ExecExamples, TimerPingsAgainAndAgain) {
  gyre::testing::virtual_time_loop virtual_time;
  gyre::loop& loop = virtual_time.loop;
  struct {
    int pings = 0;
    void ping() { ++pings; }
  } connection;
  gyre::timer heartbeat(loop, [&] { connection.ping(); });
  heartbeat.start_every(30s);
  loop.run_once();
  loop.run_once();
  EXPECT_EQ(connection.pings, 2);
}

}  // namespace
}  // namespace exec_test
