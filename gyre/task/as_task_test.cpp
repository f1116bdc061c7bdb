// SPDX-License-Identifier: Apache-2.0
// Tests of which types count as awaitable, and of converting awaitables to tasks.
#include <gyre/task/as_task.hpp>

#include <gyre/base/slab.hpp>
#include <gyre/task/sync_wait.hpp>

#include <gtest/gtest.h>

#include <concepts>
#include <coroutine>
#include <memory>
#include <string>
#include <utility>

namespace as_task_test {
namespace {

using gyre::as_task;
using gyre::sync_wait;
using gyre::task;

// These types return the number, each by one of the ways to be awaitable.
struct is_an_awaiter {
  static bool await_ready() noexcept { return true; }
  static void await_suspend(std::coroutine_handle<>) noexcept {}
  int await_resume() const noexcept { return number; }
  int number;
};
struct has_a_member_operator {
  is_an_awaiter operator co_await() const noexcept { return {number}; }
  int number;
};
struct has_a_free_operator {
  int number;
};
is_an_awaiter operator co_await(const has_a_free_operator& from) noexcept { return {from.number}; }

struct gives_an_rvalue_reference : is_an_awaiter {
  std::string&& await_resume() noexcept { return std::move(word); }
  std::string word;
};
struct gives_an_lvalue_reference : is_an_awaiter {
  std::string& await_resume() const noexcept { return *word; }
  std::string* word;
};
struct only_as_an_rvalue {
  is_an_awaiter operator co_await() && noexcept { return {3}; }
};

static_assert(gyre::awaitable<task<>> && gyre::awaitable<task<int>&>);
static_assert(gyre::awaitable<is_an_awaiter> && gyre::awaitable<is_an_awaiter&>);
static_assert(gyre::awaitable<has_a_member_operator> && gyre::awaitable<has_a_free_operator>);
static_assert(gyre::awaitable<only_as_an_rvalue> && !gyre::awaitable<only_as_an_rvalue&>);
static_assert(!gyre::awaitable<int> && !gyre::awaitable<std::string>);
static_assert(std::same_as<gyre::await_result_t<has_a_free_operator>, int>);
static_assert(std::same_as<gyre::task_result_t<gives_an_rvalue_reference>, std::string>);
static_assert(std::same_as<gyre::task_result_t<gives_an_lvalue_reference>, std::string&>);

TEST(AsTask, TakesEveryKindOfAwaitable) {
  EXPECT_EQ(sync_wait(as_task(is_an_awaiter{1})), 1);
  EXPECT_EQ(sync_wait(as_task(has_a_member_operator{2})), 2);
  EXPECT_EQ(sync_wait(as_task(has_a_free_operator{3})), 3);
  EXPECT_EQ(sync_wait(as_task(only_as_an_rvalue{})), 3);
}

TEST(AsTask, KeepsWhatItGivesAlive) {
  gives_an_rvalue_reference temporary{{1}, "a word that is too long to be kept in place"};
  auto made = as_task(std::move(temporary));
  static_assert(std::same_as<decltype(made), task<std::string>>);
  EXPECT_EQ(sync_wait(std::move(made)), "a word that is too long to be kept in place");
  std::string word;
  EXPECT_EQ(&sync_wait(as_task(gives_an_lvalue_reference{{1}, &word})), &word);
}

TEST(AsTask, RefersToLvaluesAndOwnsRvalues) {
  is_an_awaiter variable{1};
  auto refers = as_task(variable);
  auto owns = as_task(std::move(variable));
  variable.number = 2;
  EXPECT_EQ(sync_wait(std::move(refers)), 2);
  EXPECT_EQ(sync_wait(std::move(owns)), 1);
}

TEST(AsTask, ATaskIsReturnedAsItIs) {
  auto makes = []() -> task<int> { co_return 5; };
  task<int> original = makes();
  const auto blocks = gyre::read_slab_stats().blocks_in_use;
  task<int> same = as_task(std::move(original));
  EXPECT_EQ(gyre::read_slab_stats().blocks_in_use, blocks);
  EXPECT_FALSE(original.valid());  // NOLINT(bugprone-use-after-move): what is tested
  EXPECT_EQ(sync_wait(std::move(same)), 5);
}

}  // namespace
}  // namespace as_task_test
