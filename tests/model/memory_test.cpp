// SPDX-License-Identifier: Apache-2.0
//
// Litmus tests: the checker lets loads return exactly the values that the C++ memory model allows.
#include <tests/model/model.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <set>
#include <utility>

namespace {

namespace model = gyre::model;
using model::check;
using testing::HasSubstr;

constexpr auto relaxed = std::memory_order_relaxed;
constexpr auto acquire = std::memory_order_acquire;
constexpr auto release = std::memory_order_release;
constexpr auto seq_cst = std::memory_order_seq_cst;

// The results of a litmus test: all pairs of loaded values over the schedules.
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

// The outcomes of Dekker's pattern: each thread stores, then loads the other's variable.
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

// The pairs (flag, data) that a reader sees when a writer stores data and then the flag.
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

}  // namespace
