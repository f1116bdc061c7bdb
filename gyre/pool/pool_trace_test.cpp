// SPDX-License-Identifier: Apache-2.0
// The events of pools in the flight recorder.
#include <gyre/pool/pool_options.hpp>
#include <gyre/pool/thread_pool.hpp>
#include <gyre/task/schedule.hpp>
#include <gyre/task/sync_wait.hpp>
#include <gyre/task/task.hpp>
#include <gyre/trace/dump.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <string>
#include <thread>

namespace pool_trace_test {

// Functions with external names, which the compiler keeps.
struct long_task {
  void operator()() const { std::this_thread::sleep_for(std::chrono::milliseconds(20)); }
};
gyre::task<> long_coroutine(gyre::thread_pool& pool) {
  co_await gyre::schedule(pool);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
}

namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

/// Holds the only worker of a pool until it is released.
class held_worker {
 public:
  explicit held_worker(gyre::thread_pool& pool) {
    pool.post([this] {
      begun_.set_value();
      end_.get_future().wait();
    });
    begun_.get_future().wait();
  }
  void release() { end_.set_value(); }

 private:
  std::promise<void> begun_;
  std::promise<void> end_;
};

class PoolTrace : public testing::TestWithParam<gyre::scheduler> {};

TEST_P(PoolTrace, NamesALongTask) {
  gyre::thread_pool pool({.workers = 1, .scheduler = GetParam(), .name = "busy"});
  pool.post(long_task());
  pool.wait_idle();
  EXPECT_THAT(gyre::trace::dump_text({.slow = 15ms}), HasSubstr("thread 'busy-0' ("));
  EXPECT_THAT(gyre::trace::dump_text({.slow = 15ms}),
              HasSubstr(" by task pool_trace_test::long_task"));
}

TEST_P(PoolTrace, NamesACoroutine) {
  gyre::thread_pool pool({.workers = 1, .scheduler = GetParam()});
  gyre::sync_wait(long_coroutine(pool));
  EXPECT_THAT(gyre::trace::dump_text({.slow = 15ms}),
              HasSubstr(" by coroutine pool_trace_test::long_coroutine"));
}

TEST_P(PoolTrace, ShowsTheTaskThatHoldsAWorkerNow) {
  gyre::thread_pool pool({.workers = 1, .scheduler = GetParam(), .name = "held"});
  held_worker worker(pool);
  EXPECT_THAT(gyre::trace::dump_text({.slow = 0ms}), HasSubstr("thread 'held-0' ("));
  worker.release();
  pool.wait_idle();
}

TEST_P(PoolTrace, RecordsASubmissionThatWaitsForAFullPool) {
  gyre::thread_pool pool({.workers = 1, .scheduler = GetParam(), .capacity = 1});
  held_worker worker(pool);
  pool.post([] {});
  std::thread submitter([&] { pool.post([] {}); });
  while (!gyre::trace::dump_text({.slow = 0ms}).contains("a submission that waits")) {
    std::this_thread::yield();
  }
  worker.release();
  submitter.join();
  pool.wait_idle();
}

INSTANTIATE_TEST_SUITE_P(Schedulers, PoolTrace,
                         testing::Values(gyre::scheduler::stealing, gyre::scheduler::blocking));

}  // namespace
}  // namespace pool_trace_test
