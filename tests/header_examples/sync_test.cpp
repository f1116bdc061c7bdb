// SPDX-License-Identifier: Apache-2.0
// The examples in the comments of sync's headers.
#include <gyre/gyre.hpp>
#include <gyre/testing/run_in_virtual_time.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace sync_test {
namespace {

using namespace std::chrono_literals;

// gyre/sync/async_cache.hpp
using page = std::string;

gyre::task<page> load_page(std::string name) {
  static int loads = 0;
  ++loads;
  co_await gyre::yield();
  co_return name + std::to_string(loads);
}

gyre::task<page> load_twice(gyre::loop& loop) {
  gyre::async_cache<std::string, page> pages(
      {.capacity = 1000, .time_to_live = 5min, .clock = loop.timers()});
  std::shared_ptr<const page> start = co_await pages.get("index", load_page);
  pages.invalidate("index");
  std::shared_ptr<const page> again = co_await pages.get("index", load_page);
  EXPECT_NE(*start, *again);
  co_return *pages.try_get("index");
}

TEST(SyncExamples, CacheLoadsWhatWasInvalidated) {
  gyre::loop loop;
  EXPECT_EQ(gyre::sync_wait(loop, load_twice(loop)).substr(0, 5), "index");
}

// gyre/sync/barrier.hpp
class heat_grid {
 public:
  explicit heat_grid(std::size_t parts) : now_(parts, 1.0), next_(parts, 1.0) {}
  void relax(std::size_t part) { next_[part] = now_[part] / 2; }
  void swap() noexcept { now_.swap(next_); }
  bool settled() const { return now_.front() < 0.1; }
  const std::vector<double>& parts() const { return now_; }

 private:
  std::vector<double> now_;
  std::vector<double> next_;
};

template <class Barrier>
gyre::task<> relax_part(heat_grid& grid, Barrier& phase, std::size_t part) {
  while (!grid.settled()) {
    grid.relax(part);
    co_await phase.arrive_and_wait();
  }
}

TEST(SyncExamples, BarrierSeparatesPhases) {
  heat_grid grid(2);
  const std::uint64_t workers = 2;
  gyre::barrier phase(workers, [&]() noexcept { grid.swap(); });
  gyre::sync_wait(gyre::when_all(relax_part(grid, phase, 0), relax_part(grid, phase, 1)));
  EXPECT_EQ(grid.parts(), std::vector<double>(2, 0.0625));
}

// gyre/sync/broadcast.hpp
struct event {
  std::string name;
};

gyre::task<> read_events(gyre::broadcast_receiver<event>& receiver, std::string& handled) {
  const auto log_gap = [&](std::uint64_t missed) { handled += std::to_string(missed); };
  const auto handle = [&](const event& each) { handled += each.name; };
  while (auto next = co_await receiver.receive()) {
    if (next->missed != 0) log_gap(next->missed);
    handle(next->value);
  }
}

TEST(SyncExamples, BroadcastTellsSubscribers) {
  gyre::broadcast<event> events(256);
  gyre::broadcast_receiver<event> receiver = events.subscribe();  // sees later values
  events.send(event{"started"});
  for (int i = 0; i < 256; ++i) events.send(event{""});
  events.close();
  std::string handled;
  gyre::sync_wait(read_events(receiver, handled));
  EXPECT_EQ(handled, "1");  // of all the events the receiver was behind by one
}

// gyre/sync/channel_error.hpp
namespace closed_jobs {
struct work {
  int number;
};
gyre::task<> work_until_closed(gyre::channel<work>& jobs, int& sends) {
  for (int number = 0;; ++number) {
    const work job{number};
    auto sent = co_await gyre::as_expected(jobs.send(job));
    if (!sent && sent.error() == gyre::channel_errc::closed) co_return;  // nobody works any more
    ++sends;
  }
}
}  // namespace closed_jobs

TEST(SyncExamples, ASendIntoAClosedChannelIsAnErrorAsAValue) {
  gyre::channel<closed_jobs::work> jobs(1);
  jobs.close();
  int sends = 0;
  gyre::sync_wait(closed_jobs::work_until_closed(jobs, sends));
  EXPECT_EQ(sends, 0);
}

// gyre/sync/channel.hpp
struct job {
  int id;
  std::string payload;
};

gyre::task<> send_job(gyre::channel<job>& jobs, int id, std::string payload) {
  co_await jobs.emplace(id, std::move(payload));  // waits while 64 are on their way
  jobs.close();
}

gyre::task<> run_jobs(gyre::channel<job>& jobs, std::string& ran) {
  const auto run = [&](const job& each) { ran += each.payload; };
  while (std::optional<job> next = co_await jobs.receive()) run(*next);  // until jobs.close()
}

TEST(SyncExamples, ChannelHandsOverJobs) {
  gyre::channel<job> jobs(64);
  std::string ran;
  const std::string payload = "longer than a string holds in place";
  gyre::sync_wait(gyre::when_all(run_jobs(jobs, ran), send_job(jobs, 7, payload)));
  EXPECT_EQ(ran, payload);
}

// gyre/sync/condition_variable.hpp
gyre::task<int> take(gyre::mutex& mutex, gyre::condition_variable& changed,
                     std::deque<int>& queue) {
  auto guard = co_await mutex.lock();
  co_await changed.wait(guard, [&] { return !queue.empty(); });
  co_return queue.front();
}

gyre::task<> put(gyre::mutex& mutex, gyre::condition_variable& changed, std::deque<int>& queue) {
  auto guard = co_await mutex.lock();
  queue.push_back(7);
  changed.notify_one();
}

TEST(SyncExamples, ConditionVariableWaitsForAChange) {
  gyre::mutex mutex;
  gyre::condition_variable changed;
  std::deque<int> queue;
  auto [taken, nothing] =
      gyre::sync_wait(gyre::when_all(take(mutex, changed, queue), put(mutex, changed, queue)));
  EXPECT_EQ(taken, 7);
}

// gyre/sync/event.hpp
gyre::task<> wait_until_ready(gyre::manual_reset_event& ready) {
  co_await ready.wait();  // elsewhere: ready.set()
}

gyre::task<> set(gyre::manual_reset_event& ready) {
  ready.set();
  co_return;
}

TEST(SyncExamples, EventWakesItsWaiter) {
  gyre::manual_reset_event ready;
  gyre::sync_wait(gyre::when_all(wait_until_ready(ready), set(ready)));
  EXPECT_TRUE(ready.is_set());
}

// gyre/sync/join_set.hpp
gyre::task<std::string> fetch(std::string url) {
  co_await gyre::sleep_for(url == "slow" ? 2s : 1s);
  co_return url;
}

gyre::task<std::vector<std::string>> fetch_as_they_come(std::vector<std::string> urls) {
  auto body = [&](gyre::scope& scope) -> gyre::task<std::vector<std::string>> {
    std::vector<std::string> shown;
    const auto show = [&](std::string text) { shown.push_back(std::move(text)); };
    gyre::join_set<std::string> downloads(scope);
    for (const std::string& url : urls) downloads.spawn(fetch(url));
    while (auto done = co_await downloads.next()) show(*done);  // the fastest first
    co_return shown;
  };
  co_return co_await gyre::with_scope(body);
}

gyre::task<std::size_t> fetch_eight_at_a_time(std::vector<std::string> urls) {
  auto body = [&](gyre::scope& scope) -> gyre::task<std::size_t> {
    std::size_t shown = 0;
    const auto show = [&](const std::string&) { ++shown; };
    gyre::join_set<std::string> downloads(scope);
    for (const std::string& url : urls) {
      if (downloads.size() == 8) {
        auto done = co_await downloads.next();
        show(*done);
      }
      downloads.spawn(fetch(url));
    }
    while (auto done = co_await downloads.next()) show(*done);
    co_return shown;
  };
  co_return co_await gyre::with_scope(body);
}

TEST(SyncExamples, JoinSetRunsEightAtATime) {
  gyre::testing::manual_executor executor;
  EXPECT_EQ(
      run_in_virtual_time(executor, fetch_eight_at_a_time(std::vector<std::string>(20, "quick"))),
      20U);
}

TEST(SyncExamples, JoinSetGivesTheFastestFirst) {
  gyre::testing::manual_executor executor;
  EXPECT_EQ(run_in_virtual_time(executor, fetch_as_they_come({"slow", "quick"})),
            (std::vector<std::string>{"quick", "slow"}));
}

// gyre/sync/latch.hpp
gyre::task<std::size_t> wait_for_servers(gyre::latch& started, std::size_t& ready) {
  co_await started.wait();  // each server: started.count_down()
  co_return ready;
}

gyre::task<> start(gyre::latch& started, std::size_t& ready) {
  ++ready;
  started.count_down();
  co_return;
}

TEST(SyncExamples, LatchWaitsForAll) {
  std::size_t ready = 0;
  const std::vector<std::string> servers{"one", "other"};
  gyre::latch started(servers.size());
  auto [seen, one, other] = gyre::sync_wait(gyre::when_all(
      wait_for_servers(started, ready), start(started, ready), start(started, ready)));
  EXPECT_EQ(seen, servers.size());
}

// gyre/sync/mutex.hpp
class slow_file {
 public:
  gyre::task<> write(char record) {
    text_ += record;
    co_await gyre::yield();
    text_ += record;
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

gyre::task<> write_alone(gyre::mutex& mutex, slow_file& file, char record) {
  auto guard = co_await mutex.lock();
  co_await file.write(record);  // nobody else gets in between
}

TEST(SyncExamples, MutexLetsNobodyGetInBetween) {
  slow_file file;
  gyre::mutex mutex;
  gyre::sync_wait(gyre::when_all(write_alone(mutex, file, 'a'), write_alone(mutex, file, 'b')));
  EXPECT_EQ(file.text(), "aabb");
}

// gyre/sync/once.hpp
struct database {
  int connects = 0;
  gyre::once_flag connected;

  gyre::task<> connect() {
    ++connects;
    co_await gyre::yield();
  }
  gyre::task<> use() {
    co_await gyre::call_once(connected, [&] { return connect(); });
    EXPECT_EQ(connects, 1);
  }
};

TEST(SyncExamples, OnceConnectsOnce) {
  database one;
  gyre::sync_wait(gyre::when_all(one.use(), one.use()));
  EXPECT_TRUE(one.connected.done());
}

// gyre/sync/oneshot.hpp
struct query {
  std::string question;
  gyre::oneshot_sender<int> reply;
};

gyre::task<> answer_all(gyre::channel<query>& jobs) {
  while (std::optional<query> next = co_await jobs.receive()) next->reply.send(42);
}

gyre::task<int> ask(gyre::channel<query>& jobs, std::string question) {
  auto [reply, answer] = gyre::make_oneshot<int>();
  co_await jobs.emplace(question, std::move(reply));  // elsewhere: next->reply.send(42)
  jobs.close();
  std::optional<int> received = co_await answer.receive();  // nullopt: dropped without a reply
  co_return received.value();
}

TEST(SyncExamples, OneshotBringsTheReply) {
  gyre::channel<query> jobs(8);
  auto [nothing, answer] =
      gyre::sync_wait(gyre::when_all(answer_all(jobs), ask(jobs, "life, the universe")));
  EXPECT_EQ(answer, 42);
}

// gyre/sync/keyed_rate_limiter.hpp
TEST(SyncExamples, KeyedRateLimiterRefusesAKey) {
  gyre::testing::manual_executor loop;
  const std::string address = "192.0.2.7";
  gyre::duration wait = gyre::duration::zero();
  const auto refuse = [&](gyre::duration retry_after) { wait = retry_after; };
  const auto log_in = [&] {
    gyre::keyed_rate_limiter logins({.tokens = 5, .per = 1min, .burst = 10});
    const auto decision = logins.try_acquire(address, loop.now());
    if (!decision.is_allowed) return refuse(decision.retry_after);
  };
  log_in();
  EXPECT_EQ(wait, 0s);
}

// gyre/sync/rate_limiter.hpp
gyre::task<> send_requests(std::vector<gyre::steady_time>& sent,
                           gyre::testing::manual_executor& on) {
  const int request = 1;
  const auto send = [&](int) -> gyre::task<> {
    sent.push_back(on.now());
    co_return;
  };
  gyre::rate_limiter limit({.tokens = 100, .per = 1s, .burst = 10});

  for (int i = 0; i < 12; ++i) {
    co_await limit.acquire();
    co_await send(request);  // at most 100 times a second, and 10 at once
  }
}

TEST(SyncExamples, RateLimiterSpreadsRequests) {
  gyre::testing::manual_executor executor;
  const gyre::steady_time start = executor.now();
  std::vector<gyre::steady_time> sent;
  run_in_virtual_time(executor, send_requests(sent, executor));
  EXPECT_EQ(sent.at(9), start);
  EXPECT_GE(sent.at(11), start + 20ms);
}

// gyre/sync/select.hpp
struct too_slow : std::exception {};

gyre::task<> select_once(gyre::channel<job>& jobs, gyre::channel<std::string>& log,
                         std::string line, std::string& ran) {
  const auto run = [&](const std::optional<job>& received) { ran = received.value().payload; };
  // clang-format off
  auto chosen = co_await gyre::select(gyre::on_receive(jobs), gyre::on_send(log, line),
                                      gyre::on_timeout(5s));
  switch (chosen.index()) {
    case 0: run(std::get<0>(chosen)); break;  // a std::optional<job>
    case 1: break;                            // sent
    case 2: throw too_slow();
  }
  // clang-format on
}

TEST(SyncExamples, SelectTakesTheFirstOfThree) {
  gyre::testing::manual_executor executor;
  gyre::channel<job> jobs(1);
  gyre::channel<std::string> log(1);
  std::string ran;
  EXPECT_EQ(jobs.try_send(job{7, "payload"}), gyre::channel_status::ok);
  EXPECT_EQ(log.try_send("full"), gyre::channel_status::ok);
  run_in_virtual_time(executor, select_once(jobs, log, "line", ran));
  EXPECT_EQ(ran, "payload");
  EXPECT_THROW(run_in_virtual_time(executor, select_once(jobs, log, "line", ran)), too_slow);
  EXPECT_EQ(log.try_receive(), "full");
  run_in_virtual_time(executor, select_once(jobs, log, "line", ran));
  EXPECT_EQ(log.try_receive(), "line");
}

// gyre/sync/semaphore.hpp
gyre::task<> use_connection(gyre::semaphore& connections) {
  auto permit = co_await connections.permit();
  EXPECT_EQ(connections.available(), 99U);
}

TEST(SyncExamples, SemaphoreGetsItsPermitBack) {
  gyre::semaphore connections(100);
  gyre::sync_wait(use_connection(connections));
  EXPECT_EQ(connections.available(), 100U);
}

// gyre/sync/shared_mutex.hpp
gyre::task<> read(gyre::shared_mutex& mutex) {
  auto reading = co_await mutex.lock_shared();  // beside other readers
  EXPECT_TRUE(mutex.try_lock_shared());
  EXPECT_FALSE(mutex.try_lock());
  mutex.unlock_shared();
}

gyre::task<> write(gyre::shared_mutex& mutex) {
  auto writing = co_await mutex.lock();  // alone
  EXPECT_FALSE(mutex.try_lock_shared());
}

TEST(SyncExamples, SharedMutexLetsReadersInTogether) {
  gyre::shared_mutex mutex;
  gyre::sync_wait(gyre::when_all(read(mutex), write(mutex)));
  EXPECT_TRUE(mutex.try_lock());
  mutex.unlock();
}

// gyre/sync/single_flight.hpp
gyre::task<page> show_start(gyre::single_flight<std::string, page>& flights) {
  page start = co_await flights.run("index", load_page);  // task<page> load_page(std::string)
  co_return start;
}

TEST(SyncExamples, SingleFlightLoadsOncePerFlight) {
  gyre::single_flight<std::string, page> flights;
  auto [one, other] = gyre::sync_wait(gyre::when_all(show_start(flights), show_start(flights)));
  EXPECT_EQ(one, other);
  EXPECT_NE(gyre::sync_wait(show_start(flights)), one);
}

// gyre/sync/watch.hpp
struct settings {
  int version;
};

settings load() {
  static int version = 0;
  return {++version};
}

gyre::task<> apply_changes(gyre::watch_receiver<settings>& receiver, std::vector<int>& applied) {
  const auto apply = [&](const settings& each) { applied.push_back(each.version); };
  while (std::optional<settings> next = co_await receiver.changed()) apply(*next);
}

TEST(SyncExamples, WatchTellsTheLatestValue) {
  gyre::watch<settings> current(load());
  gyre::watch_receiver<settings> receiver = current.subscribe();
  current.set(load());
  current.close();
  std::vector<int> applied;
  gyre::sync_wait(apply_changes(receiver, applied));
  EXPECT_EQ(applied, std::vector<int>{2});
}

}  // namespace
}  // namespace sync_test
