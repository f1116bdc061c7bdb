// SPDX-License-Identifier: Apache-2.0
// parameter_traits: the types as which request::param() and request::query() read parameters.
//
// | type | text |
// |---|---|
// | bool | true, false, 1, 0 |
// | integers, but character types | decimal digits, after a '-' if need be; the number must fit |
// | double, float | such as 1.5 and 2e-3; finite |
// | std::string | any |
// | net::ip_address | an address, such as 192.0.2.1 and 2001:db8::1 |
// | enumerations with parameter_names | one of the names |
// | std::optional<T>, in queries | none, or that of T |
// | std::vector<T>, in queries | those of T, in parameters of the same name |
//
// The whole text must be of the form: blanks, other characters and an empty text are refused.
#pragma once

#include <gyre/base/detail/parse_decimal.hpp>
#include <gyre/net/address.hpp>

#include <array>
#include <charconv>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <iterator>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>

namespace gyre::http {

/// How a T is read. Specialise it for types of your own; `parse` returns nothing for a text that is
/// not a T, and `describe` completes "The parameter … must be":
///
///     template <>
///     struct gyre::http::parameter_traits<colour> {
///       static std::string describe() { return "a colour, such as #ff8000"; }
///       static std::optional<colour> parse(std::string_view text) { return parse_colour(text); }
///     };
///
/// Both may be called on several threads at the same time.
template <class T>
struct parameter_traits;

/// A type that has parameter_traits.
template <class T>
concept readable_parameter =
    std::same_as<T, std::remove_cvref_t<T>> && requires(std::string_view text) {
      { parameter_traits<T>::describe() } -> std::convertible_to<std::string>;
      { parameter_traits<T>::parse(text) } -> std::same_as<std::optional<T>>;
    };

/// A name of an enumerator.
template <class Enum>
struct parameter_name {
  std::string_view name;
  Enum value;
};

/// The names by which the values of an enumeration are written in parameters. Specialise it:
///
///     template <>
///     inline constexpr auto gyre::http::parameter_names<order> =
///         std::to_array<gyre::http::parameter_name<order>>(
///             {{"newest", order::newest}, {"oldest", order::oldest}});
template <class Enum>
inline constexpr std::array<parameter_name<Enum>, 0> parameter_names = {};

namespace detail {

template <class T>
concept character_type =
    std::same_as<T, char> || std::same_as<T, wchar_t> || std::same_as<T, char8_t> ||
    std::same_as<T, char16_t> || std::same_as<T, char32_t>;
template <class T>
concept integer_type = std::integral<T> && !character_type<T> && !std::same_as<T, bool>;

}  // namespace detail

template <detail::integer_type T>
struct parameter_traits<T> {
  static std::string describe() {
    return "an integer from " + std::to_string(std::numeric_limits<T>::min()) + " to " +
           std::to_string(std::numeric_limits<T>::max());
  }
  static std::optional<T> parse(std::string_view text) noexcept {
    return gyre::detail::parse_decimal<T>(text);
  }
};

template <std::floating_point T>
struct parameter_traits<T> {
  static std::string describe() { return "a number"; }
  static std::optional<T> parse(std::string_view text) noexcept {
    T number = 0;
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, number);
    if (error != std::errc() || stop != end || !std::isfinite(number)) return std::nullopt;
    return number;
  }
};

template <>
struct parameter_traits<bool> {
  static std::string describe() { return "true or false"; }
  static std::optional<bool> parse(std::string_view text) noexcept {
    if (text == "true" || text == "1") return true;
    if (text == "false" || text == "0") return false;
    return std::nullopt;
  }
};

template <>
struct parameter_traits<std::string> {
  static std::string describe() { return "a text"; }
  static std::optional<std::string> parse(std::string_view text) { return std::string(text); }
};

template <>
struct parameter_traits<net::ip_address> {
  static std::string describe() { return "an IP address"; }
  static std::optional<net::ip_address> parse(std::string_view text) {
    const auto address = net::ip_address::parse(text);
    return address ? std::optional(*address) : std::nullopt;
  }
};

template <class Enum>
  requires(std::is_enum_v<Enum> && std::size(parameter_names<Enum>) != 0)
struct parameter_traits<Enum> {
  static std::string describe() {
    std::string text = "one of ";
    for (const auto& entry : parameter_names<Enum>) {
      if (&entry != std::begin(parameter_names<Enum>)) text += ", ";
      text += entry.name;
    }
    return text;
  }
  static std::optional<Enum> parse(std::string_view text) noexcept {
    for (const auto& entry : parameter_names<Enum>) {
      if (entry.name == text) return entry.value;
    }
    return std::nullopt;
  }
};

}  // namespace gyre::http
