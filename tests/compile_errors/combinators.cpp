// SPDX-License-Identifier: Apache-2.0
// Arguments of combinators that are no awaitables, or are not handed over.
#include <gyre/task/as_expected.hpp>
#include <gyre/task/collect.hpp>
#include <gyre/task/finally.hpp>
#include <gyre/task/fork.hpp>
#include <gyre/task/invoke.hpp>
#include <gyre/task/schedule.hpp>
#include <gyre/task/scope.hpp>
#include <gyre/task/shielded.hpp>
#include <gyre/task/stop_when.hpp>
#include <gyre/task/task.hpp>
#include <gyre/task/task_local.hpp>
#include <gyre/task/when_all.hpp>
#include <gyre/task/when_any.hpp>
#include <gyre/task/with_timeout.hpp>

#include <chrono>
#include <future>
#include <utility>
#include <vector>

namespace {

using gyre::task;
using namespace std::chrono_literals;

task<int> answer() { co_return 42; }
const gyre::task_local<int> number;

task<> all_of_a_named_range(std::vector<task<int>> tasks) {
  // expect: gyre::when_all(std::move(tasks))
  co_await gyre::when_all(tasks);
}

task<> any_of_a_named_range(std::vector<task<int>> tasks) {
  // expect: gyre::when_all(std::move(tasks))
  co_await gyre::when_any(tasks);
}

task<> collects_a_named_range(std::vector<task<int>> tasks) {
  // expect: gyre::when_all(std::move(tasks))
  co_await gyre::collect(tasks, 2);
}

task<> all_of_a_named_task(task<int> work) {
  // expect: hand it over by std::move(task)
  co_await gyre::when_all(answer(), work);
}

task<> all_of_lambdas() {
  // expect: call it, as in lambda()
  co_await gyre::when_all([]() -> task<> { co_return; }, answer());
}

task<> any_with_a_second_lambda() {
  // expect: call it, as in lambda()
  co_await gyre::when_any(answer(), []() -> task<> { co_return; });
}

task<> all_ready_with_a_third_number() {
  // expect: an awaitable is needed here
  co_await gyre::when_all_ready(answer(), answer(), 7);
}

task<> any_with_a_duration() {
  // expect: use gyre::sleep_for(duration)
  co_await gyre::when_any(answer(), 5ms);
}

task<> limits_a_lambda() {
  // expect: call it, as in lambda()
  co_await gyre::with_timeout([]() -> task<> { co_return; }, 5ms);
}

task<> limits_by_a_number() {
  // expect: pass a std::chrono duration, for example 5ms
  co_await gyre::with_timeout(answer(), 5);
}

task<> limits_a_named_task(task<int> work) {
  // expect: hand it over by std::move(task)
  co_await gyre::with_timeout(work, 5ms);
}

task<> limits_a_future(std::future<int> result) {
  // expect: use gyre::from_future(std::move(future), pool)
  co_await gyre::with_timeout(std::move(result), 5ms);
}

task<> forks_a_lambda() {
  // expect: call it, as in lambda()
  co_await gyre::fork([]() -> task<> { co_return; });
}

task<> runs_a_lambda_elsewhere(gyre::executor& there) {
  // expect: call it, as in lambda()
  co_await gyre::on(there, []() -> task<> { co_return; });
}

task<> shields_a_lambda() {
  // expect: call it, as in lambda()
  co_await gyre::shielded([]() -> task<> { co_return; });
}

task<> stops_a_lambda(gyre::inplace_stop_token token) {
  // expect: call it, as in lambda()
  co_await gyre::stop_when([]() -> task<> { co_return; }, token);
}

task<> expects_of_a_lambda() {
  // expect: call it, as in lambda()
  co_await gyre::as_expected([]() -> task<> { co_return; });
}

task<> cleans_up_after_a_lambda() {
  // expect: call it, as in lambda()
  co_await gyre::finally([]() -> task<> { co_return; }, [] {});
}

task<> binds_for_a_lambda() {
  // expect: call it, as in lambda()
  co_await number.with(1, []() -> task<> { co_return; });
}

task<> invokes_with_a_missing_argument() {
  // expect: a function that takes the arguments and returns an awaitable
  co_await gyre::invoke([](int) -> task<> { co_return; });
}

task<> opens_a_scope_without_its_parameter() {
  // expect: [&](gyre::scope& scope) -> gyre::task<> { … }
  co_await gyre::with_scope([]() -> task<> { co_return; });
}

task<> opens_a_scope_without_a_coroutine() {
  // expect: [&](gyre::scope& scope) -> gyre::task<> { … }
  co_await gyre::with_scope([](gyre::scope&) {});
}

}  // namespace
