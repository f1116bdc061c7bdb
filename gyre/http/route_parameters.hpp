// SPDX-License-Identifier: Apache-2.0
// route_parameters: the values of the {name} segments of a pattern in a path.
//
//     std::optional<std::string> user = match.parameters.get("id");  // decoded
#pragma once

#include <gyre/http/percent_encoding.hpp>

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace gyre::http {

/// A small array of names and values, in the order of the pattern. Allocates nothing.
///
/// Thread-safety: as a value.
/// Lifetime: the router, and the path that was looked up, must outlive it.
class route_parameters {
 public:
  static constexpr std::size_t max_count = 12;

  /// A parameter of a path, with its value as the client sent it.
  struct parameter {
    std::string_view name;
    std::string_view raw;  ///< a part of the path, still encoded
  };

  [[nodiscard]] std::size_t size() const noexcept { return count_; }
  [[nodiscard]] bool empty() const noexcept { return count_ == 0; }
  [[nodiscard]] const parameter* begin() const noexcept { return parameters_.data(); }
  [[nodiscard]] const parameter* end() const noexcept { return parameters_.data() + count_; }

  /// The encoded value; empty if there is no parameter with this name.
  [[nodiscard]] std::string_view raw(std::string_view name) const noexcept {
    for (const parameter& own_parameter : *this) {
      if (own_parameter.name == name) return own_parameter.raw;
    }
    return {};
  }
  /// The decoded value; nothing if there is no parameter with this name. May contain '/' and zero
  /// bytes that are encoded in the path.
  [[nodiscard]] std::optional<std::string> get(std::string_view name) const {
    for (const parameter& own_parameter : *this) {
      if (own_parameter.name == name) return percent_decode(own_parameter.raw);
    }
    return std::nullopt;
  }
  /// Decodes into `memory`, which must be as large as the raw value. Throws std::length_error.
  [[nodiscard]] std::optional<std::string_view> get(std::string_view name,
                                                    std::span<char> memory) const {
    for (const parameter& own_parameter : *this) {
      if (own_parameter.name == name) return percent_decode(own_parameter.raw, memory);
    }
    return std::nullopt;
  }

  // The caller must not add more than max_count parameters.
  /// Adds a parameter; called by the router.
  void push(parameter entry) noexcept { parameters_[count_++] = entry; }
  /// Removes the parameter that was added last; called by the router.
  void pop() noexcept { --count_; }
  void clear() noexcept { count_ = 0; }

 private:
  std::array<parameter, max_count> parameters_ = {};
  std::size_t count_ = 0;
};

}  // namespace gyre::http
