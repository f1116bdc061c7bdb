// SPDX-License-Identifier: Apache-2.0
#include <gyre/task/as_expected.hpp>

#include <gyre/task/sleep.hpp>
#include <gyre/task/sync_wait.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <expected>
#include <functional>
#include <memory>
#include <new>
#include <stdexcept>
#include <system_error>
#include <type_traits>
#include <utility>

namespace as_expected_test {
namespace {

using namespace std::chrono_literals;
using gyre::as_expected;
using gyre::sync_wait;
using gyre::task;

template <class T>
task<T> fails(std::errc error) {
  throw std::system_error(std::make_error_code(error));
  co_return T();
}
template <>
task<void> fails<void>(std::errc error) {
  throw std::system_error(std::make_error_code(error));
  co_return;
}
task<std::unique_ptr<int>> gives(int value) { co_return std::make_unique<int>(value); }

// An awaiter that fails, and must not be made to throw.
struct leaf {
  bool* thrown;
  static bool await_ready() noexcept { return true; }
  static void await_suspend(std::coroutine_handle<>) noexcept {}
  int await_resume() const {
    *thrown = true;
    throw std::system_error(std::make_error_code(std::errc::io_error));
  }
  static std::expected<int, std::error_code> result() noexcept {
    return std::unexpected(std::make_error_code(std::errc::io_error));
  }
};

TEST(AsExpected, GivesTheValueOfATask) {
  std::expected<std::unique_ptr<int>, std::error_code> given = sync_wait(as_expected(gives(7)));
  ASSERT_TRUE(given.has_value());
  EXPECT_EQ(**given, 7);
}

TEST(AsExpected, GivesTheErrorOfATask) {
  const auto failed = sync_wait(as_expected(fails<int>(std::errc::timed_out)));
  ASSERT_FALSE(failed.has_value());
  EXPECT_EQ(failed.error(), std::errc::timed_out);
}

TEST(AsExpected, TakesTasksOfNothing) {
  const std::expected<void, std::error_code> failed =
      sync_wait(as_expected(fails<void>(std::errc::timed_out)));
  ASSERT_FALSE(failed.has_value());
  EXPECT_EQ(failed.error(), std::errc::timed_out);
  EXPECT_TRUE(sync_wait(as_expected([]() -> task<> { co_return; }())).has_value());
}

TEST(AsExpected, GivesReferencesInAWrapper) {
  int value = 1;
  std::expected<std::reference_wrapper<int>, std::error_code> given =
      sync_wait(as_expected([](int& referred) -> task<int&> { co_return referred; }(value)));
  ASSERT_TRUE(given.has_value());
  EXPECT_EQ(&given->get(), &value);
}

TEST(AsExpected, GivesALackOfMemoryAsAnError) {
  const auto failed = sync_wait(as_expected([]() -> task<> {
    throw std::bad_alloc();
    co_return;
  }()));
  ASSERT_FALSE(failed.has_value());
  EXPECT_EQ(failed.error(), std::errc::not_enough_memory);
}

TEST(AsExpected, LetsOtherExceptionsPass) {
  EXPECT_THROW(sync_wait(as_expected([]() -> task<> {
                 throw std::runtime_error("not a system error");
                 co_return;
               }())),
               std::runtime_error);
}

TEST(AsExpected, AsksLeavesWithoutAThrow) {
  bool thrown = false;
  const auto failed = sync_wait(as_expected(leaf{&thrown}));
  EXPECT_EQ(failed.error(), std::errc::io_error);
  EXPECT_FALSE(thrown);
}

TEST(AsExpected, RefersToAnLvalue) {
  bool thrown = false;
  leaf operation{&thrown};
  EXPECT_EQ(sync_wait(as_expected(operation)).error(), std::errc::io_error);
  EXPECT_FALSE(thrown);
}

TEST(AsExpected, SleepTellsItsErrorInPlace) {
  EXPECT_FALSE((std::is_same_v<decltype(as_expected(gyre::sleep_for(1s))),
                               task<std::expected<void, std::error_code>>>))
      << "no frame";
  EXPECT_EQ(sync_wait(as_expected(gyre::sleep_for(1s))).error(),
            std::errc::operation_not_supported);
}

}  // namespace
}  // namespace as_expected_test
