// SPDX-License-Identifier: Apache-2.0
// The jobs of a worker in the flight recorder.
#include <gyre/engines/work/worker.hpp>

#include <gyre/engines/work/queue.hpp>
#include <gyre/engines/work/work_test_support.hpp>
#include <gyre/task/sleep.hpp>
#include <gyre/task/task.hpp>
#include <gyre/trace/dump.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>

namespace work_worker_trace_test {
namespace {

using namespace std::chrono_literals;
using gyre::task;
using testing::HasSubstr;
namespace work = gyre::work;

struct WorkerTrace : gyre::test::work_test {};

TEST_F(WorkerTrace, NamesTheKindOfAJobThatTakesLong) {
  run([](WorkerTrace& test) -> task<> {
    work::worker worker(test.db);
    worker.handle("resize", [](work::job&) -> task<std::string> {
      co_await gyre::sleep_for(20ms);
      co_return "done";
    });
    const work::submitted_job made =
        co_await test.jobs.submit(test.db, "resize", "a", {.key = "k"});
    co_await with_worker(
        worker, [&]() -> task<> { EXPECT_EQ(co_await test.jobs.result(made.id), "done"); });
  }(*this));
  EXPECT_THAT(gyre::trace::dump_text({.slow = 15ms}), HasSubstr("job resize: "));
  EXPECT_THAT(gyre::trace::dump_json(), HasSubstr("\"job\":1"));
}

}  // namespace
}  // namespace work_worker_trace_test
