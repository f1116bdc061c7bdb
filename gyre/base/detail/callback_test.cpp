// SPDX-License-Identifier: Apache-2.0
// Tests of the callback that may destroy its owner.
#include <gyre/base/detail/callback.hpp>

#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <string>

namespace callback_test {
namespace {

using gyre::detail::callback;

TEST(Callback, IsCalledWithItsArgumentsAgainAndAgain) {
  int sum = 0;
  callback<int, const std::string&> called(
      [&](int number, const std::string& text) { sum += number + static_cast<int>(text.size()); });
  called(1, "ab");
  called(10, "abc");
  EXPECT_EQ(sum, 16);
}

TEST(Callback, KeepsTheStateOfItsFunction) {
  int last = 0;
  callback<> called([&last, count = 0]() mutable { last = ++count; });
  for (int i = 0; i < 3; ++i) called();
  EXPECT_EQ(last, 3);
}

TEST(Callback, MayBeDestroyedWithinAndTheCapturesStayUntilTheEnd) {
  const auto held = std::make_shared<int>();
  std::unique_ptr<callback<>> owner;
  std::string after;
  owner = std::make_unique<callback<>>([&, held, text = std::string(100, 'x')] {
    owner.reset();
    EXPECT_EQ(held.use_count(), 2);
    after = text;
  });
  (*owner)();
  EXPECT_EQ(after, std::string(100, 'x'));
  EXPECT_EQ(held.use_count(), 1);
}

TEST(Callback, MayBeReplacedWithin) {
  std::unique_ptr<callback<>> owner;
  int second = 0;
  owner = std::make_unique<callback<>>(
      [&] { owner = std::make_unique<callback<>>([&] { ++second; }); });
  (*owner)();
  EXPECT_EQ(second, 0);
  (*owner)();
  (*owner)();
  EXPECT_EQ(second, 2);
}

TEST(Callback, IsThereAfterAnException) {
  int calls = 0;
  callback<> throwing([&] {
    ++calls;
    throw std::runtime_error("callback");
  });
  EXPECT_THROW(throwing(), std::runtime_error);
  EXPECT_THROW(throwing(), std::runtime_error);
  EXPECT_EQ(calls, 2);
}

TEST(Callback, MayBeDestroyedWithinAndThrow) {
  const auto held = std::make_shared<int>();
  std::unique_ptr<callback<>> owner;
  owner = std::make_unique<callback<>>([&, held] {
    owner.reset();
    throw std::runtime_error("callback");
  });
  EXPECT_THROW((*owner)(), std::runtime_error);
  EXPECT_EQ(held.use_count(), 1);
}

}  // namespace
}  // namespace callback_test
