// SPDX-License-Identifier: Apache-2.0
#include <gyre/task/from_callback.hpp>

#include <gyre/task/schedule.hpp>
#include <gyre/task/spawn.hpp>
#include <gyre/task/sync_wait.hpp>
#include <gyre/task/task.hpp>
#include <gyre/task/when_all.hpp>
#include <gyre/testing/manual_executor.hpp>
#include <tests/support/thread_executor.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <coroutine>
#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace from_callback_test {
namespace {

using gyre::completion;
using gyre::from_callback;
using gyre::sync_wait;
using gyre::task;
using gyre::test::thread_executor;
using gyre::testing::manual_executor;

// A library that keeps its callback.
struct library {
  std::function<void(int)> callback;
  int aborted = 0;
};

// The error of sync_wait(awaitable).
template <class Awaitable>
std::error_code error_of(Awaitable&& awaitable, gyre::inplace_stop_token stop = {}) {
  try {
    sync_wait(std::forward<Awaitable>(awaitable), stop);
  } catch (const std::system_error& error) {
    return error.code();
  }
  return {};
}

task<> store(library& from, std::optional<int>& to) {
  auto operation = from_callback<int>([&](completion<int> done) { from.callback = done; });
  to = co_await std::move(operation);
}
task<> store_error(library& from, std::optional<std::error_code>& to) {
  auto operation = from_callback<int>([&](completion<int> done) { from.callback = done; });
  try {
    co_await std::move(operation);
  } catch (const std::system_error& error) {
    to = error.code();
  } catch (const gyre::operation_cancelled&) {
    to = std::make_error_code(std::errc::operation_canceled);
  }
}

TEST(FromCallback, GivesWhatIsReportedAtOnce) {
  EXPECT_EQ(sync_wait(from_callback<int>([](completion<int> done) { done.set_value(7); })), 7);
}

TEST(FromCallback, GivesWhatIsReportedLaterOnItsOwnExecutor) {
  manual_executor loop;
  library api;
  std::optional<int> result;
  gyre::spawn(loop, store(api, result));
  loop.run_all();
  api.callback(5);
  EXPECT_FALSE(result);
  loop.run_all();
  EXPECT_EQ(result, 5);
}

TEST(FromCallback, GivesWhatAnotherThreadReports) {
  std::thread reporter;
  const std::string text = sync_wait(from_callback<std::string>([&](completion<std::string> done) {
    reporter = std::thread([done] { done.set_value(3U, 'x'); });
  }));
  reporter.join();
  EXPECT_EQ(text, "xxx");
}

TEST(FromCallback, ACompletionWithoutValueOnlyEnds) {
  sync_wait(from_callback([](completion<void> done) { done(); }));
}

TEST(FromCallback, GivesWhatCanOnlyBeMoved) {
  using pointer = std::unique_ptr<int>;
  EXPECT_EQ(*sync_wait(from_callback<pointer>(
                [](completion<pointer> done) { done.set_value(std::make_unique<int>(4)); })),
            4);
}

TEST(FromCallback, OnlyTheFirstReportCounts) {
  const int value = sync_wait(from_callback<int>([](completion<int> done) {
    EXPECT_TRUE(done.set_value(1));
    EXPECT_FALSE(done.set_value(2));
    EXPECT_FALSE(done.set_error(std::make_error_code(std::errc::io_error)));
    EXPECT_FALSE(done.set_exception(std::make_exception_ptr(std::runtime_error("late"))));
  }));
  EXPECT_EQ(value, 1);
}

TEST(FromCallback, ThrowsWhatIsReported) {
  EXPECT_EQ(error_of(from_callback<int>([](completion<int> done) {
              done.set_error(std::make_error_code(std::errc::io_error));
            })),
            std::errc::io_error);
  EXPECT_THROW(sync_wait(from_callback<int>([](completion<int> done) {
                 done.set_exception(std::make_exception_ptr(std::runtime_error("broken")));
               })),
               std::runtime_error);
}

TEST(FromCallback, ThrowsWhatMakingTheValueThrows) {
  struct picky {
    explicit picky(int) { throw std::runtime_error("no"); }
  };
  EXPECT_THROW(sync_wait(from_callback<picky>([](completion<picky> done) { done.set_value(1); })),
               std::runtime_error);
}

TEST(FromCallback, ThrowsWhatTheStartThrows) {
  EXPECT_THROW(sync_wait(from_callback<int>(
                   [](completion<int>) { throw std::runtime_error("not started"); })),
               std::runtime_error);
}

TEST(FromCallback, DroppedWithoutAReportIsABrokenPromise) {
  EXPECT_EQ(error_of(from_callback<int>([](completion<int>) {})), std::future_errc::broken_promise);
  manual_executor loop;
  library api;
  std::optional<std::error_code> error;
  gyre::spawn(loop, store_error(api, error));
  loop.run_all();
  api.callback = nullptr;
  loop.run_all();
  EXPECT_EQ(error, std::future_errc::broken_promise);
}

TEST(FromCallback, StopEndsTheWaitAndALaterReportIsDropped) {
  manual_executor loop;
  library api;
  gyre::inplace_stop_source stop;
  std::optional<std::error_code> error;
  gyre::spawn(loop, store_error(api, error), {.stop = stop.get_token()});
  loop.run_all();
  stop.request_stop();
  loop.run_all();
  EXPECT_EQ(error, std::errc::operation_canceled);
  api.callback(1);
  EXPECT_EQ(loop.pending(), 0U);
}

TEST(FromCallback, StartsNothingIfAStopWasRequested) {
  gyre::inplace_stop_source stop;
  stop.request_stop();
  bool started = false;
  EXPECT_EQ(
      error_of(from_callback<int>([&](completion<int>) { started = true; }), stop.get_token()),
      std::errc::operation_canceled);
  EXPECT_FALSE(started);
}

task<> store_abortable(library& from, std::optional<int>& to) {
  auto operation = from_callback<int>([&](completion<int> done) { from.callback = done; },
                                      [&] { ++from.aborted; });
  to = co_await std::move(operation);
}

TEST(FromCallback, StopFunctionAsksTheOperationAndTheReportIsAwaited) {
  manual_executor loop;
  library api;
  gyre::inplace_stop_source stop;
  std::optional<int> result;
  gyre::spawn(loop, store_abortable(api, result), {.stop = stop.get_token()});
  loop.run_all();
  stop.request_stop();
  loop.run_all();
  EXPECT_EQ(api.aborted, 1);
  EXPECT_FALSE(result);
  api.callback(9);
  loop.run_all();
  EXPECT_EQ(result, 9);
}

TEST(FromCallback, StopFunctionMayReportItself) {
  gyre::inplace_stop_source stop;
  library api;
  const int value = sync_wait(from_callback<int>(
                                  [&](completion<int> done) {
                                    api.callback = done;
                                    stop.request_stop();
                                  },
                                  [&] { api.callback(-1); }),
                              stop.get_token());
  EXPECT_EQ(value, -1);
}

TEST(FromCallback, GoesThroughTheUserDataOfACLibrary) {
  struct c_library {
    static void call(void (*function)(void*, int), void* data) { function(data, 6); }
  };
  const int value = sync_wait(from_callback<int>([](completion<int> done) {
    c_library::call([](void* data, int result) { completion<int>::adopt(data)(result); },
                    done.release());
  }));
  EXPECT_EQ(value, 6);
}

// A coroutine that the test starts and may drop.
struct started_task {
  gyre::task_context context;
  std::optional<task<>> work;

  explicit started_task(task<> given) : work(std::move(given)) {
    context.finished = [](gyre::task_context&) noexcept -> std::coroutine_handle<> {
      return std::noop_coroutine();
    };
    gyre::detail::task_access::state(*work).start(context);
  }
};

TEST(FromCallback, DroppedCoroutineIsNotResumed) {
  library api;
  std::optional<int> result;
  {
    const started_task dropped(store(api, result));
  }
  api.callback(1);
  EXPECT_FALSE(result);
}

TEST(FromCallback, ReportAndStopRace) {
  thread_executor one;
  thread_executor other;
  int values = 0;
  int cancelled = 0;
  constexpr int rounds = 2000;
  auto await_it = [](thread_executor& reports, int& got, int& left) -> task<> {
    auto operation = from_callback<int>([&](completion<int> done) {
      auto report = [](completion<int> to) -> task<> {
        to.set_value(1);
        co_return;
      };
      gyre::spawn(reports, report(std::move(done)));
    });
    try {
      co_await std::move(operation);
      ++got;
    } catch (const gyre::operation_cancelled&) {
      ++left;
    }
  };
  auto request = [](gyre::inplace_stop_source& source) -> task<> {
    source.request_stop();
    co_return;
  };
  for (int round = 0; round < rounds; ++round) {
    gyre::inplace_stop_source stop;
    sync_wait(gyre::when_all(await_it(one, values, cancelled), gyre::on(other, request(stop))),
              stop.get_token());
  }
  EXPECT_EQ(values + cancelled, rounds);
}

}  // namespace
}  // namespace from_callback_test
