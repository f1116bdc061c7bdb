// SPDX-License-Identifier: Apache-2.0
// The right forms of the misuses beside this file, and requirements that a misuse does not meet.
#include <gyre/exec/loop.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/exec/timer.hpp>
#include <gyre/net/tcp_server.hpp>
#include <gyre/pool/thread_pool.hpp>
#include <gyre/task/from_future.hpp>
#include <gyre/task/invoke.hpp>
#include <gyre/task/scope.hpp>
#include <gyre/task/sleep.hpp>
#include <gyre/task/spawn.hpp>
#include <gyre/task/task.hpp>
#include <gyre/task/when_all.hpp>
#include <gyre/task/when_any.hpp>
#include <gyre/task/with_timeout.hpp>

#include <chrono>
#include <concepts>
#include <coroutine>
#include <future>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

namespace outside {

// Operators that only the awaiting namespace knows.
struct ready {
  static constexpr bool await_ready() noexcept { return true; }
  static void await_suspend(std::coroutine_handle<>) noexcept {}
  static void await_resume() noexcept {}
};
[[maybe_unused]] ready operator co_await(std::chrono::milliseconds) { return {}; }
template <class T>
ready operator co_await(std::future<T>) {
  return {};
}

[[maybe_unused]] gyre::task<> awaits_by_its_own_operators(std::chrono::milliseconds delay) {
  co_await delay;
  co_await std::chrono::seconds(1);
  co_await std::async([] { return 3; });
}

}  // namespace outside

namespace {

using gyre::task;
using namespace std::chrono_literals;

task<int> answer() { co_return 42; }

[[maybe_unused]] task<> awaits(task<int> work, std::future<int> future, gyre::thread_pool& pool) {
  co_await std::move(work);
  co_await gyre::from_future(std::move(future), pool);
  co_await gyre::sleep_for(5ms);
  co_await gyre::sleep_for(0.5s);
  co_await [] { return answer(); }();
}

[[maybe_unused]] task<> combines(std::vector<task<int>> tasks, task<int> work) {
  co_await gyre::when_all(std::move(tasks));
  co_await gyre::when_any(std::move(work), gyre::sleep_for(5ms));
  co_await gyre::with_timeout(answer(), 5ms);
  auto held = gyre::invoke([number = 3]() -> task<int> { co_return number; });
  co_await std::move(held);
  co_await gyre::with_scope([](gyre::scope& scope) -> task<> {
    scope.spawn(answer());
    co_return;
  });
}

[[maybe_unused]] void starts(gyre::loop& loop, task<int> work, gyre::thread_pool& pool) {
  gyre::spawn(loop, std::move(work));
  gyre::spawn(loop, gyre::invoke([&loop]() -> task<> {
                loop.stop();
                co_return;
              }));
  loop.post([held = std::make_unique<int>(3)] { ++*held; });
  loop.post([&pool] { return pool.submit([] { return 3; }); });  // starts by itself
  loop.post_after(5ms, [] {});
  gyre::timer timer(loop, [] {});
  timer.start_after(5ms);
  timer.start_every(0.5s);
  auto product = pool.submit([number = 3] { return 2 * number; }, gyre::task_priority::high);
}

[[maybe_unused]] void serves(gyre::net::tcp_server& server) {
  server.on_message([](gyre::net::tcp_connection&, gyre::io::input&) {}).on_connection(nullptr);
}

// No misuse satisfies a requires-expression.
template <class T>
concept can_be_spawned =
    requires(gyre::loop& loop, T&& object) { gyre::spawn(loop, std::forward<T>(object)); };
static_assert(can_be_spawned<task<int>>);
static_assert(!can_be_spawned<int> && !can_be_spawned<task<int> (&)()>);

template <class... Ts>
concept can_be_awaited_together =
    requires(Ts&&... objects) { gyre::when_all(std::forward<Ts>(objects)...); };
static_assert(can_be_awaited_together<task<int>, task<>>);
static_assert(can_be_awaited_together<std::vector<task<>>>);
static_assert(!can_be_awaited_together<std::vector<task<>>&>);
static_assert(!can_be_awaited_together<task<int>, int>);

template <class Loop, class F>
concept can_be_posted = requires(Loop& loop, F callable) { loop.post(std::move(callable)); };
template <class Loop, class F>
concept can_be_posted_with_a_number = requires(Loop& loop, F callable) { loop.post(callable, 3); };
static_assert(can_be_posted<gyre::loop, void (*)()> &&
              can_be_posted<gyre::thread_pool, void (*)()>);
static_assert(!can_be_posted<gyre::loop, task<int> (*)()> && !can_be_posted<gyre::loop, int>);
static_assert(!can_be_posted<gyre::thread_pool, void (*)(int)>);
static_assert(!can_be_posted_with_a_number<gyre::loop, void (*)(int)>);
static_assert(!can_be_posted_with_a_number<gyre::thread_pool, void (*)(int)>);

template <class F>
concept can_handle_messages = requires(gyre::net::tcp_server& server, F callback) {
  { server.on_message(callback) } -> std::same_as<gyre::net::tcp_server&>;
};
static_assert(can_handle_messages<void (*)(gyre::net::tcp_connection&, gyre::io::input&)>);
static_assert(!can_handle_messages<void (*)(int)>);

static_assert(gyre::awaitable<task<>> && gyre::awaitable<task<>&>);
static_assert(!std::is_copy_constructible_v<task<>> && !std::copyable<task<>>);
static_assert(std::is_nothrow_move_constructible_v<task<>> && std::movable<task<>>);
static_assert(!std::is_constructible_v<gyre::move_only_function<void(int)>, void (*)()>);

}  // namespace
