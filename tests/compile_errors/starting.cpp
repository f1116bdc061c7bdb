// SPDX-License-Identifier: Apache-2.0
// Coroutines that are started from ordinary code, or in a scope, without being called.
#include <gyre/exec/loop.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/task/scope.hpp>
#include <gyre/task/spawn.hpp>
#include <gyre/task/sync_wait.hpp>
#include <gyre/task/task.hpp>

#include <utility>

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
  gyre::spawn_future(loop, []() -> task<> { co_return; });
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

}  // namespace
