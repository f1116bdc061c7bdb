// SPDX-License-Identifier: Apache-2.0
// Tests of the cost of a time limit that expires: every throw of this program is counted.
#include <gyre/task/with_timeout.hpp>

#include <gyre/task/as_expected.hpp>
#include <gyre/task/sleep.hpp>
#include <gyre/task/task.hpp>
#include <gyre/testing/run_in_virtual_time.hpp>

#include <gtest/gtest.h>

#include <dlfcn.h>
#include <unwind.h>

#include <chrono>
#include <cstddef>
#include <system_error>
#include <utility>

namespace {
std::size_t throws = 0;
}  // namespace

// A throw, or a rethrow of an exception_ptr.
extern "C" [[gnu::visibility("default")]] _Unwind_Reason_Code _Unwind_RaiseException(
    _Unwind_Exception* thrown) {
  ++throws;
  static const auto raise = reinterpret_cast<decltype(&_Unwind_RaiseException)>(
      dlsym(RTLD_NEXT, "_Unwind_RaiseException"));
  return raise(thrown);
}

namespace with_timeout_cost_test {
namespace {

using namespace std::chrono_literals;
using gyre::task;

task<> sleeps() { co_await gyre::sleep_for(1h); }

// The throws from the start of `limited()` until its coroutine has handled the error.
template <class Limited>
std::size_t throws_of(Limited limited) {
  const auto handles = [](auto made) -> task<std::size_t> {
    const std::size_t before = throws;
    bool timed_out = false;
    try {
      auto awaited = made();
      co_await std::move(awaited);
    } catch (const std::system_error& error) {
      timed_out = error.code() == std::errc::timed_out;
    }
    EXPECT_TRUE(timed_out);
    co_return throws - before;
  };
  gyre::testing::manual_executor executor;
  return gyre::testing::run_in_virtual_time(executor, handles(limited));
}
template <class Limited>
std::size_t throws_of_value(Limited limited) {
  const auto handles = [](auto made) -> task<std::size_t> {
    const std::size_t before = throws;
    auto awaited = gyre::as_expected(made());
    const auto ended = co_await std::move(awaited);
    EXPECT_EQ(ended.error(), std::errc::timed_out);
    co_return throws - before;
  };
  gyre::testing::manual_executor executor;
  return gyre::testing::run_in_virtual_time(executor, handles(limited));
}

TEST(WithTimeoutCost, ThrowsOnceForASingleOperation) {
  EXPECT_EQ(throws_of([] { return gyre::with_timeout(gyre::sleep_for(1h), 1s); }), 1U);
}
TEST(WithTimeoutCost, ThrowsOnceMoreForEachCoroutineUnderTheLimit) {
  EXPECT_EQ(throws_of([] { return gyre::with_timeout(sleeps(), 1s); }), 2U);
}
TEST(WithTimeoutCost, GivesAValueWithoutAThrow) {
  EXPECT_EQ(throws_of_value([] { return gyre::with_timeout(gyre::sleep_for(1h), 1s); }), 0U);
  EXPECT_EQ(throws_of_value([] { return gyre::with_timeout(sleeps(), 1s); }), 1U);
}

}  // namespace
}  // namespace with_timeout_cost_test
