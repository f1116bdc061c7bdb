// SPDX-License-Identifier: Apache-2.0
// Tests of a pool of loops.
#include <gyre/runtime/loop_pool.hpp>

#include <tests/support/destruction_promise.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <pthread.h>
#include <sched.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <future>
#include <latch>
#include <memory>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace loop_pool_test {
namespace {

using gyre::test::destruction_promise;
using namespace std::chrono_literals;
using gyre::loop;
using gyre::loop_pool;

gyre::loop_options rethrowing(std::size_t) {
  return {.on_exception = [](std::exception_ptr error) { std::rethrow_exception(error); }};
}

template <class Ask>
auto answer(loop& on, Ask ask) {
  std::promise<decltype(ask())> answered;
  on.post([&] { answered.set_value(ask()); });
  return answered.get_future().get();
}

std::string name_of_this_thread() {
  std::array<char, 16> name{};
  pthread_getname_np(pthread_self(), name.data(), name.size());
  return name.data();
}

TEST(LoopPool, RunsEachLoopOnAThreadOfItsOwn) {
  loop_pool pool(3);
  EXPECT_EQ(pool.size(), 3u);
  std::set<std::thread::id> threads;
  for (std::size_t i = 0; i < pool.size(); ++i) {
    threads.insert(answer(pool[i], [] { return std::this_thread::get_id(); }));
    EXPECT_TRUE(answer(pool[i], [&] { return pool[i].in_loop_thread(); }));
  }
  EXPECT_EQ(threads.size(), 3u);
}

TEST(LoopPool, NamesItsThreadsByTheirIndex) {
  loop_pool pool(2, {.name = "worker"});
  EXPECT_EQ(answer(pool[0], name_of_this_thread), "worker-0");
  EXPECT_EQ(answer(pool[1], name_of_this_thread), "worker-1");
}

TEST(LoopPool, GivesOutItsLoopsInTurn) {
  loop_pool pool(3);
  for (int round = 0; round < 4; ++round) {
    for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(&pool.next(), &pool[i]);
  }
}

TEST(LoopPool, GivesThemOutEvenlyToManyThreads) {
  loop_pool pool(3);
  std::array<std::atomic<int>, 3> given{};
  {
    std::vector<std::jthread> users;
    for (int i = 0; i < 3; ++i) {
      users.emplace_back([&] {
        for (int n = 0; n < 100; ++n) {
          const loop* const next = &pool.next();
          for (std::size_t each = 0; each < 3; ++each) given[each] += next == &pool[each] ? 1 : 0;
        }
      });
    }
  }
  EXPECT_EQ(given[0], 100);
  EXPECT_EQ(given[1], 100);
  EXPECT_EQ(given[2], 100);
}

TEST(LoopPool, GivesTheSameLoopForTheSameHash) {
  loop_pool pool(3);
  for (std::uint64_t hash = 0; hash < 1000; ++hash) {
    EXPECT_EQ(&pool.for_hash(hash), &pool.for_hash(hash));
  }
}

TEST(LoopPool, SpreadsHashesHoweverTheyAreMade) {
  loop_pool pool(3);
  const auto spread = [&](unsigned shift) {
    std::array<int, 3> counts{};
    for (std::uint64_t i = 0; i < 3000; ++i) {
      const loop* const chosen = &pool.for_hash(i << shift);
      for (std::size_t each = 0; each < 3; ++each) counts[each] += chosen == &pool[each] ? 1 : 0;
    }
    EXPECT_EQ(counts[0] + counts[1] + counts[2], 3000) << "in range";
    EXPECT_THAT(counts, testing::Each(testing::AllOf(testing::Ge(700), testing::Le(1300))));
  };
  spread(0);   // consecutive numbers
  spread(6);   // addresses of cache lines
  spread(12);  // and of pages
  EXPECT_NO_FATAL_FAILURE(pool.for_hash(~std::uint64_t{0}).post([] {}));
}

TEST(LoopPool, CallsItsHooksForEachLoop) {
  std::vector<std::size_t> started;
  std::mutex mutex;
  std::multiset<std::size_t> stopped;
  {
    loop_pool pool(3, {.on_start =
                           [&](loop& l, std::size_t index) {
                             started.push_back(index);
                             l.post([] {});
                           },
                       .on_stop =
                           [&](loop&, std::size_t index) {
                             const std::lock_guard lock(mutex);
                             stopped.insert(index);
                           }});
    EXPECT_THAT(started, testing::ElementsAre(0, 1, 2));
  }
  EXPECT_THAT(stopped, testing::ElementsAre(0, 1, 2));
}

TEST(LoopPool, MakesTheOptionsOfEachLoop) {
  loop_pool pool(
      2, {.on_start = [](loop& l, std::size_t) { l.stop(); },
          .loop = [](std::size_t index) { return gyre::loop_options{.inbox_limit = index}; }});
  pool.join();
  EXPECT_FALSE(pool[0].try_post([] {}));
  EXPECT_TRUE(pool[1].try_post([] {}));
}

TEST(LoopPool, PutsThreadsOnCpusInTurn) {
  cpu_set_t allowed;
  ASSERT_EQ(sched_getaffinity(0, sizeof allowed, &allowed), 0);
  std::vector<int> cpus;
  for (std::size_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &allowed)) cpus.push_back(static_cast<int>(cpu));
  }
  loop_pool pool(3, {.cpus = cpus});
  for (std::size_t i = 0; i < 3; ++i) {
    const cpu_set_t set = answer(pool[i], [] {
      cpu_set_t of_thread;
      CPU_ZERO(&of_thread);
      sched_getaffinity(0, sizeof of_thread, &of_thread);
      return of_thread;
    });
    EXPECT_EQ(CPU_COUNT(&set), 1);
    EXPECT_TRUE(CPU_ISSET(static_cast<std::size_t>(cpus[i % cpus.size()]), &set));
  }
}

TEST(LoopPool, RefusesToBeWithoutThreads) { EXPECT_THROW(loop_pool(0), std::invalid_argument); }

TEST(LoopPool, ACpuThatIsNotThereEndsThoseThatHadStarted) {
  int started = 0;
  int stopped = 0;
  const auto make = [&] {
    loop_pool(2, {.cpus = {0, -1},
                  .on_start = [&](loop&, std::size_t) { ++started; },
                  .on_stop = [&](loop&, std::size_t) { ++stopped; }});
  };
  EXPECT_THROW(make(), std::system_error);
  EXPECT_EQ(started, stopped);
}

TEST(LoopPool, ExceptionsOfOnStartEndTheLoopsStartedBefore) {
  std::atomic<int> stopped = 0;
  const auto make = [&] {
    loop_pool(3, {.on_start =
                      [](loop&, std::size_t index) {
                        if (index == 2) throw std::runtime_error("third");
                      },
                  .on_stop = [&](loop&, std::size_t) { ++stopped; }});
  };
  EXPECT_THROW(make(), std::runtime_error);
  EXPECT_EQ(stopped, 2);
}

TEST(LoopPool, JoinWaitsForAllAndThrowsTheFirstException) {
  std::atomic<int> stopped = 0;
  loop_pool pool(3, {.on_stop = [&](loop&, std::size_t) { ++stopped; }, .loop = rethrowing});
  pool[0].stop();
  pool[1].post([] { throw std::runtime_error("second"); });
  pool[2].post([&] { pool[2].stop(); });
  EXPECT_THROW(pool.join(), std::runtime_error);
  EXPECT_EQ(stopped, 2);
  EXPECT_NO_THROW(pool.join());
}

TEST(LoopPool, JoinForGivesUpAndCanBeRepeated) {
  std::latch begun(1);
  std::latch release(1);
  loop_pool pool(2);
  pool[1].post([&] {
    begun.count_down();
    release.wait();
  });
  begun.wait();
  pool.stop();
  EXPECT_FALSE(pool.join_for(1ms));
  EXPECT_FALSE(pool.join_for(-1h));
  release.count_down();
  EXPECT_TRUE(pool.join_for(std::chrono::nanoseconds::max()));
  EXPECT_TRUE(pool.join_for(0s));
}

TEST(LoopPool, JoinForThrowsTheFirstOfSeveralExceptionsAndJoinsTheRest) {
  loop_pool pool(3, {.loop = rethrowing});
  pool[0].post([] { throw std::runtime_error("first"); });
  pool[1].post([] { throw std::logic_error("second"); });
  pool[2].stop();
  EXPECT_THROW(while (!pool.join_for(1h)) continue, std::runtime_error);
  EXPECT_NO_THROW(pool.join()) << "none is left to end the program";
}

TEST(LoopPool, ATaskOfOneOfItsLoopsMayDestroyIt) {
  std::promise<void> freed;
  std::atomic<std::size_t> stopped = 0;
  auto pool = std::make_unique<loop_pool>(
      3, loop_pool::options{.on_stop = [&, breath = destruction_promise(freed)](
                                           loop&, std::size_t index) { stopped += 10 + index; }});
  loop& running = (*pool)[1];
  std::latch posted(1);
  running.post([&] {
    posted.wait();  // the loop must outlive every call on it, including the post of this task
    pool.reset();
    EXPECT_EQ(stopped, 10u + 12u);
  });
  posted.count_down();
  freed.get_future().get();
  EXPECT_EQ(stopped, 10u + 12u + 11u);
  EXPECT_EQ(pool, nullptr);
}

// The task of the second loop stands for one that posts to the first loop in its last turn.
TEST(LoopPool, ItsDestructorJoinsAllThreadsBeforeItDestroysALoop) {
  std::promise<void> first_destroyed;
  std::future<void> destruction = first_destroyed.get_future();
  bool was_destroyed_early = false;
  {
    std::latch begun(1);
    loop_pool pool(2);
    // Remains in the stopped loop until the loop is destroyed.
    pool[0].post([&, posted = destruction_promise(first_destroyed)]() mutable {
      pool[0].stop();
      pool[0].post([posted = std::move(posted)] {});
    });
    pool[1].post([&, &second = pool[1]] {
      begun.count_down();
      while (!second.stopped()) std::this_thread::yield();
      for (int i = 0; i < 10'000 && !was_destroyed_early; ++i) {
        was_destroyed_early = destruction.wait_for(0s) == std::future_status::ready;
        std::this_thread::yield();
      }
    });
    begun.wait();
  }
  EXPECT_FALSE(was_destroyed_early);
  destruction.get();
}

TEST(LoopPool, StopMayBeCalledTwiceAndByAnyThread) {
  loop_pool pool(2);
  std::thread([&] { pool.stop(); }).join();
  pool.stop();
  pool.join();
  for (std::size_t i = 0; i < 2; ++i) EXPECT_TRUE(pool[i].stopped());
}

TEST(LoopPool, LoopsPostToEachOther) {
  loop_pool pool(3);
  std::promise<int> done;
  struct walk {
    loop_pool& loops;
    std::promise<int>& end;
    int hops;
    void step() {
      if (++hops == 600) return end.set_value(hops);
      loops.next().post([this] { step(); });
    }
  } walker{pool, done, 0};
  pool.next().post([&] { walker.step(); });
  EXPECT_EQ(done.get_future().get(), 600);
}

}  // namespace
}  // namespace loop_pool_test
