// SPDX-License-Identifier: Apache-2.0
// The examples in the comments of task's headers about running and stopping coroutines together.
#include <gyre/gyre.hpp>
#include <gyre/testing/manual_executor.hpp>
#include <gyre/testing/run_in_virtual_time.hpp>

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <numeric>
#include <optional>
#include <ranges>
#include <span>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace together_test {
namespace {

using namespace std::chrono_literals;

// gyre/task/collect.hpp
gyre::task<std::string> fetch(std::string url) {
  co_await gyre::yield();
  co_return "page of " + url;
}

gyre::task<std::vector<std::string>> fetch_all(std::vector<std::string> urls) {
  auto pages = co_await gyre::collect(urls | std::views::transform(fetch), 10);
  co_return pages;
}

TEST(TaskExamples, CollectGivesResultsInOrder) {
  EXPECT_EQ(gyre::sync_wait(fetch_all({"one", "two"})),
            (std::vector<std::string>{"page of one", "page of two"}));
}

// gyre/task/first_success.hpp
gyre::task<std::string> fetch_from_mirrors(std::string mirror, std::string other_mirror) {
  std::string page = co_await gyre::first_success(fetch(mirror), fetch(other_mirror));
  co_return page;
}

TEST(TaskExamples, FirstSuccessGivesOnePage) {
  EXPECT_EQ(gyre::sync_wait(fetch_from_mirrors("one", "two")), "page of one");
}

// gyre/task/fork.hpp
gyre::task<int> fibonacci(int n) {
  if (n < 2) co_return n;
  auto left = co_await gyre::fork(fibonacci(n - 1));  // another thread may take it
  int right = co_await fibonacci(n - 2);
  co_return co_await std::move(left) + right;
}

TEST(TaskExamples, ForkComputesFibonacciNumbers) {
  EXPECT_EQ(gyre::sync_wait(fibonacci(10)), 55);
  gyre::thread_pool pool(2);
  EXPECT_EQ(gyre::sync_wait(gyre::on(pool, fibonacci(20))), 6765);
}

// gyre/task/operation_cancelled.hpp
struct job_server {
  using job = std::string;
  std::vector<std::string> logged;

  static void run(const std::optional<job>& received) {
    throw std::runtime_error(received.value());
  }
  void log(const std::exception& failure) { logged.emplace_back(failure.what()); }

  gyre::task<> serve(gyre::channel<job>& jobs) {
    for (;;) {
      try {
        run(co_await jobs.receive());
      } catch (const std::exception& failure) {
        log(failure);  // a stop is not among these: it ends the loop
      }
    }
  }
};

TEST(TaskExamples, StopEndsALoopThatLogsErrors) {
  gyre::testing::manual_executor executor;
  gyre::channel<job_server::job> jobs(1);
  ASSERT_EQ(jobs.try_send("failed"), gyre::channel_status::ok);
  job_server server;
  gyre::inplace_stop_source stop;
  auto ended = gyre::spawn_future(executor, server.serve(jobs), stop.get_token());
  executor.run_all();
  stop.request_stop();
  executor.run_all();
  EXPECT_THROW(ended.get(), std::system_error);
  EXPECT_EQ(server.logged, std::vector<std::string>{"failed"});
}

// gyre/task/schedule.hpp
std::thread::id computed_on;
std::string shown;

std::string compute() {
  computed_on = std::this_thread::get_id();
  return "result";
}
void show(const std::string& result) { shown = result; }

gyre::task<> handle(gyre::loop& ui, gyre::executor& workers) {
  co_await gyre::resume_on(workers);
  auto result = compute();
  co_await gyre::resume_on(ui);
  show(result);
}

TEST(TaskExamples, ResumeOnGoesToWorkersAndBack) {
  gyre::thread_pool workers(1);
  gyre::loop ui;
  gyre::sync_wait(ui, handle(ui, workers));
  EXPECT_NE(computed_on, std::this_thread::get_id());
  EXPECT_EQ(shown, "result");
}

// gyre/task/scope.hpp
struct client {
  std::string name;
};

gyre::task<std::vector<std::string>> serve_all(gyre::channel<client>& clients) {
  std::vector<std::string> served;
  struct {
    gyre::channel<client>& from;
    auto accept() { return from.receive(); }
  } listener{clients};
  const auto serve = [&](client accepted) -> gyre::task<> {
    co_await gyre::yield();
    served.push_back(accepted.name);
  };
  co_await gyre::with_scope([&](gyre::scope& scope) -> gyre::task<> {
    while (auto connection = co_await listener.accept()) {
      scope.spawn(serve(std::move(*connection)));  // its error would stop all others
    }
  });  // all connections have been served
  co_return served;
}

TEST(TaskExamples, ScopeEndsWhenAllWereServed) {
  gyre::channel<client> clients(2);
  ASSERT_EQ(clients.try_send(client{"one"}), gyre::channel_status::ok);
  ASSERT_EQ(clients.try_send(client{"two"}), gyre::channel_status::ok);
  clients.close();
  EXPECT_EQ(gyre::sync_wait(serve_all(clients)), (std::vector<std::string>{"one", "two"}));
}

// gyre/task/async_scope.hpp
class price_feed {
 public:
  explicit price_feed(gyre::executor& where) : tasks_(where) {}

  void follow(std::string symbol) { tasks_.spawn(poll(std::move(symbol))); }
  gyre::task<> stop() {
    tasks_.request_stop();
    co_await tasks_.join();  // no task uses this object any more
  }

  int polls = 0;

 private:
  gyre::task<> poll(std::string symbol);

  gyre::async_scope tasks_;
};

gyre::task<> price_feed::poll(std::string symbol) {
  while (!symbol.empty()) {
    ++polls;
    co_await gyre::sleep_for(1h);
  }
}

TEST(TaskExamples, FeedStopsItsTasks) {
  gyre::loop loop;
  price_feed feed(loop);
  feed.follow("GYR");
  feed.follow("SLB");
  gyre::sync_wait(loop, gyre::yield());
  gyre::sync_wait(loop, feed.stop());
  EXPECT_EQ(feed.polls, 2);
}

// gyre/task/join_handle.hpp
gyre::task<std::string> fetch_both(gyre::executor& workers) {
  gyre::join_handle<std::string> first = gyre::spawn_joinable(workers, fetch("one"));
  std::string second = co_await fetch("two");  // while the first is fetched
  std::string joined = co_await first.join();
  co_return joined + second;
}

TEST(TaskExamples, JoinHandleGivesTheResultOfAStartedTask) {
  gyre::thread_pool workers(1);
  gyre::loop loop;
  EXPECT_FALSE(gyre::sync_wait(loop, fetch_both(workers)).empty());
}

// gyre/task/shared_task.hpp
struct config {
  int loads;
};

gyre::shared_task<config> load_settings() {
  static int loads = 0;
  co_await gyre::yield();
  co_return config{.loads = ++loads};
}

gyre::task<int> loads_seen(gyre::shared_task<config> settings) {
  const config& here = co_await settings;  // on any executor, any number of times
  co_return here.loads;
}

TEST(TaskExamples, SharedTaskLoadsOnce) {
  gyre::shared_task<config> settings = load_settings();  // starts when first awaited
  auto [one, other] = gyre::sync_wait(gyre::when_all(loads_seen(settings), loads_seen(settings)));
  EXPECT_EQ(one, 1);
  EXPECT_EQ(other, 1);
}

gyre::task<int> join(gyre::shared_task<int>& loading, gyre::shared_task<int> again) {
  const auto load_settings = [&] { return std::move(again); };
  try {
    co_return co_await loading;
  } catch (const std::system_error& error) {
    if (error.code() != std::errc::owner_dead) throw;
  }
  if (loading.is_abandoned()) loading = load_settings();  // no other awaiter has done so yet
  co_return co_await loading;
}

gyre::shared_task<int> load_after(gyre::manual_reset_event& ready) {
  co_await ready.wait();
  co_return 5;
}

TEST(TaskExamples, SharedTaskThatWasAbandonedIsReplaced) {
  gyre::testing::manual_executor executor;
  gyre::manual_reset_event never;
  gyre::manual_reset_event ready;
  ready.set();
  gyre::shared_task<int> loading = load_after(never);
  gyre::inplace_stop_source stop;
  gyre::spawn(executor, join(loading, load_after(ready)),
              {.stop = stop.get_token(), .on_error = [](std::exception_ptr) {}});
  executor.run_all();
  stop.request_stop();
  executor.run_all();
  EXPECT_TRUE(loading.is_abandoned());
  EXPECT_EQ(gyre::sync_wait(join(loading, load_after(ready))), 5);
}

// gyre/task/shielded.hpp
struct session {
  bool was_asked_to_stop = false;
  bool said_goodbye = false;

  gyre::task<> say_goodbye() {
    const gyre::inplace_stop_token stop = co_await gyre::current_stop_token();
    was_asked_to_stop = stop.stop_requested();
    said_goodbye = true;
  }
};

gyre::task<> close_session(session& of) {
  co_await gyre::shielded(of.say_goodbye(), 2s);  // also when the server is asked to stop
}

TEST(TaskExamples, ShieldedSaysGoodbyeInSpiteOfAStop) {
  gyre::testing::manual_executor executor;
  session one;
  gyre::inplace_stop_source stop;
  stop.request_stop();
  run_in_virtual_time(executor, close_session(one), stop.get_token());
  EXPECT_TRUE(one.said_goodbye);
  EXPECT_FALSE(one.was_asked_to_stop);
}

// gyre/task/spawn.hpp
TEST(TaskExamples, SpawnStartsACoroutine) {
  gyre::loop loop;
  client connection{"one"};
  std::string handled;
  const auto handle = [&](client accepted) -> gyre::task<> {
    handled = accepted.name;
    loop.stop();
    co_return;
  };
  gyre::spawn(loop, handle(std::move(connection)));
  loop.run();
  EXPECT_EQ(handled, "one");
}

// gyre/task/stop_token.hpp
TEST(TaskExamples, StopCallbackIsCalledHereAndNow) {
  struct {
    bool cancelled = false;
    void cancel() { cancelled = true; }
  } socket;
  gyre::inplace_stop_source source;
  gyre::inplace_stop_callback on_stop(source.get_token(), [&] { socket.cancel(); });
  source.request_stop();  // calls it, here and now
  EXPECT_TRUE(socket.cancelled);
}

// gyre/task/stop_when.hpp
gyre::task<int> serve_until_shutdown(gyre::inplace_stop_source& shutdown) {
  int served = 0;
  const auto serve = [&]() -> gyre::task<> {
    const gyre::inplace_stop_token stop = co_await gyre::current_stop_token();
    while (!stop.stop_requested()) {
      if (++served == 3) shutdown.request_stop();
    }
  };
  co_await gyre::stop_when(serve(), shutdown.get_token());
  co_return served;
}

TEST(TaskExamples, StopWhenStopsServing) {
  gyre::inplace_stop_source shutdown;
  EXPECT_EQ(gyre::sync_wait(serve_until_shutdown(shutdown)), 3);
}

// gyre/task/when_all.hpp
gyre::task<std::string> load_user(int id) { co_return "user " + std::to_string(id); }
gyre::task<std::vector<int>> load_orders(int id) { co_return std::vector<int>{id, id + 1}; }

gyre::task<std::size_t> load_both(int id) {
  auto [user, orders] = co_await gyre::when_all(load_user(id), load_orders(id));
  EXPECT_EQ(user, "user 7");
  co_return orders.size();
}

TEST(TaskExamples, WhenAllGivesAllResults) { EXPECT_EQ(gyre::sync_wait(load_both(7)), 2U); }

gyre::task<std::uint64_t> sum(std::uint64_t part) { co_return 2 * part; }

gyre::task<std::uint64_t> sum_of_parts() {
  const std::array<std::uint64_t, 8> parts{1, 2, 3, 4, 5, 6, 7, 8};
  std::array<std::uint64_t, 8> sums;
  const auto sum_of_part = [&](std::size_t i) { return sum(parts[i]); };
  co_await gyre::when_all_into(std::span(sums), sum_of_part);
  co_return std::accumulate(sums.begin(), sums.end(), std::uint64_t{0});
}

TEST(TaskExamples, WhenAllIntoPutsResultsIntoASpan) {
  EXPECT_EQ(gyre::sync_wait(sum_of_parts()), 72U);
}

// gyre/task/when_any.hpp
gyre::task<int> receive_within_a_second(gyre::channel<int>& jobs) {
  int handled = 0;
  const auto handle = [&](std::optional<int> received) { handled = received.value_or(0); };
  auto first = co_await gyre::when_any(jobs.receive(), gyre::sleep_for(1s));
  if (auto& job = std::get<0>(first.values)) handle(*job);  // even if the second ended first
  co_return handled;
}

TEST(TaskExamples, WhenAnyGivesTheFirst) {
  gyre::testing::manual_executor executor;
  gyre::channel<int> jobs(1);
  EXPECT_EQ(run_in_virtual_time(executor, receive_within_a_second(jobs)), 0);
  ASSERT_EQ(jobs.try_send(7), gyre::channel_status::ok);
  EXPECT_EQ(run_in_virtual_time(executor, receive_within_a_second(jobs)), 7);
}

// gyre/task/with_timeout.hpp
struct slow_server {
  std::chrono::seconds delay;
};

gyre::task<std::string> ask(slow_server server) {
  co_await gyre::sleep_for(server.delay);
  co_return "reply";
}

gyre::task<std::string> ask_for_two_seconds(slow_server server) {
  auto reply = co_await gyre::with_timeout(ask(server), 2s);
  co_return reply;
}

// gyre/task/time_limit_error.hpp
gyre::task<> count_slow_replies(slow_server server, int& too_slow) {
  auto reply = co_await gyre::as_expected(gyre::with_timeout(ask(server), 2s));
  if (!reply && reply.error() == gyre::time_limit_errc::expired) ++too_slow;
}

TEST(TaskExamples, AnExpiredLimitIsAnErrorAsAValue) {
  gyre::testing::manual_executor executor;
  int too_slow = 0;
  run_in_virtual_time(executor, count_slow_replies({1s}, too_slow));
  EXPECT_EQ(too_slow, 0);
  run_in_virtual_time(executor, count_slow_replies({3s}, too_slow));
  EXPECT_EQ(too_slow, 1);
}

TEST(TaskExamples, WithTimeoutThrowsWhenTimeIsUp) {
  gyre::testing::manual_executor executor;
  EXPECT_EQ(run_in_virtual_time(executor, ask_for_two_seconds({1s})), "reply");
  EXPECT_THROW(run_in_virtual_time(executor, ask_for_two_seconds({3s})), std::system_error);
}

// gyre/task/hedge.hpp
gyre::task<std::string> ask_replicas(std::vector<slow_server> replicas) {
  auto reply = co_await gyre::hedge([&](std::size_t i) { return ask(replicas[i]); },
                                    {.delay = 10ms, .attempts = 2});
  co_return reply;
}

TEST(TaskExamples, HedgeAsksAnotherReplica) {
  gyre::testing::manual_executor executor;
  const gyre::steady_time start = executor.now();
  EXPECT_EQ(run_in_virtual_time(executor, ask_replicas({{3600s}, {0s}})), "reply");
  EXPECT_LT(executor.now(), start + 1s);
}

// gyre/task/retry.hpp
gyre::task<std::string> fetch_stubbornly(std::string url) {
  const auto attempt = [&] { return gyre::with_timeout(fetch(url), 1s); };
  std::string page = co_await gyre::retry(attempt, {.attempts = 3, .time_limit = 10s});
  co_return page;
}

TEST(TaskExamples, RetryGivesThePage) {
  gyre::testing::manual_executor executor;
  EXPECT_EQ(run_in_virtual_time(executor, fetch_stubbornly("one")), "page of one");
}

}  // namespace
}  // namespace together_test
