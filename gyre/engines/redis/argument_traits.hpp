// SPDX-License-Identifier: Apache-2.0
// argument_traits: which types can be arguments of a Redis command.
//
// | type | sent as |
// |---|---|
// | texts: std::string, std::string_view, literals | their bytes |
// | std::span<const std::byte> and the like | the bytes |
// | integers | decimal |
// | float, double | the shortest text that reads back as the same number |
// | std::pair, std::tuple | their members, one after the other |
// | ranges of these, maps included | their elements, one after the other |
// | std::optional | nothing, or its value |
#pragma once

#include <gyre/io/buffer.hpp>

#include <charconv>
#include <concepts>
#include <cstddef>
#include <optional>
#include <ranges>
#include <span>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

namespace gyre::redis {

/// The form in which a T is sent: the number of arguments, and each of them by write_argument().
/// Specialise it for types of your own:
///
///     template <>
///     struct gyre::redis::argument_traits<point> {
///       static std::size_t count(const point&) { return 2; }
///       static void write(gyre::io::buffer& output, const point& value) {
///         gyre::redis::write_argument(output, value.x);
///         gyre::redis::write_argument(output, value.y);
///       }
///     };
template <class T>
struct argument_traits;

/// A type that can be an argument of a command: argument_traits know how to write it.
template <class T>
concept command_argument = requires(io::buffer& output, const std::remove_cvref_t<T>& value) {
  { argument_traits<std::remove_cvref_t<T>>::count(value) } -> std::convertible_to<std::size_t>;
  argument_traits<std::remove_cvref_t<T>>::write(output, value);
};

/// Appends one argument. Throws std::bad_alloc.
void write_argument(io::buffer& output, std::string_view text);
template <command_argument T>
  requires(!std::convertible_to<const T&, std::string_view>)
void write_argument(io::buffer& output, const T& value) {
  argument_traits<T>::write(output, value);
}

namespace detail {

template <class T>
concept text_argument = std::convertible_to<const T&, std::string_view>;
template <class T>
concept bytes_argument =
    !text_argument<T> && std::convertible_to<const T&, std::span<const std::byte>>;
template <class T>
concept range_argument =
    !text_argument<T> && !bytes_argument<T> && std::ranges::forward_range<const T&> &&
    command_argument<std::ranges::range_value_t<const T&>>;

/// Appends the beginning of a command of `count` arguments, its name included.
void begin_command(io::buffer& output, std::size_t count);

}  // namespace detail

template <detail::text_argument T>
struct argument_traits<T> {
  static std::size_t count(const T&) { return 1; }
  static void write(io::buffer& output, const T& text) {
    write_argument(output, std::string_view(text));
  }
};

template <detail::bytes_argument T>
struct argument_traits<T> {
  static std::size_t count(const T&) { return 1; }
  static void write(io::buffer& output, const T& value) {
    const std::span<const std::byte> bytes(value);
    write_argument(output,
                   std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  }
};

// A bool has no text of its own in Redis, and a char could be a number.
template <class T>
  requires((std::integral<T> && !std::same_as<T, bool> && !std::same_as<T, char>) ||
           std::floating_point<T>)
struct argument_traits<T> {
  static std::size_t count(T) { return 1; }
  static void write(io::buffer& output, T number) {
    char text[64];
    const auto end = std::to_chars(std::begin(text), std::end(text), number).ptr;
    write_argument(output, std::string_view(text, end));
  }
};

template <class... Ts>
  requires(command_argument<Ts> && ...)
struct argument_traits<std::tuple<Ts...>> {
  static std::size_t count(const std::tuple<Ts...>& values) {
    return std::apply(
        [](const Ts&... items) {
          return (std::size_t{0} + ... + argument_traits<Ts>::count(items));
        },
        values);
  }
  static void write(io::buffer& output, const std::tuple<Ts...>& values) {
    std::apply([&](const Ts&... items) { (argument_traits<Ts>::write(output, items), ...); },
               values);
  }
};

template <class First, class Second>
  requires(command_argument<First> && command_argument<Second>)
struct argument_traits<std::pair<First, Second>> {
  using first_traits = argument_traits<std::remove_cvref_t<First>>;
  using second_traits = argument_traits<std::remove_cvref_t<Second>>;

  static std::size_t count(const std::pair<First, Second>& values) {
    return first_traits::count(values.first) + second_traits::count(values.second);
  }
  static void write(io::buffer& output, const std::pair<First, Second>& values) {
    first_traits::write(output, values.first);
    second_traits::write(output, values.second);
  }
};

template <command_argument T>
struct argument_traits<std::optional<T>> {
  static std::size_t count(const std::optional<T>& value) {
    return value ? argument_traits<T>::count(*value) : 0;
  }
  static void write(io::buffer& output, const std::optional<T>& value) {
    if (value) argument_traits<T>::write(output, *value);
  }
};

template <detail::range_argument T>
struct argument_traits<T> {
  using element_traits = argument_traits<std::ranges::range_value_t<const T&>>;

  static std::size_t count(const T& range) {
    std::size_t total = 0;
    for (const auto& element : range) total += element_traits::count(element);
    return total;
  }
  static void write(io::buffer& output, const T& range) {
    for (const auto& element : range) element_traits::write(output, element);
  }
};

/// Appends a command. Throws std::bad_alloc.
template <command_argument... Arguments>
void write_command(io::buffer& output, std::string_view name, const Arguments&... arguments) {
  detail::begin_command(output,
                        (std::size_t{1} + ... + argument_traits<Arguments>::count(arguments)));
  write_argument(output, name);
  (argument_traits<Arguments>::write(output, arguments), ...);
}

}  // namespace gyre::redis
