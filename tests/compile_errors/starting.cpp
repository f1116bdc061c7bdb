// SPDX-License-Identifier: Apache-2.0
// Coroutines that are started from ordinary code, or in a scope, without being called.
#include <gyre/exec/loop.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/sync/join_set.hpp>
#include <gyre/task/as_result.hpp>
#include <gyre/task/first_success.hpp>
#include <gyre/task/hedge.hpp>
#include <gyre/task/join_handle.hpp>
#include <gyre/task/retry.hpp>
#include <gyre/task/scope.hpp>
#include <gyre/task/spawn.hpp>
#include <gyre/task/sync_wait.hpp>
#include <gyre/task/task.hpp>

#include <chrono>
#include <utility>
#include <vector>

namespace {

using gyre::task;

task<int> answer() { co_return 42; }

void spawns_a_lambda(gyre::loop& loop) {
  // expect: call it, as in lambda()
  gyre::spawn(loop, [&loop]() -> task<> {
    loop.stop();
    co_return;
  });
}

void spawns_a_named_task(gyre::loop& loop, task<int> work) {
  // expect: hand it over by std::move(task)
  gyre::spawn(loop, work);
}

void spawns_with_a_future(gyre::loop& loop) {
  // expect: call it, as in lambda()
  auto result = gyre::spawn_future(loop, []() -> task<> { co_return; });
}

void spawns_nothing(gyre::loop& loop) {
  // expect: an awaitable is needed here
  gyre::spawn(loop, [] {});
}

void waits_for_a_lambda() {
  // expect: call it, as in lambda()
  gyre::sync_wait([]() -> task<> { co_return; });
}

void waits_for_a_function(gyre::loop& loop) {
  // expect: call it, as in lambda()
  gyre::sync_wait(loop, answer);
}

void waits_for_a_named_task(gyre::loop& loop, task<int> work) {
  // expect: hand it over by std::move(task)
  gyre::sync_wait(loop, work);
}

void spawns_in_a_scope(gyre::scope& scope) {
  // expect: call it, as in lambda()
  scope.spawn([]() -> task<> { co_return; });
}

void spawns_in_a_scope_elsewhere(gyre::scope& scope, gyre::loop& loop) {
  // expect: call it, as in lambda()
  scope.spawn(loop, []() -> task<> { co_return; });
}

void spawns_a_lambda_to_join(gyre::loop& loop, gyre::scope& scope) {
  // expect: call it, as in lambda()
  auto task_of_its_own = gyre::spawn_joinable(loop, []() -> task<> { co_return; });
  // expect: call it, as in lambda()
  auto task_of_a_scope = scope.spawn_joinable([]() -> task<> { co_return; });
}

void spawns_in_a_set(gyre::join_set<>& set) {
  // expect: call it, as in lambda()
  set.spawn([]() -> task<> { co_return; });
}

task<> awaits_a_result() {
  // expect: call it, as in lambda()
  co_await gyre::as_result([]() -> task<> { co_return; });
}

task<> awaits_the_first_success(std::vector<task<int>>& tasks) {
  // expect: std::move(tasks)
  co_await gyre::first_success(tasks);
}

task<> retries_a_task(task<int> work) {
  // expect: pass a function that returns one
  co_await gyre::retry(std::move(work));
  // expect: pass a function that returns one
  co_await gyre::hedge(answer(), {.delay = std::chrono::seconds(1)});
}

}  // namespace
