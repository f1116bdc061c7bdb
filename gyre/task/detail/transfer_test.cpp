// SPDX-License-Identifier: Apache-2.0
// Tests of the trampoline, on which coroutines take turns where the compiler makes no tail calls.
// The tests call it directly, so that they hold in every build.
#include <gyre/task/detail/transfer.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <coroutine>
#include <exception>
#include <utility>
#include <vector>

namespace transfer_test {
namespace {

using gyre::detail::leave_to_trampoline;
using gyre::detail::run_on_trampoline;
using testing::ElementsAre;

// A bare coroutine, suspended at its start and at its end.
struct script {
  struct promise_type {
    script get_return_object() noexcept {
      return script(std::coroutine_handle<promise_type>::from_promise(*this));
    }
    static std::suspend_always initial_suspend() noexcept { return {}; }
    static std::suspend_always final_suspend() noexcept { return {}; }
    static void return_void() noexcept {}
    static void unhandled_exception() noexcept { std::terminate(); }
  };

  explicit script(std::coroutine_handle<> coroutine) noexcept : handle(coroutine) {}
  script(script&& other) noexcept : handle(std::exchange(other.handle, nullptr)) {}
  script& operator=(const script&) = delete;
  ~script() {
    if (handle) handle.destroy();
  }
  std::coroutine_handle<> handle;
};

struct leave_to {
  static bool await_ready() noexcept { return false; }
  std::coroutine_handle<> await_suspend(std::coroutine_handle<>) const noexcept {
    return leave_to_trampoline(next);
  }
  static void await_resume() noexcept {}
  std::coroutine_handle<> next;
};

class Trampoline : public testing::Test {
 protected:
  script says(int number) {
    log.push_back(number);
    co_return;
  }
  script says_and_leaves_to(int number, std::coroutine_handle<> next) {
    log.push_back(number);
    co_await leave_to{next};
  }
  // Resumes like foreign code, which knows nothing of trampolines.
  script resumes_by_hand(int number, std::coroutine_handle<> first, std::coroutine_handle<> next) {
    log.push_back(number);
    first.resume();
    log.push_back(number + 1);
    if (next) co_await leave_to{next};
  }

  std::vector<int> log;
};

TEST_F(Trampoline, RunsOneCoroutineAfterTheOther) {
  const script third = says(3);
  const script second = says_and_leaves_to(2, third.handle);
  const script first = says_and_leaves_to(1, second.handle);
  run_on_trampoline(first.handle);
  EXPECT_THAT(log, ElementsAre(1, 2, 3));
  EXPECT_TRUE(third.handle.done());
}

// A coroutine that is resumed by plain resume(), from ordinary code.
TEST_F(Trampoline, IsMadeWhereThereIsNone) {
  const script third = says(3);
  const script second = says_and_leaves_to(2, third.handle);
  const script first = says_and_leaves_to(1, second.handle);
  first.handle.resume();
  EXPECT_THAT(log, ElementsAre(1, 2, 3));
}

TEST_F(Trampoline, NestsInOrdinaryCode) {
  const script inner = says(2);
  const script inner_first = says_and_leaves_to(1, inner.handle);
  const script last = says(4);
  auto outer = [](std::vector<int>& order, std::coroutine_handle<> within,
                  std::coroutine_handle<> next) -> script {
    run_on_trampoline(within);
    order.push_back(3);
    co_await leave_to{next};
  };
  const script first = outer(log, inner_first.handle, last.handle);
  run_on_trampoline(first.handle);
  EXPECT_THAT(log, ElementsAre(1, 2, 3, 4));
}

// Within a coroutine on a trampoline, a file with tail calls resumes a coroutine from a file that
// uses trampolines. The resuming code may wait for that coroutine, so nothing may be left to the
// outer trampoline.
TEST_F(Trampoline, LeavesNothingToAnOuterOneWhenOrdinaryCodeResumes) {
  const script inner = says(2);
  const script inner_first = says_and_leaves_to(1, inner.handle);
  auto outer = [](std::vector<int>& order, std::coroutine_handle<> within) -> script {
    gyre::detail::resume(within);
    order.push_back(3);
    co_return;
  };
  const script first = outer(log, inner_first.handle);
  run_on_trampoline(first.handle);
  EXPECT_THAT(log, ElementsAre(1, 2, 3));
}

// Two coroutines are left to the trampoline, by the resumed and by the resuming coroutine: both
// run.
TEST_F(Trampoline, LosesNobodyWhenACoroutineIsResumedByHand) {
  const script fourth = says(4);
  const script third = says_and_leaves_to(3, fourth.handle);
  const script fifth = says(5);
  const script first = resumes_by_hand(1, third.handle, fifth.handle);
  run_on_trampoline(first.handle);
  EXPECT_THAT(log, testing::UnorderedElementsAre(1, 3, 2, 4, 5));
  EXPECT_TRUE(fourth.handle.done() && fifth.handle.done());
}

TEST_F(Trampoline, LosesNobodyWhenTheCoroutineThatResumesByHandEnds) {
  const script fourth = says(4);
  const script third = says_and_leaves_to(3, fourth.handle);
  const script first = resumes_by_hand(1, third.handle, nullptr);
  run_on_trampoline(first.handle);
  EXPECT_THAT(log, ElementsAre(1, 3, 2, 4));
  EXPECT_TRUE(fourth.handle.done());
}

TEST_F(Trampoline, LosesNobodyWhenSeveralAreResumedByHand) {
  const script ninth = says(9);
  const script eighth = says_and_leaves_to(8, ninth.handle);
  const script sixth = says(6);
  const script fifth = says_and_leaves_to(5, sixth.handle);
  auto resumes_both = [](std::coroutine_handle<> one, std::coroutine_handle<> other) -> script {
    one.resume();
    other.resume();
    co_return;
  };
  const script first = resumes_both(fifth.handle, eighth.handle);
  run_on_trampoline(first.handle);
  EXPECT_THAT(log, testing::UnorderedElementsAre(5, 6, 8, 9));
}

}  // namespace
}  // namespace transfer_test
