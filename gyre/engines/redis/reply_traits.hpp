// SPDX-License-Identifier: Apache-2.0
// reply_traits, read_reply: which types a Redis reply can be read as.
//
// | type | replies |
// |---|---|
// | void | any but an error |
// | std::string | text, status, big number |
// | integers | integer, text of a number |
// | float, double | real, integer, text of a number |
// | bool | boolean, integers 0 and 1, the status OK (true), null (false) |
// | std::optional<T> | null, and those of T |
// | vector, deque, list, set, unordered_set of T | array, set, push |
// | std::array<T, N>, std::pair, std::tuple | array, set, push of as many values |
// | map, unordered_map | map; array of keys and values in turns, or of pairs |
// | std::expected<T, server_error> | an error, and those of T |
// | reply (reply.hpp) | any |
// | redis::ignored | any, errors included |
#pragma once

#include <gyre/engines/redis/error.hpp>
#include <gyre/engines/redis/reply_cursor.hpp>
#include <gyre/engines/redis/reply_node.hpp>

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>

namespace gyre::redis {

/// The way in which a T is read: `static T read(reply_cursor& values)` takes one value, with all
/// that belong to it. Specialise it for types of your own; throw std::system_error for values that
/// are not a T.
template <class T>
struct reply_traits;

/// A reply that is of no interest, even if it is an error.
struct ignored {};

/// Reads the next value as a T. Throws server_error, if it is an error; std::system_error
/// (errc::null_reply, unexpected_type, out_of_range); std::bad_alloc.
template <class T>
T read_reply(reply_cursor& values) {
  return reply_traits<T>::read(values);
}

namespace detail {

/// Throws the error of a value that was read as a `type`: server_error if the value is an error,
/// errc::null_reply or errc::unexpected_type.
[[noreturn, gnu::cold]] void throw_unexpected(const reply_node& node, const char* type);
/// Throws the error of an array of `count` values that should have `expected_count`.
[[noreturn, gnu::cold]] void throw_wrong_count(std::size_t count, std::size_t expected_count);

std::int64_t to_integer(const reply_node& node, std::int64_t min, std::uint64_t max);
std::uint64_t to_unsigned(const reply_node& node, std::uint64_t max);
double to_real(const reply_node& node);
bool to_boolean(const reply_node& node);
std::string_view to_text(const reply_node& node);
/// Returns the number of values of an array, set or push.
std::size_t to_count(const reply_node& node);

template <class T>
concept sequence_of_replies = requires(T& target, typename T::value_type value) {
  target.insert(target.end(), std::move(value));
  requires !std::same_as<typename T::value_type, char>;
};
template <class T>
concept map_of_replies = sequence_of_replies<T> && requires { typename T::mapped_type; };

}  // namespace detail

template <>
struct reply_traits<void> {
  static void read(reply_cursor& values);
};

/// Reads a member of a tuple as void is read.
template <>
struct reply_traits<std::monostate> {
  static std::monostate read(reply_cursor& values) {
    read_reply<void>(values);
    return {};
  }
};

template <>
struct reply_traits<ignored> {
  static ignored read(reply_cursor& values) {
    values.skip();
    return {};
  }
};

template <>
struct reply_traits<std::string> {
  static std::string read(reply_cursor& values) {
    return std::string(detail::to_text(values.next()));
  }
};

template <>
struct reply_traits<bool> {
  static bool read(reply_cursor& values) { return detail::to_boolean(values.next()); }
};

template <std::integral T>
  requires(!std::same_as<T, char>)
struct reply_traits<T> {
  static T read(reply_cursor& values) {
    using limits = std::numeric_limits<T>;
    if constexpr (std::signed_integral<T>) {
      return static_cast<T>(detail::to_integer(values.next(), limits::min(), limits::max()));
    } else {
      return static_cast<T>(detail::to_unsigned(values.next(), limits::max()));
    }
  }
};

template <std::floating_point T>
struct reply_traits<T> {
  static T read(reply_cursor& values) { return static_cast<T>(detail::to_real(values.next())); }
};

template <class T>
struct reply_traits<std::optional<T>> {
  static std::optional<T> read(reply_cursor& values) {
    if (values.peek().kind != reply_kind::null) return read_reply<T>(values);
    values.skip();
    return std::nullopt;
  }
};

template <class T>
struct reply_traits<std::expected<T, server_error>> {
  static std::expected<T, server_error> read(reply_cursor& values) {
    if (const reply_node node = values.peek(); node.kind == reply_kind::error) {
      values.skip();
      return std::unexpected(server_error(std::string(node.text)));
    }
    if constexpr (std::is_void_v<T>) {
      read_reply<void>(values);
      return {};
    } else {
      return read_reply<T>(values);
    }
  }
};

template <detail::sequence_of_replies T>
  requires(!detail::map_of_replies<T>)
struct reply_traits<T> {
  static T read(reply_cursor& values) {
    std::size_t elements_left = detail::to_count(values.next());
    T sequence;
    if constexpr (requires { sequence.reserve(elements_left); }) sequence.reserve(elements_left);
    for (; elements_left > 0; --elements_left) {
      sequence.insert(sequence.end(), read_reply<typename T::value_type>(values));
    }
    return sequence;
  }
};

template <detail::map_of_replies T>
struct reply_traits<T> {
  using key = typename T::key_type;
  using mapped = typename T::mapped_type;

  static T read(reply_cursor& values) {
    const reply_node node = values.next();
    T map;
    std::size_t elements_left = node.kind == reply_kind::map ? node.count : detail::to_count(node);
    const bool has_pairs = node.kind != reply_kind::map && elements_left > 0 &&
                           values.peek().kind == reply_kind::array && values.peek().count == 2;
    if (node.kind != reply_kind::map && !has_pairs) {
      if (elements_left % 2 != 0) detail::throw_wrong_count(elements_left, elements_left + 1);
      elements_left /= 2;
    }
    if constexpr (requires { map.reserve(elements_left); }) map.reserve(elements_left);
    for (; elements_left > 0; --elements_left) {
      if (has_pairs) {
        auto pair = read_reply<std::pair<key, mapped>>(values);
        map.insert_or_assign(std::move(pair.first), std::move(pair.second));
        continue;
      }
      key first = read_reply<key>(values);
      map.insert_or_assign(std::move(first), read_reply<mapped>(values));
    }
    return map;
  }
};

template <class... Ts>
struct reply_traits<std::tuple<Ts...>> {
  static std::tuple<Ts...> read(reply_cursor& values) {
    const std::size_t count = detail::to_count(values.next());
    if (count != sizeof...(Ts)) detail::throw_wrong_count(count, sizeof...(Ts));
    return std::tuple<Ts...>{read_reply<Ts>(values)...};
  }
};

template <class First, class Second>
struct reply_traits<std::pair<First, Second>> {
  static std::pair<First, Second> read(reply_cursor& values) {
    auto [first, second] = read_reply<std::tuple<First, Second>>(values);
    return {std::move(first), std::move(second)};
  }
};

template <class T, std::size_t N>
struct reply_traits<std::array<T, N>> {
  static std::array<T, N> read(reply_cursor& values) {
    const std::size_t count = detail::to_count(values.next());
    if (count != N) detail::throw_wrong_count(count, N);
    std::array<T, N> array;
    for (T& element : array) element = read_reply<T>(values);
    return array;
  }
};

}  // namespace gyre::redis
