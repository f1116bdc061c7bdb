// SPDX-License-Identifier: Apache-2.0
// numeric: an exact decimal number of any length, as a text.
//
//     auto price = co_await db.query_one<gyre::postgres::numeric>("select price from item");
//     std::cout << price.text() << '\n';  // such as "19.90"
#pragma once

#include <concepts>
#include <string>
#include <string_view>
#include <utility>

namespace gyre::postgres {

/// A value of PostgreSQL's type numeric: digits with an optional sign and decimal point, "NaN",
/// "Infinity" or "-Infinity". A value without arithmetic; compared as a text, so that "1.0" and
/// "1.00" differ.
class numeric {
 public:
  numeric() : text_("0") {}
  /// Throws std::invalid_argument for texts of another form, exponents included.
  explicit numeric(std::string text);
  template <std::integral T>
    requires(!std::same_as<T, bool> && !std::same_as<T, char>)
  explicit numeric(T number) : text_(std::to_string(number)) {}

  [[nodiscard]] const std::string& text() const noexcept { return text_; }
  /// Returns the nearest double.
  [[nodiscard]] double to_double() const noexcept;

  friend bool operator==(const numeric&, const numeric&) noexcept = default;

 private:
  std::string text_;
};

}  // namespace gyre::postgres
