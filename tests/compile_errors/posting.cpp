// SPDX-License-Identifier: Apache-2.0
// Callables that a loop cannot run, and timers without a unit.
#include <gyre/exec/fd_watch.hpp>
#include <gyre/exec/loop.hpp>
#include <gyre/exec/timer.hpp>
#include <gyre/task/task.hpp>

#include <chrono>
#include <memory>
#include <utility>

namespace {

using gyre::task;
using namespace std::chrono_literals;

void posts_a_coroutine(gyre::loop& loop) {
  // expect: use gyre::spawn(executor, lambda())
  loop.post([]() -> task<> { co_return; });
}

void posts_a_coroutine_by_the_interface(gyre::event_loop& loop) {
  // expect: use gyre::spawn(executor, lambda())
  loop.post([]() -> task<> { co_return; });
}

void tries_to_post_a_coroutine(gyre::loop& loop) {
  // expect: use gyre::spawn(executor, lambda())
  static_cast<void>(loop.try_post([]() -> task<> { co_return; }));
}

void dispatches_a_coroutine(gyre::loop& loop) {
  // expect: use gyre::spawn(executor, lambda())
  loop.dispatch([]() -> task<> { co_return; });
}

void posts_a_coroutine_for_later(gyre::loop& loop) {
  // expect: use gyre::spawn(executor, lambda())
  loop.post_after(5ms, []() -> task<> { co_return; });
}

void posts_arguments(gyre::loop& loop) {
  // expect: bind the arguments in a lambda
  loop.post([](int) {}, 3);
}

void posts_a_callable_with_parameters(gyre::loop& loop) {
  // expect: need a callable without parameters
  loop.post([](int) {});
}

void posts_a_number(gyre::loop& loop) {
  // expect: need a callable without parameters
  loop.post(3);
}

void posts_a_named_callable(gyre::loop& loop) {
  auto callable = [held = std::make_unique<int>(3)] { ++*held; };
  // expect: post(std::move(callable))
  loop.post(callable);
}

void posts_after_a_number(gyre::loop& loop) {
  // expect: pass a std::chrono duration, for example 5ms
  loop.post_after(5, [] {});
}

void runs_for_a_number(gyre::loop& loop) {
  // expect: pass a std::chrono duration, for example 5ms
  loop.run_for(5);
}

void starts_a_timer_after_a_number(gyre::timer& timer) {
  // expect: pass a std::chrono duration, for example 5ms
  timer.start_after(5);
}

void makes_a_timer_of_a_coroutine(gyre::loop& loop) {
  // expect: use gyre::spawn(executor, coroutine())
  gyre::timer timer(loop, []() -> task<> { co_return; });
}

void makes_a_timer_of_a_callable_with_parameters(gyre::loop& loop) {
  // expect: the callback of a timer takes no parameters
  gyre::timer timer(loop, [](int) {});
}

void watches_with_a_wrong_callback(gyre::loop& loop) {
  // expect: the callback of an fd_watch takes (gyre::readiness)
  gyre::fd_watch watch(loop, 0, [](int*) {});
}

}  // namespace
