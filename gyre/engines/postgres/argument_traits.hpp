// SPDX-License-Identifier: Apache-2.0
// argument_traits: which types can be arguments of a statement of PostgreSQL.
//
// | type | parameter |
// |---|---|
// | bool | bool |
// | integers | int2, int4, int8, oid, float4, float8, numeric, text … |
// | float, double | float8, float4 (rounded), numeric, text … |
// | texts: std::string, std::string_view, literals | any, as in a quoted literal; bytea as it is |
// | std::span<const std::byte> and the like | bytea |
// | numeric, json, uuid, interval, net::ip_address | numeric; json, jsonb; uuid; interval; inet |
// | std::chrono::sys_time | timestamptz; sys_days: date, too |
// | std::chrono::local_time | timestamp; local_days: date, too |
// | std::chrono::year_month_day | date |
// | std::chrono::hh_mm_ss | time |
// | std::chrono::duration | interval, without days and months |
// | std::optional, std::nullopt, nullptr | NULL, or as its value |
// | std::vector, std::span and other ranges of these | array of one dimension |
//
// The parameter's type is the one that the server infers from the statement; write $1::int8 where
// it cannot. Times are rounded down to microseconds; max() and min() of a time are the infinities
// of PostgreSQL.
#pragma once

#include <gyre/engines/postgres/argument_writer.hpp>
#include <gyre/engines/postgres/detail/microseconds.hpp>
#include <gyre/engines/postgres/interval.hpp>
#include <gyre/engines/postgres/json.hpp>
#include <gyre/engines/postgres/numeric.hpp>
#include <gyre/engines/postgres/uuid.hpp>
#include <gyre/net/address.hpp>

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <ranges>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>

namespace gyre::postgres {

/// The form in which a T is sent: `static void write(argument_writer& output, const T& value)`.
/// Specialise it for types of your own:
///
///     template <>
///     struct gyre::postgres::argument_traits<colour> {
///       static void write(argument_writer& output, colour value) {
///         output.write_text(name_of(value));
///       }
///     };
template <class T>
struct argument_traits;

/// A type that can be an argument of a statement: argument_traits know how to write it.
template <class T>
concept argument = requires(argument_writer& output, const std::remove_cvref_t<T>& value) {
  argument_traits<std::remove_cvref_t<T>>::write(output, value);
};

namespace detail {

template <class T>
concept text_argument =
    std::convertible_to<const T&, std::string_view> && !std::same_as<T, std::nullptr_t>;
template <class T>
concept bytes_argument =
    !text_argument<T> && std::convertible_to<const T&, std::span<const std::byte>>;
// A bool is not a number in PostgreSQL, and a char could be a text.
template <class T>
concept integer_value = std::integral<T> && !std::same_as<T, bool> && !std::same_as<T, char> &&
                        !std::same_as<T, wchar_t> && !std::same_as<T, char8_t> &&
                        !std::same_as<T, char16_t> && !std::same_as<T, char32_t>;
template <class T>
concept range_argument =
    !text_argument<T> && !bytes_argument<T> && std::ranges::forward_range<const T&>;

void write_integer(argument_writer& output, std::int64_t number);
void write_integer(argument_writer& output, std::uint64_t number);
void write_real(argument_writer& output, double number);
void write_real(argument_writer& output, float number);
void write_text(argument_writer& output, std::string_view text);
/// `name`: the name of the C++ type, for errors.
void write_timestamp(argument_writer& output, oid type, const count_since_epoch& time,
                     const char* name);
void write_date(argument_writer& output, const count_since_epoch& days, const char* name);

}  // namespace detail

template <>
struct argument_traits<bool> {
  static void write(argument_writer& output, bool value);
};

template <detail::integer_value T>
struct argument_traits<T> {
  static void write(argument_writer& output, T number) {
    using widest = std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>;
    detail::write_integer(output, static_cast<widest>(number));
  }
};

template <>
struct argument_traits<double> {
  static void write(argument_writer& output, double number) { detail::write_real(output, number); }
};
template <>
struct argument_traits<float> {
  static void write(argument_writer& output, float number) { detail::write_real(output, number); }
};

template <detail::text_argument T>
struct argument_traits<T> {
  static void write(argument_writer& output, const T& text) {
    detail::write_text(output, std::string_view(text));
  }
};

template <>
struct argument_traits<std::span<const std::byte>> {
  static void write(argument_writer& output, std::span<const std::byte> bytes);
};
template <detail::bytes_argument T>
struct argument_traits<T> {
  static void write(argument_writer& output, const T& bytes) {
    argument_traits<std::span<const std::byte>>::write(output, bytes);
  }
};

template <>
struct argument_traits<numeric> {
  static void write(argument_writer& output, const numeric& number);
};
template <>
struct argument_traits<json> {
  static void write(argument_writer& output, const json& value);
};
template <>
struct argument_traits<uuid> {
  static void write(argument_writer& output, const uuid& value);
};
template <>
struct argument_traits<interval> {
  static void write(argument_writer& output, const interval& value);
};
template <>
struct argument_traits<net::ip_address> {
  static void write(argument_writer& output, const net::ip_address& address);
};

template <std::integral Rep, class Period>
struct argument_traits<std::chrono::duration<Rep, Period>> {
  using length_type = std::chrono::duration<Rep, Period>;

  static void write(argument_writer& output, length_type length) {
    const auto time = detail::to_microseconds(length);
    if (!time) output.throw_out_of_range("a duration beyond 292,000 years");
    argument_traits<interval>::write(output, interval{.time = *time});
  }
};

template <std::integral Rep, class Period>
struct argument_traits<std::chrono::sys_time<std::chrono::duration<Rep, Period>>> {
  using time_type = std::chrono::sys_time<std::chrono::duration<Rep, Period>>;

  static void write(argument_writer& output, time_type time) {
    if (std::same_as<Period, std::chrono::days::period> && output.type() == oids::date) {
      return detail::write_date(output, detail::days_of(time.time_since_epoch()), "sys_days");
    }
    detail::write_timestamp(output, oids::timestamptz,
                            detail::microseconds_of(time.time_since_epoch()), "a sys_time");
  }
};

template <std::integral Rep, class Period>
struct argument_traits<std::chrono::local_time<std::chrono::duration<Rep, Period>>> {
  using time_type = std::chrono::local_time<std::chrono::duration<Rep, Period>>;

  static void write(argument_writer& output, time_type time) {
    if (std::same_as<Period, std::chrono::days::period> && output.type() == oids::date) {
      return detail::write_date(output, detail::days_of(time.time_since_epoch()), "local_days");
    }
    detail::write_timestamp(output, oids::timestamp,
                            detail::microseconds_of(time.time_since_epoch()), "a local_time");
  }
};

template <>
struct argument_traits<std::chrono::year_month_day> {
  static void write(argument_writer& output, const std::chrono::year_month_day& date);
};
/// A time of day: 24:00:00 is the last one.
template <>
struct argument_traits<std::chrono::hh_mm_ss<std::chrono::microseconds>> {
  using time_type = std::chrono::hh_mm_ss<std::chrono::microseconds>;

  static void write(argument_writer& output, const time_type& time);
};
template <class Duration>
struct argument_traits<std::chrono::hh_mm_ss<Duration>> {
  static void write(argument_writer& output, const std::chrono::hh_mm_ss<Duration>& time) {
    const auto microseconds = std::chrono::floor<std::chrono::microseconds>(time.to_duration());
    argument_traits<std::chrono::hh_mm_ss<std::chrono::microseconds>>::write(
        output, std::chrono::hh_mm_ss<std::chrono::microseconds>(microseconds));
  }
};

template <>
struct argument_traits<std::nullopt_t> {
  static void write(argument_writer& output, std::nullopt_t) { output.write_null(); }
};
template <>
struct argument_traits<std::nullptr_t> {
  static void write(argument_writer& output, std::nullptr_t) { output.write_null(); }
};
template <argument T>
struct argument_traits<std::optional<T>> {
  static void write(argument_writer& output, const std::optional<T>& value) {
    if (value) return argument_traits<T>::write(output, *value);
    output.write_null();
  }
};

template <detail::range_argument T>
  requires(argument<std::ranges::range_value_t<const T&>> &&
           !detail::range_argument<std::ranges::range_value_t<const T&>>)
struct argument_traits<T> {
  using element = std::ranges::range_value_t<const T&>;

  static void write(argument_writer& output, const T& range) {
    const auto count = static_cast<std::size_t>(std::ranges::distance(range));
    output.write_array(count, [&range](argument_writer& elements) {
      for (const auto& value : range) argument_traits<element>::write(elements, value);
    });
  }
};

}  // namespace gyre::postgres
