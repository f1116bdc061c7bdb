// SPDX-License-Identifier: Apache-2.0
// parse_parameter: a parameter of a request as a value. query_reader: those of a query by name.
#pragma once

#include <gyre/http/parameter_error.hpp>
#include <gyre/http/parameter_traits.hpp>

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gyre::http::detail {

/// Throws parameter_error unless `text` is a T.
template <readable_parameter T>
T parse_parameter(std::string_view name, std::string_view text) {
  std::optional<T> value = parameter_traits<T>::parse(text);
  if (!value) throw parameter_error(name, parameter_traits<T>::describe());
  return *std::move(value);
}

/// Returns the decoded values of the parameters called `name`. Throws http_error if the query is
/// malformed.
std::vector<std::string> query_values(std::string_view query, std::string_view name);
/// Returns the decoded value; throws, besides, parameter_error if the name occurs more than once.
std::optional<std::string> query_value(std::string_view query, std::string_view name);

/// Reads the parameters of one name as a T.
template <class T>
struct query_reader {
  static constexpr bool is_possible = readable_parameter<T>;
  static T read(std::string_view query, std::string_view name) {
    const auto text = query_value(query, name);
    if (!text)
      throw parameter_error(name, "given: " + std::string(parameter_traits<T>::describe()));
    return parse_parameter<T>(name, *text);
  }
};

template <class T>
struct query_reader<std::optional<T>> {
  static constexpr bool is_possible = readable_parameter<T>;
  static std::optional<T> read(std::string_view query, std::string_view name) {
    const auto text = query_value(query, name);
    if (!text) return std::nullopt;
    return parse_parameter<T>(name, *text);
  }
};

template <class T>
struct query_reader<std::vector<T>> {
  static constexpr bool is_possible = readable_parameter<T>;
  static std::vector<T> read(std::string_view query, std::string_view name) {
    std::vector<T> values;
    for (const std::string& text : query_values(query, name)) {
      values.push_back(parse_parameter<T>(name, text));
    }
    return values;
  }
};

}  // namespace gyre::http::detail
