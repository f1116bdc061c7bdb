// SPDX-License-Identifier: Apache-2.0
// Misuses of co_await, and of a task as an object.
#include <gyre/task/sleep.hpp>
#include <gyre/task/task.hpp>

#include <chrono>
#include <future>
#include <utility>

namespace {

using gyre::task;

task<int> answer() { co_return 42; }

// expect clang: non-void coroutine does not return a value
task<int> forgets_its_result(bool known) {
  if (known) co_return 1;
}

task<int> awaits_a_task_with_a_name() {
  task<int> work = answer();
  // expect: a task is awaited once: hand it over by std::move(task)
  co_return co_await work;
}

task<> copies_a_task(task<int> work) {
  // expect: a task is awaited once: hand it over by std::move(task)
  task<int> copy = work;
  co_await std::move(copy);
}

task<> awaits_a_future() {
  // expect: use gyre::from_future(std::move(future), pool)
  co_await std::async([] { return 1; });
}

task<> awaits_a_future_with_a_name(std::future<void> end) {
  // expect: use gyre::from_future(std::move(future), pool)
  co_await end;
}

task<> awaits_a_duration() {
  // expect: use gyre::sleep_for(duration)
  co_await std::chrono::milliseconds(5);
}

task<> awaits_a_number() {
  // expect: an awaitable is needed here
  co_await 5;
}

task<> awaits_a_lambda() {
  // expect: call it, as in lambda()
  co_await []() -> task<> { co_return; };
}

task<> awaits_a_function() {
  // expect: call it, as in lambda()
  static_cast<void>(co_await answer);
}

task<> sleeps_for_a_number() {
  // expect: pass a std::chrono duration, for example 5ms
  co_await gyre::sleep_for(5);
}

}  // namespace
