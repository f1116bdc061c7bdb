// SPDX-License-Identifier: Apache-2.0
// Tests how combinators end with an error that they pass on instead of throwing it.
#include <gyre/task/detail/this_context.hpp>

#include <gyre/task/detail/cancelled.hpp>
#include <gyre/task/operation_cancelled.hpp>
#include <gyre/task/schedule.hpp>
#include <gyre/task/sync_wait.hpp>
#include <gyre/task/task.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace this_context_test {
namespace {

using gyre::operation_cancelled;
using gyre::task;
using gyre::detail::await_ready_state;
using gyre::detail::cancellation;
using gyre::detail::fail_with;
using gyre::detail::take_result;
using gyre::detail::task_access;
using testing::ElementsAre;

// Records its destruction, unless it was moved from.
class noted {
 public:
  noted(std::vector<std::string>& notes, std::string name)
      : notes_(&notes), name_(std::move(name)) {}
  noted(noted&& other) noexcept
      : notes_(std::exchange(other.notes_, nullptr)), name_(std::move(other.name_)) {}
  ~noted() {
    if (notes_ != nullptr) notes_->push_back(name_);
  }

 private:
  std::vector<std::string>* notes_;
  std::string name_;
};

template <class T>
task<T> fails_among_locals(noted, std::vector<std::string>& notes, std::exception_ptr error) {
  const noted first(notes, "first");
  const noted second(notes, "second");
  co_await fail_with(error);
  notes.emplace_back("went on");
  if constexpr (std::is_void_v<T>) {
    co_return;
  } else {
    co_return *std::make_unique<std::remove_reference_t<T>>();
  }
}

// The error that the awaiting coroutine gets.
template <class T>
task<std::string> caught_from(task<T> work) {
  try {
    co_await std::move(work);
  } catch (const operation_cancelled&) {
    co_return "stop";
  } catch (const std::exception& error) {
    co_return error.what();
  }
  co_return "nothing";
}

template <class T>
void check_end_with_error() {
  std::vector<std::string> notes;
  const auto runtime_error = std::make_exception_ptr(std::runtime_error("broken"));
  EXPECT_EQ(gyre::sync_wait(caught_from(
                fails_among_locals<T>(noted(notes, "parameter"), notes, runtime_error))),
            "broken");
  EXPECT_THAT(notes, ElementsAre("second", "first", "parameter"));

  notes.clear();
  EXPECT_EQ(gyre::sync_wait(caught_from(
                fails_among_locals<T>(noted(notes, "parameter"), notes, cancellation()))),
            "stop");
  EXPECT_THAT(notes, ElementsAre("second", "first", "parameter"));

  notes.clear();
  task<T> outermost = fails_among_locals<T>(noted(notes, "parameter"), notes, runtime_error);
  EXPECT_THROW(gyre::sync_wait(std::move(outermost)), std::runtime_error);
  EXPECT_THAT(notes, ElementsAre("second", "first", "parameter"));
}

TEST(FailWith, EndsATaskAsAThrowDoes) { check_end_with_error<int>(); }
TEST(FailWith, EndsATaskWithoutAValueAsAThrowDoes) { check_end_with_error<void>(); }
TEST(FailWith, EndsATaskOfAnObjectAsAThrowDoes) { check_end_with_error<std::string>(); }
TEST(FailWith, EndsATaskOfAReferenceAsAThrowDoes) { check_end_with_error<int&>(); }

TEST(FailWith, GoesOnWithoutAnError) {
  EXPECT_EQ(gyre::sync_wait([]() -> task<int> {
              std::exception_ptr none;
              co_await fail_with(none);
              co_return 1;
            }()),
            1);
}

TEST(FailWith, EndsATaskWithAFrameOfAnAllocator) {
  const auto fails = [](std::allocator_arg_t, std::allocator<int>,
                        std::exception_ptr error) -> task<int> {
    co_await fail_with(error);
    co_return 1;
  };
  EXPECT_EQ(gyre::sync_wait(
                caught_from(fails(std::allocator_arg, std::allocator<int>(), cancellation()))),
            "stop");
}

task<std::string> throws_stop() {
  throw operation_cancelled();
  co_return "";
}

// Passes an error on as combinators do.
template <class T>
task<T> passes_on(task<T> work) {
  co_await await_ready_state(work);
  co_return co_await take_result(work);
}

TEST(TakeResult, GivesTheResult) {
  EXPECT_EQ(gyre::sync_wait(passes_on(passes_on([]() -> task<std::string> { co_return "yes"; }()))),
            "yes");
}

TEST(TakeResult, PassesAStopOnAsAStatus) {
  bool is_status = false;
  gyre::sync_wait([](bool& seen) -> task<> {
    task<std::string> work = passes_on(passes_on(throws_stop()));
    co_await await_ready_state(work);
    seen = task_access::state(work).take_error() == cancellation();
  }(is_status));
  EXPECT_TRUE(is_status);
}

TEST(TakeResult, PassesErrorsThroughManyLevels) {
  task<std::string> work = throws_stop();
  for (int level = 0; level < 10'000; ++level) work = passes_on(std::move(work));
  EXPECT_EQ(gyre::sync_wait(caught_from(std::move(work))), "stop");
}

}  // namespace
}  // namespace this_context_test
