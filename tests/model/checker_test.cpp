// SPDX-License-Identifier: Apache-2.0
//
// The checker finds what it must find, and nothing where there is nothing.
#include <tests/model/model.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>

namespace {

using namespace gyre;  // NOLINT(google-build-using-namespace): short names for a test of one thing
using model::check;
using testing::HasSubstr;

constexpr auto relaxed = std::memory_order_relaxed;
constexpr auto acquire = std::memory_order_acquire;
constexpr auto release = std::memory_order_release;
constexpr auto acq_rel = std::memory_order_acq_rel;
constexpr auto seq_cst = std::memory_order_seq_cst;

// The results of a litmus test: which pairs of loaded values some schedule gives.
template <typename Body>
std::set<std::pair<int, int>> outcomes(Body body) {
  std::set<std::pair<int, int>> seen;
  const auto found = check({.preemptions = model::unlimited}, [&] {
    const std::pair<int, int> values = body();
    model::outside([&] { seen.insert(values); });
  });
  EXPECT_TRUE(found) << found;
  EXPECT_TRUE(found.exhaustive) << found;
  return seen;
}

TEST(Search, RunsEachInterleavingOnce) {
  const auto found = check({.preemptions = model::unlimited, .keep_equivalent = true}, [] {
    model::atomic<int> a{0};
    model::thread other([&] {
      a.fetch_add(1);
      a.fetch_add(1);
    });
    a.fetch_add(1);
    a.fetch_add(1);
    other.join();
  });
  EXPECT_TRUE(found) << found;
  EXPECT_EQ(found.schedules, 6U);  // four operations, two of each thread: 4! / (2! 2!)
}

TEST(Search, FindsEveryInterleavingOfThreeThreads) {
  std::set<std::string> interleavings;
  const auto found = check({.preemptions = model::unlimited}, [&] {
    model::atomic<std::size_t> next{0};
    char order[] = "......";
    const auto twice = [&](char id) {
      order[next.fetch_add(1)] = id;
      order[next.fetch_add(1)] = id;
    };
    model::thread first([&] { twice('1'); });
    model::thread second([&] { twice('2'); });
    twice('0');
    first.join();
    second.join();
    model::outside([&] { interleavings.insert(order); });
  });
  EXPECT_TRUE(found) << found;
  EXPECT_EQ(interleavings.size(), 90U);  // 6! / (2! 2! 2!)
}

TEST(Search, KeepsToTheBoundOnPreemptions) {
  const auto schedules = [](unsigned bound) {
    return check({.preemptions = bound, .keep_equivalent = true},
                 [] {
                   model::atomic<int> a{0};
                   model::thread other([&] {
                     a.fetch_add(1);
                     a.fetch_add(1);
                   });
                   a.fetch_add(1);
                   a.fetch_add(1);
                   other.join();
                 })
        .schedules;
  };
  // m is the first thread, o the other; a thread that has ended is not preempted.
  EXPECT_EQ(schedules(0), 1U);  // mmoo
  EXPECT_EQ(schedules(1), 3U);  // also moom, oomm
  EXPECT_EQ(schedules(2), 5U);  // also momo, ommo
  EXPECT_EQ(schedules(3), 6U);  // also omom
}

TEST(Search, PrunesSchedulesThatDifferInIndependentOperationsOnly) {
  const auto run = [](bool keep_equivalent) {
    return check({.preemptions = model::unlimited, .keep_equivalent = keep_equivalent}, [] {
      model::atomic<int> a{0};
      model::atomic<int> b{0};
      model::thread other([&] {
        for (int i = 0; i < 4; ++i) a.fetch_add(1);
      });
      for (int i = 0; i < 4; ++i) b.fetch_add(1);
      other.join();
    });
  };
  EXPECT_EQ(run(true).schedules, 70U);  // 8! / (4! 4!)
  EXPECT_LT(run(false).schedules, 10U);
}

TEST(Search, ReplaysAFailingScheduleFromItsTrace) {
  const auto body = [] {
    model::atomic<int> a{0};
    const auto increment = [&] { a.store(a.load() + 1); };
    model::thread other(increment);
    increment();
    other.join();
    model::assert_that(a.load() == 2, "no increment is lost");
  };
  const auto found = check({}, body);
  EXPECT_THAT(found.failure, HasSubstr("no increment is lost"));
  EXPECT_THAT(found.story, HasSubstr("store"));
  EXPECT_EQ(found.preemptions, 1U) << "the simplest failing schedule comes first";
  const auto again = check({.replay = found.trace}, body);
  EXPECT_EQ(again.failure, found.failure);
  EXPECT_EQ(again.schedules, 1U);
}

// ---- Memory model ----------------------------------------------------------------------------

// The four outcomes of Dekker's pattern: both store, then load what the other stores.
template <typename Fence>
auto store_buffering(std::memory_order stores, std::memory_order loads, Fence main_fence,
                     Fence other_fence) {
  return outcomes([=] {
    model::atomic<int> x{0};
    model::atomic<int> y{0};
    int seen_y = 0;
    int seen_x = 0;
    model::thread other([&] {
      y.store(1, stores);
      other_fence();
      seen_x = x.load(loads);
    });
    x.store(1, stores);
    main_fence();
    seen_y = y.load(loads);
    other.join();
    return std::pair{seen_y, seen_x};
  });
}

using fence = std::function<void()>;
const fence none = [] {};
const fence light = [] { model::asymmetric_light_fence(); };
const fence heavy = [] { model::asymmetric_heavy_fence(); };
const fence full = [] { model::thread_fence(seq_cst); };
constexpr std::pair neither{0, 0};

TEST(Memory, StoreBufferingNeedsAFence) {
  EXPECT_EQ(store_buffering(release, acquire, none, none).count(neither), 1U);
  EXPECT_EQ(store_buffering(seq_cst, seq_cst, none, none).count(neither), 0U);
  EXPECT_EQ(store_buffering(seq_cst, acquire, none, none).count(neither), 1U);
  EXPECT_EQ(store_buffering(relaxed, relaxed, full, full).count(neither), 0U);
  EXPECT_EQ(store_buffering(relaxed, relaxed, full, none).count(neither), 1U);
  EXPECT_EQ(store_buffering(relaxed, relaxed, full, full).size(), 3U);
}

TEST(Memory, AsymmetricFencesOrderLightAgainstHeavyOnly) {
  EXPECT_EQ(store_buffering(relaxed, relaxed, light, heavy).count(neither), 0U);
  EXPECT_EQ(store_buffering(relaxed, relaxed, heavy, light).count(neither), 0U);
  EXPECT_EQ(store_buffering(relaxed, relaxed, heavy, heavy).count(neither), 0U);
  EXPECT_EQ(store_buffering(relaxed, relaxed, heavy, full).count(neither), 0U);
  EXPECT_EQ(store_buffering(relaxed, relaxed, light, light).count(neither), 1U);
  EXPECT_EQ(store_buffering(relaxed, relaxed, light, full).count(neither), 1U);
  EXPECT_EQ(store_buffering(relaxed, relaxed, none, heavy).count(neither), 1U);
}

// Which pairs (flag, data) a reader sees when a writer stores data and then the flag.
auto message_passing(std::memory_order publish, std::memory_order receive) {
  return outcomes([=] {
    model::atomic<int> data{0};
    model::atomic<int> flag{0};
    model::thread writer([&] {
      data.store(1, relaxed);
      flag.store(1, publish);
    });
    const int seen_flag = flag.load(receive);
    const int seen_data = data.load(relaxed);
    writer.join();
    return std::pair{seen_flag, seen_data};
  });
}

TEST(Memory, MessagePassingNeedsReleaseAndAcquire) {
  constexpr std::pair torn{1, 0};
  EXPECT_EQ(message_passing(release, acquire).count(torn), 0U);
  EXPECT_EQ(message_passing(release, acquire).size(), 3U);
  EXPECT_EQ(message_passing(relaxed, acquire).count(torn), 1U);
  EXPECT_EQ(message_passing(release, relaxed).count(torn), 1U);
}

TEST(Memory, FencesPublishAndReceiveForRelaxedOperations) {
  const auto pairs = outcomes([] {
    model::atomic<int> data{0};
    model::atomic<int> flag{0};
    model::thread writer([&] {
      data.store(1, relaxed);
      model::thread_fence(release);
      flag.store(1, relaxed);
    });
    const int seen_flag = flag.load(relaxed);
    model::thread_fence(acquire);
    const int seen_data = data.load(relaxed);
    writer.join();
    return std::pair{seen_flag, seen_data};
  });
  EXPECT_EQ(pairs.count({1, 0}), 0U);
}

TEST(Memory, OneAtomicNeverGoesBack) {
  const auto pairs = outcomes([] {
    model::atomic<int> a{0};
    model::thread writer([&] { a.store(1, relaxed); });
    const int first = a.load(relaxed);
    const int second = a.load(relaxed);
    writer.join();
    return std::pair{first, second};
  });
  EXPECT_EQ(pairs, (std::set<std::pair<int, int>>{{0, 0}, {0, 1}, {1, 1}}));
}

TEST(Memory, ReadModifyWritesCarryOnAReleaseSequence) {
  const auto pairs = outcomes([] {
    model::atomic<int> data{0};
    model::atomic<int> flag{0};
    model::thread writer([&] {
      data.store(1, relaxed);
      flag.store(1, release);
    });
    model::thread between([&] { flag.fetch_add(1, relaxed); });
    const int seen_flag = flag.load(acquire);
    const int seen_data = data.load(relaxed);
    writer.join();
    between.join();
    return std::pair{seen_flag, seen_data};
  });
  EXPECT_EQ(pairs.count({2, 1}), 1U);
  EXPECT_EQ(pairs.count({2, 0}), 0U);
}

TEST(Memory, IndependentReadersMayDisagreeUnlessSequentiallyConsistent) {
  const auto disagree = [](std::memory_order stores, std::memory_order loads) {
    return outcomes([=] {
             model::atomic<int> x{0};
             model::atomic<int> y{0};
             int first = 0;
             int second = 0;
             model::thread write_x([&] { x.store(1, stores); });
             model::thread write_y([&] { y.store(1, stores); });
             model::thread reader([&] {
               const int seen_x = x.load(loads);
               first = seen_x * 2 + y.load(loads);
             });
             const int seen_y = y.load(loads);
             second = seen_y * 2 + x.load(loads);
             write_x.join();
             write_y.join();
             reader.join();
             return std::pair{first, second};
           }).count({2, 2}) == 1;
  };
  EXPECT_TRUE(disagree(release, acquire));
  EXPECT_FALSE(disagree(seq_cst, seq_cst));
}

TEST(Memory, WeakCompareExchangeMayFailForNoReason) {
  const auto found = check({}, [] {
    model::atomic<int> a{0};
    int expected = 0;
    model::assert_that(a.compare_exchange_weak(expected, 1), "the only thread succeeds");
  });
  EXPECT_THAT(found.failure, HasSubstr("the only thread succeeds"));
  EXPECT_TRUE(check({}, [] {
    model::atomic<int> a{0};
    int expected = 0;
    model::assert_that(a.compare_exchange_strong(expected, 1), "the only thread succeeds");
  }));
}

TEST(Memory, ReadModifyWritesLoseNothing) {
  EXPECT_TRUE(check({.preemptions = model::unlimited}, [] {
    model::atomic<unsigned char> a{250};
    model::atomic<int*> pointer{nullptr};
    const auto add = [&] {
      for (int i = 0; i < 3; ++i) a.fetch_add(1, relaxed);
      pointer.fetch_add(1, relaxed);
    };
    model::thread first(add);
    model::thread second(add);
    first.join();
    second.join();
    model::assert_that(a.load(relaxed) == 0, "bytes wrap around");
    model::assert_that(reinterpret_cast<std::uintptr_t>(pointer.load(relaxed)) == 2 * sizeof(int),
                       "pointers are added to in elements");
  }));
}

TEST(Memory, StandardAtomicsAreCheckedToo) {
  const auto published = [](std::memory_order order) {
    return check({}, [=] {
      std::atomic<bool> ready{false};
      int data = 0;
      model::thread writer([&] {
        data = 1;
        ready.store(true, order);
      });
      if (ready.load(acquire)) model::assert_that(data == 1, "data arrived");
      writer.join();
    });
  };
  EXPECT_TRUE(published(release));
  EXPECT_THAT(published(relaxed).failure, HasSubstr("data race"));
}

// ---- Races and lifetimes ---------------------------------------------------------------------

auto publish_plain_data(std::memory_order publish, std::memory_order receive) {
  return check({}, [=] {
    model::atomic<bool> ready{false};
    int data = 0;
    model::thread writer([&] {
      data = 1;
      ready.store(true, publish);
    });
    if (ready.load(receive)) model::assert_that(data == 1, "data arrived");
    writer.join();
  });
}

TEST(Races, TooWeakAnOrderLeavesPlainDataUnordered) {
  const auto right = publish_plain_data(release, acquire);
  EXPECT_TRUE(right) << right;
  EXPECT_THAT(publish_plain_data(relaxed, acquire).failure, HasSubstr("data race"));
  EXPECT_THAT(publish_plain_data(release, relaxed).failure, HasSubstr("data race"));
}

TEST(Races, AreToldWithTheirLinesOfSource) {
  EXPECT_THAT(publish_plain_data(relaxed, acquire).story, HasSubstr("checker_test.cpp:"));
}

TEST(Races, PublishedAtomicsMustBeConstructedBefore) {
  struct node {
    model::atomic<int> value{7};
  };
  const auto publish = [](std::memory_order order) {
    return check({}, [=] {
      model::atomic<node*> shared{nullptr};
      model::thread writer([&] { shared.store(new node, order); });
      if (const node* seen = shared.load(acquire)) {
        model::assert_that(seen->value.load(relaxed) == 7, "the node is whole");
      }
      writer.join();
      delete shared.load(relaxed);
    });
  };
  const auto right = publish(release);
  EXPECT_TRUE(right) << right;
  EXPECT_FALSE(publish(relaxed));
}

TEST(Lifetimes, UseAfterFreeIsFound) {
  const auto found = check({}, [] {
    auto* value = new int{1};
    model::atomic<bool> done{false};
    model::thread reader([&] {
      static_cast<void>(*static_cast<volatile int*>(value));
      done.store(true, relaxed);
    });
    while (!done.load(relaxed)) model::yield();
    delete value;
    reader.join();
  });
  EXPECT_THAT(found.failure, HasSubstr("data race")) << "although no schedule reads it freed";
}

TEST(Lifetimes, LeaksOverrunsAndDoubleDeletesAreFound) {
  // Volatile, lest the compiler remove the mistakes.
  using pointer = volatile char* volatile;
  const auto leak = [] { [[maybe_unused]] pointer lost = new char[24]; };
  EXPECT_THAT(check({}, leak).failure, HasSubstr("leak"));
  EXPECT_TRUE(check({.leaks_fail = false}, leak));
  EXPECT_THAT(check({},
                    [] {
                      pointer bytes = new char[16];
                      bytes[16] = 1;
                      delete[] bytes;
                    })
                  .failure,
              HasSubstr("outside of any block"));
  EXPECT_THAT(check({},
                    [] {
                      pointer first = new char[16];
                      pointer second = first;
                      delete[] first;
                      delete[] second;
                    })
                  .failure,
              HasSubstr("double delete"));
}

TEST(Lifetimes, CrashesAreFailures) {
  const auto found = check({}, [] {
    volatile int* volatile nowhere = nullptr;
    *nowhere = 1;
  });
  EXPECT_THAT(found.failure, HasSubstr("Segmentation fault"));
}

// The textbook stack: pop reads the next node of one that may be gone, or back.
class naive_stack {
 public:
  struct node {
    node* next = nullptr;
  };
  void push(node* pushed) {
    node* top = top_.load(relaxed);
    do {
      pushed->next = top;
    } while (!top_.compare_exchange_weak(top, pushed, acq_rel, acquire));
  }
  node* pop() {
    node* top = top_.load(acquire);
    while (top != nullptr) {
      node* next = top->next;
      if (top_.compare_exchange_weak(top, next, acq_rel, acquire)) break;
    }
    return top;
  }

 private:
  model::atomic<node*> top_{nullptr};
};

TEST(Lifetimes, TheNaiveStackReadsFreedNodes) {
  const auto found = check({}, [] {
    naive_stack stack;
    stack.push(new naive_stack::node);
    const auto take = [&] { delete stack.pop(); };
    model::thread other(take);
    take();
    other.join();
  });
  EXPECT_FALSE(found);
  EXPECT_FALSE(found.failure.empty());
}

// As above with atomic links and nodes that are never freed: what remains is ABA.
TEST(Lifetimes, TheNaiveStackTakesANodeTwiceByAba) {
  struct node {
    model::atomic<node*> next{nullptr};
    model::atomic<int> owners{0};
  };
  const auto found = check({}, [] {
    node nodes[2];
    model::atomic<node*> top{nullptr};
    const auto push = [&](node& pushed) {
      node* expected = top.load();
      do {
        pushed.next.store(expected);
      } while (!top.compare_exchange_strong(expected, &pushed));
    };
    const auto pop = [&] {
      node* taken = top.load();
      while (taken != nullptr && !top.compare_exchange_strong(taken, taken->next.load())) {
      }
      if (taken != nullptr) {
        model::assert_that(taken->owners.fetch_add(1) == 0, "a node has one owner");
      }
      return taken;
    };
    push(nodes[0]);
    push(nodes[1]);
    model::thread other([&] {
      node* first = pop();
      node* second = pop();
      if (first != nullptr && second != nullptr) {
        first->owners.fetch_sub(1);
        push(*first);
      }
    });
    pop();
    pop();
    other.join();
  });
  EXPECT_THAT(found.failure, HasSubstr("a node has one owner")) << found;
}

// ---- Liveness --------------------------------------------------------------------------------

// A sleeper says that it sleeps and looks for work once more; a poster posts and looks for sleepers.
auto sleep_and_wake(const fence& sleeper_fence, const fence& poster_fence) {
  return check({.preemptions = model::unlimited}, [=] {
    model::atomic<int> tasks{0};
    model::atomic<bool> sleeping{false};
    model::event poller;
    model::thread poster([&] {
      tasks.store(1, release);
      poster_fence();
      if (sleeping.load(relaxed) && sleeping.exchange(false, acq_rel)) poller.wake();
    });
    while (tasks.load(acquire) == 0) {
      sleeping.store(true, relaxed);
      sleeper_fence();
      if (tasks.load(acquire) == 0) poller.wait();
      sleeping.store(false, relaxed);
    }
    poster.join();
  });
}

TEST(Liveness, LostWakeUpsAreFound) {
  const auto lost = sleep_and_wake(none, none);
  EXPECT_THAT(lost.failure, HasSubstr("nobody is left to wake it")) << lost;
  EXPECT_THAT(sleep_and_wake(heavy, none).failure, HasSubstr("deadlock"));
  EXPECT_THAT(sleep_and_wake(none, light).failure, HasSubstr("deadlock"));
  EXPECT_THAT(sleep_and_wake(full, light).failure, HasSubstr("deadlock"));
  const auto asymmetric = sleep_and_wake(heavy, light);
  EXPECT_TRUE(asymmetric) << asymmetric;
  EXPECT_TRUE(asymmetric.exhaustive);
  const auto symmetric = sleep_and_wake(full, full);
  EXPECT_TRUE(symmetric) << symmetric;
}

TEST(Liveness, AWrongFlagDoesNotExclude) {
  const auto found = check({}, [] {
    model::atomic<bool> taken{false};
    int inside = 0;
    const auto enter = [&] {
      while (taken.load()) model::yield();
      taken.store(true);  // too late: between the load and here another may have entered
      ++inside;
      taken.store(false);
    };
    model::thread other(enter);
    enter();
    other.join();
  });
  EXPECT_THAT(found.failure, HasSubstr("data race"));
}

TEST(Liveness, ASpinLockExcludes) {
  const auto found = check({}, [] {
    model::atomic<bool> taken{false};
    int inside = 0;
    const auto enter = [&] {
      while (taken.exchange(true, acquire)) model::yield();
      ++inside;
      taken.store(false, release);
    };
    model::thread first(enter);
    model::thread second(enter);
    enter();
    first.join();
    second.join();
    model::assert_that(inside == 3, "everyone was inside");
  });
  EXPECT_TRUE(found) << found;
}

TEST(Liveness, MutexesExcludeAndDeadlock) {
  EXPECT_TRUE(check({}, [] {
    std::mutex mutex;
    int inside = 0;
    const auto enter = [&] {
      const std::lock_guard lock(mutex);
      ++inside;
    };
    model::thread other(enter);
    enter();
    other.join();
  }));
  EXPECT_THAT(check({},
                    [] {
                      std::mutex a;
                      std::mutex b;
                      model::thread other([&] {
                        const std::lock_guard first(b);
                        const std::lock_guard second(a);
                      });
                      {
                        const std::lock_guard first(a);
                        const std::lock_guard second(b);
                      }
                      other.join();
                    })
                  .failure,
              HasSubstr("deadlock"));
}

TEST(Liveness, SpinningForWhatNeverComesIsALivelock) {
  const auto found = check({.max_steps = 200}, [] {
    model::atomic<bool> never{false};
    while (!never.load()) model::yield();
  });
  EXPECT_THAT(found.failure, HasSubstr("livelock"));
}

// ---- Thread-locals and statics ---------------------------------------------------------------

thread_local int calls_of_thread = 0;

TEST(Storage, ThreadLocalsBelongToOneThreadAndStartFresh) {
  const auto found = check({}, [] {
    model::atomic<int*> shared{nullptr};
    model::thread other([&] {
      model::assert_that(calls_of_thread == 0, "fresh");
      ++calls_of_thread;
      model::assert_that(calls_of_thread == 1, "its own");
      shared.store(&calls_of_thread, release);
    });
    ++calls_of_thread;
    if (const int* others = shared.load(acquire)) {
      model::assert_that(others != &calls_of_thread, "at an address of its own");
    }
    other.join();
    model::assert_that(calls_of_thread == 1, "untouched by the other");
  });
  EXPECT_TRUE(found) << found;
}

TEST(Storage, ThreadLocalsAreDestroyedWhenTheirThreadEnds) {
  struct counts_out {
    model::atomic<int>* ended = nullptr;
    ~counts_out() {
      if (ended != nullptr) ended->fetch_add(1, release);
    }
  };
  const auto found = check({}, [] {
    model::atomic<int> ended{0};
    model::thread other([&] {
      static thread_local counts_out local;
      local.ended = &ended;
    });
    other.join();
    model::assert_that(ended.load(relaxed) == 1, "destroyed before join returns");
  });
  EXPECT_TRUE(found) << found;
}

TEST(Storage, StaticsStartFreshInEverySchedule) {
  const auto found = check({}, [] {
    static int runs = 0;
    static model::atomic<int> started{0};
    ++runs;
    model::thread other([&] { started.fetch_add(1); });
    started.fetch_add(1);
    other.join();
    model::assert_that(runs == 1 && started.load() == 2, "as if the program had just started");
  });
  EXPECT_TRUE(found) << found;
}

}  // namespace
