// SPDX-License-Identifier: Apache-2.0
#include <gyre/base/detail/enum_category.hpp>

#include <gtest/gtest.h>

#include <system_error>

namespace enum_category_test {
namespace {

enum class fruit_errc { rotten = 1, too_late = 2 };

const char* message_of(fruit_errc code) noexcept {
  switch (code) {
    case fruit_errc::rotten: return "the fruit is rotten";
    case fruit_errc::too_late: return "the fruit came too late";
  }
  return "unknown error";
}

std::errc condition_of(fruit_errc code) noexcept {
  return code == fruit_errc::too_late ? std::errc::timed_out : std::errc();
}

using category = gyre::detail::enum_category<fruit_errc>;

TEST(EnumCategory, HasItsNameAndMessages) {
  const category fruits("fruit", message_of, condition_of);
  EXPECT_STREQ(fruits.name(), "fruit");
  EXPECT_EQ(fruits.message(1), "the fruit is rotten");
  EXPECT_EQ(fruits.message(2), "the fruit came too late");
  EXPECT_EQ(fruits.message(-7), "unknown error");
}

TEST(EnumCategory, EqualsTheConditionOfACodeThatHasOne) {
  const category fruits("fruit", message_of, condition_of);
  EXPECT_EQ(std::error_code(2, fruits), std::errc::timed_out);
  EXPECT_EQ(std::error_code(1, fruits).default_error_condition(), std::error_condition(1, fruits));
  EXPECT_EQ(std::error_code(0, fruits).default_error_condition(), std::error_condition(0, fruits));
}

TEST(EnumCategory, DiffersFromAnotherCategoryOfTheSameEnumeration) {
  const category fruits("fruit", message_of, condition_of);
  const category others("fruit", message_of, condition_of);
  EXPECT_NE(std::error_code(1, fruits), std::error_code(1, others));
}

}  // namespace
}  // namespace enum_category_test
