// SPDX-License-Identifier: Apache-2.0
// Model tests of shared work: an awaiter that joins while the last other awaiter is asked to stop
// gets the value or is refused, but never sees a stop that was not meant for it; nothing leaks.
//
// Each of these mutations, tried by hand, makes a test fail: a join does not check the phase; a
// stop sets the phase after unlocking; waiters hold no reference to the work.
#include <gyre/task/shared_task.hpp>

#include <gyre/task/operation_cancelled.hpp>
#include <gyre/task/schedule.hpp>
#include <tests/model/model.hpp>

#include <gtest/gtest.h>

#include <coroutine>
#include <cstddef>
#include <new>
#include <stdexcept>
#include <system_error>
#include <utility>

namespace {

namespace model = gyre::model;
using gyre::inplace_stop_source;
using gyre::inplace_stop_token;
using gyre::shared_task;
using gyre::task;

// Lets one thread of the model run one operation.
struct one_post final : gyre::executor {
  void post(gyre::operation& op) noexcept override {
    posted = &op;
    arrived.wake();
  }
  bool running_here() const noexcept override { return true; }
  void run() {
    arrived.wait();
    posted->execute();
  }

  gyre::operation* posted = nullptr;
  model::event arrived;
};

enum class ending { none, value, cancelled, refused, failed };

task<> join(const shared_task<int>& work, ending& end) {
  try {
    const int value = co_await work;
    model::assert_that(value == 42, "the value arrived");
    end = ending::value;
  } catch (const std::system_error& error) {
    model::assert_that(error.code() == std::errc::owner_dead, "refused");
    end = ending::refused;
  } catch (const gyre::operation_cancelled&) {
    end = ending::cancelled;
  } catch (const std::runtime_error&) {
    end = ending::failed;
  }
}

// A coroutine that awaits `work` on the calling thread.
struct awaiting {
  explicit awaiting(const shared_task<int>& work, inplace_stop_token stop = {})
      : waits(join(work, end)) {
    context.where = &here;
    context.stop = stop;
    context.finished = [](gyre::task_context&) noexcept -> std::coroutine_handle<> {
      return std::noop_coroutine();
    };
    gyre::detail::task_access::state(waits).start(context);
  }
  ending finish() {
    if (end == ending::none) here.run();
    model::assert_that(end != ending::none, "it has ended");
    return end;
  }

  one_post here;
  gyre::task_context context;
  ending end = ending::none;
  task<> waits;
};

task<int> give_up_if_stopped() {
  const inplace_stop_token stop = co_await gyre::current_stop_token();
  if (stop.stop_requested()) throw std::runtime_error("stopped");
  co_return 42;
}

TEST(SharedTaskModel, JoinsBeforeTheLastAwaiterIsStoppedOrIsRefused) {
  const auto checked = model::check({.preemptions = 3, .stale_reads = 1}, [] {
    one_post worker;
    inplace_stop_source stop;
    shared_task<int> shared(give_up_if_stopped(), worker);
    awaiting impatient(shared, stop.get_token());
    ending joined = ending::none;
    {
      model::thread runs([&] { worker.run(); });
      model::thread stopper([&] { stop.request_stop(); });
      joined = awaiting(shared).finish();
    }
    const ending left = impatient.finish();
    model::assert_that(left != ending::refused, "it came first");
    if (joined == ending::refused) {
      joined = awaiting(shared).finish();  // joins again after the end
      model::assert_that(shared.is_abandoned() == (left == ending::failed), "says so");
      model::assert_that(shared.is_abandoned() == (joined == ending::refused), "says so");
    } else {
      model::assert_that(joined == ending::value, "as if nobody were stopped");
    }
  });
  EXPECT_TRUE(checked) << checked;
}

TEST(SharedTaskModel, WorkOutlivesTheHandleThatIsAwaited) {
  const auto checked = model::check({.preemptions = 3, .stale_reads = 1}, [] {
    one_post worker;
    const auto await_and_reset = [&worker](shared_task<int> handle) {
      awaiting waits(handle);
      handle = shared_task<int>(give_up_if_stopped(), worker);
      model::assert_that(waits.finish() == ending::value, "served");
    };
    model::thread runs([&] { worker.run(); });
    shared_task<int> shared(give_up_if_stopped(), worker);
    model::thread other(
        [&await_and_reset, work = shared]() mutable { await_and_reset(std::move(work)); });
    await_and_reset(std::move(shared));
  });
  EXPECT_TRUE(checked) << checked;
}

}  // namespace
