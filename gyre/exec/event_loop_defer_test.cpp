// SPDX-License-Identifier: Apache-2.0
// Tests of operations that run at the end of a loop's I/O.
#include <gyre/exec/loop.hpp>

#include <gyre/base/unique_fd.hpp>
#include <gyre/exec/fd_watch.hpp>
#include <gyre/exec/timer.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/eventfd.h>

#include <exception>
#include <stdexcept>
#include <string>
#include <utility>

namespace event_loop_defer_test {
namespace {

// Calls `function` when it runs.
struct deferred final : gyre::operation {
  explicit deferred(gyre::move_only_function<void()> runs)
      : operation([](operation& op) { static_cast<deferred&>(op).function(); }),
        function(std::move(runs)) {}
  gyre::move_only_function<void()> function;
};

class EventLoopDefer : public testing::Test {
 protected:
  // Has `function` called by each turn's I/O.
  void on_io(gyre::move_only_function<void()> function) {
    call = std::move(function);
    watch.start(gyre::readiness::readable);
  }

  gyre::loop loop{{.on_exception = [this](const std::exception_ptr& error) {
    ++exceptions;
    if (rethrows) std::rethrow_exception(error);
  }}};
  gyre::unique_fd ready{eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK)};
  gyre::move_only_function<void()> call;
  gyre::fd_watch watch{loop, ready.get(), [this](gyre::readiness) { call(); }};
  int exceptions = 0;
  bool rethrows = false;
  std::string order;
};

TEST_F(EventLoopDefer, RunsBehindTheIoAndBeforeTimersAndTasksOfThatTurn) {
  deferred first([&] { order += 'a'; });
  deferred second([&] { order += 'b'; });
  gyre::timer timer(loop, [&] { order += 't'; });
  timer.start_at(gyre::steady_time::min());
  on_io([&] {
    loop.post([&] { order += 'p'; });
    loop.defer(first);
    loop.defer(second);
    order += 'i';
    watch.stop();
  });
  loop.run_once();
  EXPECT_EQ(order, "iabt");
  loop.run_once();
  EXPECT_EQ(order, "iabtp");
}

TEST_F(EventLoopDefer, IsAPostOutsideOfIo) {
  deferred again([&] { order += 'd'; });
  loop.post([&] { order += 'p'; });
  loop.defer(again);
  EXPECT_EQ(order, "");
  loop.run_once();
  EXPECT_EQ(order, "pd");
}

TEST_F(EventLoopDefer, AnOperationThatDefersItselfIsPosted) {
  deferred again([&] {
    order += 'd';
    if (order.size() < 2) loop.defer(again);
  });
  on_io([&] {
    loop.defer(again);
    watch.stop();
  });
  loop.run_once();
  EXPECT_EQ(order, "d");
  loop.run_once();
  EXPECT_EQ(order, "dd");
}

TEST_F(EventLoopDefer, AnExceptionKeepsTheOthersForTheNextTurn) {
  deferred fails([] { throw std::runtime_error("on purpose"); });
  deferred waits([&] { order += 'w'; });
  for (const bool leaves : {false, true}) {
    rethrows = leaves;
    order.clear();
    on_io([&] {
      loop.defer(fails);
      loop.defer(waits);
      watch.stop();
    });
    if (leaves) {
      EXPECT_THROW(loop.run_once(), std::runtime_error);
    } else {
      loop.run_once();
    }
    EXPECT_EQ(order, "");
    loop.run_once();  // does not wait for I/O
    EXPECT_EQ(order, "w");
  }
  EXPECT_EQ(exceptions, 2);
}

TEST_F(EventLoopDefer, RunsThoughTheIoThrows) {
  deferred runs([&] { order += 'r'; });
  on_io([&] {
    loop.defer(runs);
    watch.stop();
    throw std::runtime_error("on purpose");
  });
  loop.run_once();
  EXPECT_EQ(order, "r");
  EXPECT_EQ(exceptions, 1);
}

}  // namespace
}  // namespace event_loop_defer_test
