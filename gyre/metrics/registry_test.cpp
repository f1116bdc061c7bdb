// SPDX-License-Identifier: Apache-2.0
// The registry: objects, functions, loops that are held, and the end of objects.
#include <gyre/metrics/registry.hpp>

#include <gyre/base/slab.hpp>
#include <gyre/exec/loop.hpp>
#include <gyre/exec/loop_thread.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/pool/thread_pool.hpp>
#include <gyre/sync/async_cache.hpp>
#include <gyre/task/schedule.hpp>
#include <gyre/task/spawn.hpp>
#include <gyre/task/stop_token.hpp>
#include <gyre/task/stop_when.hpp>
#include <gyre/task/sync_wait.hpp>
#include <gyre/task/task.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <latch>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

namespace registry_test {

struct cart_metrics {
  int open = 0;
};
void write_metrics(gyre::metrics::exposition& output, const cart_metrics& counts) {
  if (counts.open < 0) throw std::runtime_error("no carts");
  output.add_gauge("carts", "Carts.", counts.open);
}
struct carts {
  cart_metrics metrics() const { return {open}; }
  int open = 0;
};

// Counts that only the thread of their loop may read.
struct bound_metrics {
  static constexpr bool is_read_on_owner = true;
  int open = 0;
};
void write_metrics(gyre::metrics::exposition& output, const bound_metrics& counts) {
  output.add_gauge("bound", "", counts.open);
}
struct bound {
  bound_metrics metrics() {
    reader = std::this_thread::get_id();
    return {7};
  }
  std::thread::id reader = {};
};

namespace {

using namespace std::chrono_literals;
namespace metrics = gyre::metrics;

static_assert(metrics::writable<carts> && !metrics::writable<int>);
static_assert(!metrics::is_read_on_owner<cart_metrics> && metrics::is_read_on_owner<bound_metrics>);

// Collects on a new loop, because the limit needs timers.
std::string collect(const metrics::registry& all, gyre::duration limit = 1min) {
  gyre::loop own;
  return gyre::sync_wait(own, all.collect(metrics::exposition_format::text, limit)).text();
}

TEST(MetricsRegistry, ObjectsHaveTheirNames) {
  metrics::registry all;
  carts one{1}, two{2};
  const auto first = all.add("one", one);
  const auto second = all.add("two", two);
  const std::string text = collect(all);
  EXPECT_TRUE(text.contains("carts{name=\"one\"} 1\ncarts{name=\"two\"} 2\n")) << text;
  EXPECT_TRUE(text.contains("gyre_metrics_sources 2\n"));
  EXPECT_THROW(static_cast<void>(all.add("two", one)), std::invalid_argument);
}

TEST(MetricsRegistry, ObjectsEndWithTheirRegistration) {
  metrics::registry all;
  std::optional<carts> one{{1}};
  {
    metrics::registration kept;
    EXPECT_FALSE(collect(all).contains("carts{"));
    kept = all.add("one", *one);
    metrics::registration moved = std::move(kept);
    EXPECT_TRUE(collect(all).contains("carts{name=\"one\"} 1\n"));
    moved = all.add("again", *one);
    EXPECT_TRUE(collect(all).contains("carts{name=\"again\"} 1\n"));
    EXPECT_FALSE(collect(all).contains("carts{name=\"one\"}"));
    moved.reset();
    moved.reset();
    EXPECT_FALSE(collect(all).contains("carts{"));
    moved = all.add("one", *one);
  }
  one.reset();
  EXPECT_FALSE(collect(all).contains("carts{"));
}

TEST(MetricsRegistry, ARegistrationMayOutliveItsRegistry) {
  carts one;
  std::optional<metrics::registry> all(std::in_place);
  auto kept = all->add("one", one);
  all.reset();
  kept.reset();
}

TEST(MetricsRegistry, FunctionsAddSamples) {
  metrics::registry all;
  int calls = 0;
  const auto kept = all.add_function([&](metrics::exposition& output) {
    output.add_counter("calls_total", "", static_cast<std::uint64_t>(++calls));
    write_metrics(output, gyre::read_slab_stats());
  });
  EXPECT_TRUE(collect(all).contains("calls_total 1\n"));
  const std::string text = collect(all);
  EXPECT_TRUE(text.contains("calls_total 2\n"));
  EXPECT_TRUE(text.contains("# TYPE gyre_slab_held_bytes gauge\n"));
  EXPECT_THROW(static_cast<void>(all.add_function({})), std::invalid_argument);
}

TEST(MetricsRegistry, ObjectsThatThrowAreLeftOut) {
  metrics::registry all;
  carts broken{-1}, sound{1};
  const auto first = all.add("broken", broken);
  const auto second = all.add("sound", sound);
  const std::string text = collect(all);
  EXPECT_TRUE(text.contains("carts{name=\"sound\"} 1\n"));
  EXPECT_FALSE(text.contains("broken"));
  EXPECT_TRUE(text.contains("gyre_metrics_failed_reads_total 1\n"));
}

TEST(MetricsRegistry, RepeatedSamplesAreDropped) {
  metrics::registry all;
  gyre::loop_thread thread;
  bound one, two;
  all.make_gauge("bound", "").set(3);
  const auto first = all.add("one", thread.loop(), one);
  const auto again = all.add_function(
      [](metrics::exposition& output) { output.add_gauge("bound", "", 4, {{"name", "one"}}); });
  const std::string text = collect(all);
  EXPECT_TRUE(text.contains("bound 3\nbound{name=\"one\"} 4\n")) << text;
  EXPECT_TRUE(text.contains("gyre_metrics_samples_dropped_total 1\n")) << text;
}

TEST(MetricsRegistry, BoundObjectsAreReadByTheirLoop) {
  metrics::registry all;
  gyre::loop_thread thread;
  bound one;
  std::thread::id own;
  gyre::sync_wait(gyre::on(thread.loop(), [](std::thread::id& id) -> gyre::task<> {
    id = std::this_thread::get_id();
    co_return;
  }(own)));
  const auto kept = all.add("one", thread.loop(), one);
  EXPECT_TRUE(collect(all).contains("bound{name=\"one\"} 7\n"));
  EXPECT_EQ(one.reader, own);
}

TEST(MetricsRegistry, ACollectionOnTheLoopItselfNeedsNoOther) {
  metrics::registry all;
  gyre::loop loop;
  bound one;
  const auto kept = all.add("one", loop, one);
  const auto counted = all.add("loop", loop);
  const std::string text = gyre::sync_wait(loop, all.collect()).text();
  EXPECT_TRUE(text.contains("bound{name=\"one\"} 7\n"));
  EXPECT_TRUE(text.contains("gyre_executor_up{name=\"loop\"} 1\n")) << text;
  EXPECT_TRUE(text.contains("gyre_executor_response_seconds_count{name=\"loop\"} 1\n"));
}

TEST(MetricsRegistry, LoopsAndPoolsAreCountedAndTimed) {
  metrics::registry all;
  gyre::loop_thread thread;
  gyre::thread_pool pool(2);
  const auto counted_loop = all.add("network", thread.loop());
  const auto counted_pool = all.add("workers", pool);
  static_cast<void>(collect(all));
  const std::string text = collect(all);
  EXPECT_TRUE(text.contains("gyre_loop_tasks_run_total{name=\"network\"} ")) << text;
  EXPECT_TRUE(text.contains("gyre_pool_workers{name=\"workers\"} 2\n"));
  EXPECT_TRUE(text.contains("gyre_executor_up{name=\"network\"} 1\n"));
  EXPECT_TRUE(text.contains("gyre_executor_up{name=\"workers\"} 1\n"));
  EXPECT_TRUE(text.contains("gyre_executor_response_seconds_count{name=\"network\"} 2\n"));
}

// Holds a loop until it is destroyed.
class held_loop {
 public:
  held_loop() {
    thread_.loop().post([this] {
      held_.count_down();
      released_.wait();
    });
    held_.wait();
  }
  ~held_loop() { release(); }
  void release() {
    if (!released_.try_wait()) released_.count_down();
  }
  gyre::loop& loop() { return thread_.loop(); }

 private:
  std::latch held_{1};
  std::latch released_{1};
  gyre::loop_thread thread_;
};

TEST(MetricsRegistry, AHeldLoopIsReportedAndLeftOut) {
  metrics::registry all;
  bound one;
  carts other{3};
  held_loop held;
  const auto counted = all.add("held", held.loop());
  const auto kept = all.add("one", held.loop(), one);
  const auto others = all.add("other", other);
  const std::string text = collect(all, 20ms);
  EXPECT_TRUE(text.contains("gyre_executor_up{name=\"held\"} 0\n")) << text;
  EXPECT_TRUE(text.contains("gyre_loop_tasks_run_total{name=\"held\"} ")) << "read by any thread";
  EXPECT_TRUE(text.contains("carts{name=\"other\"} 3\n"));
  EXPECT_FALSE(text.contains("bound{"));
  EXPECT_TRUE(text.contains("gyre_metrics_unanswered_sources 1\n"));
  // At most 8 of these readings wait for the loop.
  for (int i = 0; i < 20; ++i) static_cast<void>(collect(all, 0ms));
  held.release();
  // The loop may still run earlier readings, before which it does not respond to a new one.
  int collections = 1;
  std::string later = collect(all);
  for (; !later.contains("gyre_executor_up{name=\"held\"} 1\n"); ++collections) {
    later = collect(all);
  }
  EXPECT_TRUE(later.contains("bound{name=\"one\"} 7\n"));
  // The histogram of responses also counts those that came too late for their collection.
  const std::string key = "gyre_executor_response_seconds_count{name=\"held\"} ";
  const std::size_t found = later.find(key);
  ASSERT_NE(found, later.npos);
  const int count = std::stoi(later.substr(found + key.size()));
  EXPECT_GE(count, 2);
  EXPECT_LE(count, 8 + collections);
}

TEST(MetricsRegistry, AWaitMayBeStopped) {
  metrics::registry all;
  held_loop held;
  const auto counted = all.add("held", held.loop());
  gyre::loop own;
  gyre::inplace_stop_source stop;
  stop.request_stop();
  auto collecting = gyre::stop_when(all.collect(), stop.get_token());
  try {
    static_cast<void>(gyre::sync_wait(own, std::move(collecting)));
    FAIL() << "the collection did not stop";
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code(), std::errc::operation_canceled);
  }
}

TEST(MetricsRegistry, ALoopMayEndWhileItsReadingWaits) {
  metrics::registry all;
  gyre::loop own;
  std::optional<gyre::loop> never_run(std::in_place);
  bound one;
  auto kept = all.add("one", *never_run, one);
  EXPECT_TRUE(gyre::sync_wait(own, all.collect(metrics::exposition_format::text, 0ms))
                  .text()
                  .contains("gyre_metrics_unanswered_sources 1\n"));
  kept.reset();
  never_run.reset();
  EXPECT_TRUE(collect(all).contains("gyre_metrics_unanswered_sources 0\n"));
}

TEST(MetricsRegistry, ACacheIsWritable) {
  metrics::registry all;
  gyre::async_cache<int, int> squares({.capacity = 2});
  const auto kept = all.add("squares", squares);
  EXPECT_EQ(*gyre::sync_wait(squares.get(3, [](int n) { return n * n; })), 9);
  EXPECT_TRUE(
      collect(all).contains("gyre_cache_lookups_total{name=\"squares\",result=\"miss\"} 1"));
}

// Objects begin and end while other threads collect: no collection reads an object that has ended.
TEST(MetricsRegistry, ObjectsMayEndWhileTheyAreCollected) {
  metrics::registry all;
  gyre::loop_thread owner;
  std::atomic<bool> is_over{false};
  std::thread collector([&] {
    gyre::loop own;
    while (!is_over.load()) {
      static_cast<void>(gyre::sync_wait(own, all.collect()));
    }
  });
  const auto use_objects = [](metrics::registry& registry, gyre::executor& loop) -> gyre::task<> {
    for (int i = 0; i < 300; ++i) {
      auto object = std::make_unique<bound>();
      auto kept = registry.add("bound", loop, *object);
      co_await gyre::yield();
      kept.reset();
      object.reset();
    }
  };
  auto done = gyre::spawn_future(owner.loop(), use_objects(all, owner.loop()));
  for (int i = 0; i < 300; ++i) {
    auto object = std::make_unique<carts>();
    auto kept = all.add("carts", *object);
    all.make_counters("uses_total", "", {"i"}, {.max_series = 20}).with({std::to_string(i)}).add();
    kept.reset();
    object.reset();
  }
  done.get();
  is_over = true;
  collector.join();
  EXPECT_FALSE(collect(all).contains("carts{"));
}

}  // namespace
}  // namespace registry_test
