// SPDX-License-Identifier: Apache-2.0
// column_traits: which types a column of a result of PostgreSQL can be read as.
//
// | type | columns |
// |---|---|
// | bool | bool |
// | integers | int2, int4, int8, oid, and numeric without a fraction, if the number fits |
// | double, float | float8, float4, numeric (rounded), integers, if they are exact |
// | std::string | texts, enumerations, json, xml, bytea, and any type that is not built in |
// | std::vector<std::byte> | bytea |
// | numeric, json, uuid, interval, net::ip_address | numeric; json, jsonb; uuid; interval; inet |
// | std::chrono::sys_time | timestamptz; sys_days: date, too |
// | std::chrono::local_time | timestamp; local_days: date, too |
// | std::chrono::year_month_day | date |
// | std::chrono::hh_mm_ss | time |
// | std::chrono::duration | interval without months and days |
// | std::optional<T> | NULL, and those of T |
// | std::vector<T> | arrays of one dimension; of types that are not built in: of texts |
//
// A conversion that would lose digits fails with errc::out_of_range. The infinities of PostgreSQL
// are max() and min() of a time. For other types cast in the statement, such as "select
// place::text".
#pragma once

#include <gyre/base/endian.hpp>
#include <gyre/engines/postgres/argument_traits.hpp>
#include <gyre/engines/postgres/column_value.hpp>
#include <gyre/engines/postgres/detail/microseconds.hpp>
#include <gyre/engines/postgres/detail/text_array.hpp>
#include <gyre/engines/postgres/interval.hpp>
#include <gyre/engines/postgres/json.hpp>
#include <gyre/engines/postgres/numeric.hpp>
#include <gyre/engines/postgres/uuid.hpp>
#include <gyre/net/address.hpp>

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace gyre::postgres {

/// The way in which a T is read: `static T read(const column_value& value)`. Specialise it for
/// types of your own:
///
///     template <>
///     struct gyre::postgres::column_traits<colour> {
///       static colour read(const column_value& value) { return colour_named(value.text()); }
///     };
template <class T>
struct column_traits;

/// A type that a column can be read as: column_traits know how to read it.
template <class T>
concept column = std::same_as<T, std::remove_cvref_t<T>> && requires(const column_value& value) {
  { column_traits<T>::read(value) } -> std::same_as<T>;
};

namespace detail {

/// Whether columns of a type are asked for in binary format.
bool is_read_as_binary(oid type) noexcept;

std::int64_t read_integer(const column_value& value, std::int64_t min, std::int64_t max);
std::uint64_t read_unsigned(const column_value& value, std::uint64_t max);
/// Microseconds since 1970 of a timestamptz or timestamp, or an infinity.
count_since_epoch read_timestamp(const column_value& value, oid type, const char* name);
/// Days since 1970 of a date; max() and min() are the infinities.
std::chrono::days read_days(const column_value& value, const char* name);
std::chrono::microseconds read_time_of_day(const column_value& value);

/// The elements of an array of one dimension.
class array_reader {
 public:
  explicit array_reader(const column_value& value);

  std::size_t size() const noexcept { return size_; }
  /// Returns the next element. Callers call it size() times at most.
  column_value next();

 private:
  column_value next_text() noexcept;

  const column_value& array_;
  std::span<const std::byte> rest_;
  oid element_type_ = 0;
  std::size_t size_ = 0;
  text_array texts_;  // the elements of an array in text format
  std::size_t next_text_ = 0;
};

template <class Duration>
Duration read_time(const column_value& value, const count_since_epoch& time) {
  using kind = count_since_epoch::kind;
  if (time.which == kind::infinite) return Duration::max();
  if (time.which == kind::negative_infinite) return Duration::min();
  std::optional<Duration> result;
  if (time.which == kind::finite) {
    result = from_microseconds<Duration>(std::chrono::microseconds(time.count));
  }
  // max() and min() stand for the infinities, so a finite time must not have their value.
  if (!result || *result == Duration::max() || *result == Duration::min()) {
    value.throw_out_of_range("a time that the C++ type cannot represent exactly");
  }
  return *result;
}

}  // namespace detail

template <>
struct column_traits<bool> {
  static bool read(const column_value& value);
};

template <detail::integer_value T>
struct column_traits<T> {
  static T read(const column_value& value) {
    using limits = std::numeric_limits<T>;
    if constexpr (std::is_signed_v<T>) {
      return static_cast<T>(detail::read_integer(value, limits::min(), limits::max()));
    } else {
      return static_cast<T>(detail::read_unsigned(value, limits::max()));
    }
  }
};

template <>
struct column_traits<double> {
  static double read(const column_value& value);
};
template <>
struct column_traits<float> {
  static float read(const column_value& value);
};

template <>
struct column_traits<std::string> {
  static std::string read(const column_value& value);
};
template <>
struct column_traits<std::vector<std::byte>> {
  static std::vector<std::byte> read(const column_value& value);
};

template <>
struct column_traits<numeric> {
  static numeric read(const column_value& value);
};
template <>
struct column_traits<json> {
  static json read(const column_value& value);
};
template <>
struct column_traits<uuid> {
  static uuid read(const column_value& value);
};
template <>
struct column_traits<interval> {
  static interval read(const column_value& value);
};
template <>
struct column_traits<net::ip_address> {
  static net::ip_address read(const column_value& value);
};

template <std::integral Rep, class Period>
struct column_traits<std::chrono::duration<Rep, Period>> {
  using length = std::chrono::duration<Rep, Period>;

  static length read(const column_value& value) {
    const interval whole = column_traits<interval>::read(value);
    std::optional<length> result;
    if (whole.months == 0 && whole.days == 0) {
      result = detail::from_microseconds<length>(whole.time);
    }
    if (!result) {
      value.throw_out_of_range("an interval that the C++ type cannot represent exactly");
    }
    return *result;
  }
};

template <std::integral Rep, class Period>
struct column_traits<std::chrono::sys_time<std::chrono::duration<Rep, Period>>> {
  using length = std::chrono::duration<Rep, Period>;

  static std::chrono::sys_time<length> read(const column_value& value) {
    if constexpr (std::same_as<length, std::chrono::days>) {
      if (value.type() == oids::date) {
        return std::chrono::sys_days(detail::read_days(value, "sys_days"));
      }
    }
    return std::chrono::sys_time<length>(detail::read_time<length>(
        value, detail::read_timestamp(value, oids::timestamptz, "a sys_time")));
  }
};

template <std::integral Rep, class Period>
struct column_traits<std::chrono::local_time<std::chrono::duration<Rep, Period>>> {
  using length = std::chrono::duration<Rep, Period>;

  static std::chrono::local_time<length> read(const column_value& value) {
    if constexpr (std::same_as<length, std::chrono::days>) {
      if (value.type() == oids::date) {
        return std::chrono::local_days(detail::read_days(value, "local_days"));
      }
    }
    return std::chrono::local_time<length>(detail::read_time<length>(
        value, detail::read_timestamp(value, oids::timestamp, "a local_time")));
  }
};

template <>
struct column_traits<std::chrono::year_month_day> {
  static std::chrono::year_month_day read(const column_value& value);
};
template <class Duration>
struct column_traits<std::chrono::hh_mm_ss<Duration>> {
  static std::chrono::hh_mm_ss<Duration> read(const column_value& value) {
    const auto time = detail::from_microseconds<Duration>(detail::read_time_of_day(value));
    if (!time) value.throw_out_of_range("a time that the C++ type cannot represent exactly");
    return std::chrono::hh_mm_ss<Duration>(*time);
  }
};

template <column T>
struct column_traits<std::optional<T>> {
  static std::optional<T> read(const column_value& value) {
    if (value.is_null()) return std::nullopt;
    return column_traits<T>::read(value);
  }
};

template <column T>
  requires(!std::same_as<T, std::byte>)
struct column_traits<std::vector<T>> {
  static std::vector<T> read(const column_value& value) {
    detail::array_reader elements(value);
    std::vector<T> array;
    array.reserve(elements.size());
    for (std::size_t elements_left = elements.size(); elements_left > 0; --elements_left) {
      array.push_back(column_traits<T>::read(elements.next()));
    }
    return array;
  }
};

}  // namespace gyre::postgres
