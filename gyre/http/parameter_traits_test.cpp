// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/parameter_traits.hpp>

#include <gyre/http/parameter_error.hpp>

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

namespace http_parameter_traits_test {

enum class order { newest, oldest };
enum class unnamed { one };
struct even {
  int value = 0;
};

}  // namespace http_parameter_traits_test

template <>
inline constexpr auto gyre::http::parameter_names<http_parameter_traits_test::order> =
    std::to_array<gyre::http::parameter_name<http_parameter_traits_test::order>>(
        {{"newest", http_parameter_traits_test::order::newest},
         {"oldest", http_parameter_traits_test::order::oldest}});

template <>
struct gyre::http::parameter_traits<http_parameter_traits_test::even> {
  static std::string describe() { return "an even number"; }
  static std::optional<http_parameter_traits_test::even> parse(std::string_view text) {
    const auto number = gyre::http::parameter_traits<int>::parse(text);
    if (!number || *number % 2 != 0) return std::nullopt;
    return http_parameter_traits_test::even{*number};
  }
};

namespace http_parameter_traits_test {
namespace {

using gyre::http::parameter_traits;
using gyre::http::readable_parameter;

template <class T>
std::optional<T> parse(std::string_view text) {
  return parameter_traits<T>::parse(text);
}

TEST(ParameterTraits, IntegersMustFitAndBeTheWholeText) {
  EXPECT_EQ(parse<int>("0"), 0);
  EXPECT_EQ(parse<int>("-2147483648"), std::numeric_limits<int>::min());
  EXPECT_EQ(parse<int>("007"), 7);
  EXPECT_EQ(parse<std::uint64_t>("18446744073709551615"),
            std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(parse<std::uint8_t>("255"), 255);
  EXPECT_EQ(parse<std::int8_t>("-128"), -128);
  for (const char* text : {"", " 1", "1 ", "+1", "--1", "1a", "0x1", "1.0", "1e3", "2147483648"}) {
    EXPECT_EQ(parse<int>(text), std::nullopt) << text;
  }
  EXPECT_EQ(parse<int>(std::string_view("1\0", 2)), std::nullopt);
  EXPECT_EQ(parse<int>(std::string(100'000, '9')), std::nullopt);
  EXPECT_EQ(parse<unsigned>("-1"), std::nullopt);
  EXPECT_EQ(parse<std::uint8_t>("256"), std::nullopt);
  EXPECT_EQ(parameter_traits<std::int8_t>::describe(), "an integer from -128 to 127");
}

TEST(ParameterTraits, NumbersAreFinite) {
  EXPECT_EQ(parse<double>("1.5"), 1.5);
  EXPECT_EQ(parse<double>("-2e-3"), -0.002);
  EXPECT_EQ(parse<float>(".5"), 0.5F);
  for (const char* text : {"", "inf", "-infinity", "nan", "1e999", "0x1p3", "1.5 ", "1,5", "+1"}) {
    EXPECT_EQ(parse<double>(text), std::nullopt) << text;
  }
}

TEST(ParameterTraits, BoolHasFourTexts) {
  EXPECT_EQ(parse<bool>("true"), true);
  EXPECT_EQ(parse<bool>("1"), true);
  EXPECT_EQ(parse<bool>("false"), false);
  EXPECT_EQ(parse<bool>("0"), false);
  for (const char* text : {"", "TRUE", "yes", "2", "on"})
    EXPECT_EQ(parse<bool>(text), std::nullopt);
}

TEST(ParameterTraits, TextsAndAddressesAreRead) {
  EXPECT_EQ(parse<std::string>(""), "");
  EXPECT_EQ(parse<std::string>("a b"), "a b");
  EXPECT_EQ(parse<gyre::net::ip_address>("192.0.2.1")->to_string(), "192.0.2.1");
  EXPECT_EQ(parse<gyre::net::ip_address>("192.0.2.1.5"), std::nullopt);
}

TEST(ParameterTraits, EnumerationsAreReadByTheirNames) {
  EXPECT_EQ(parse<order>("oldest"), order::oldest);
  EXPECT_EQ(parse<order>("Oldest"), std::nullopt);
  EXPECT_EQ(parse<order>(""), std::nullopt);
  EXPECT_EQ(parameter_traits<order>::describe(), "one of newest, oldest");
}

TEST(ParameterTraits, OtherTypesNeedASpecialisation) {
  EXPECT_EQ(parse<even>("4")->value, 4);
  EXPECT_FALSE(parse<even>("5"));
  static_assert(readable_parameter<int> && readable_parameter<order> && readable_parameter<even>);
  static_assert(!readable_parameter<unnamed> && !readable_parameter<char> &&
                !readable_parameter<const int> && !readable_parameter<std::string_view>);
}

TEST(ParameterError, NamesTheParameterAndTheExpectedForm) {
  const gyre::http::parameter_error error("page", "a positive integer");
  EXPECT_STREQ(error.what(), "The parameter 'page' must be a positive integer.");
  EXPECT_EQ(error.status(), gyre::http::status::bad_request);
  EXPECT_EQ(error.name(), "page");
  EXPECT_EQ(error.expectation(), "a positive integer");
}

}  // namespace
}  // namespace http_parameter_traits_test
