// SPDX-License-Identifier: Apache-2.0
// Callables that a pool cannot run.
#include <gyre/pool/thread_pool.hpp>
#include <gyre/task/task.hpp>

#include <chrono>

namespace {

using gyre::task;
using namespace std::chrono_literals;

void submits_arguments(gyre::thread_pool& pool) {
  // expect: bind the arguments in a lambda
  auto result = pool.submit([](int number) { return number; }, 3);
}

void submits_a_coroutine(gyre::thread_pool& pool) {
  // expect: use gyre::spawn(executor, lambda())
  auto result = pool.submit([]() -> task<int> { co_return 3; });
}

void posts_a_coroutine(gyre::thread_pool& pool) {
  // expect: use gyre::spawn(executor, lambda())
  pool.post([]() -> task<> { co_return; });
}

void posts_arguments(gyre::thread_pool& pool) {
  // expect: bind the arguments in a lambda
  pool.post([](int) {}, 3);
}

void posts_a_callable_with_parameters(gyre::thread_pool& pool) {
  // expect: need a callable without parameters
  pool.post([](int) {}, gyre::task_priority::high);
}

void posts_after_a_number(gyre::thread_pool& pool) {
  // expect: pass a std::chrono duration, for example 5ms
  pool.post_after(5, [] {});
}

void posts_a_coroutine_for_later(gyre::thread_pool& pool) {
  // expect: use gyre::spawn(executor, lambda())
  pool.post_after(5ms, []() -> task<> { co_return; });
}

task<> posts_a_coroutine_without_blocking(gyre::thread_pool& pool) {
  // expect: use gyre::spawn(executor, lambda())
  co_await pool.async_post([]() -> task<> { co_return; });
}

}  // namespace
