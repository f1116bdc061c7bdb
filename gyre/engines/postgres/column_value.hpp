// SPDX-License-Identifier: Apache-2.0
// column_value: a value of a row, in the memory in which it came.
#pragma once

#include <gyre/engines/postgres/oid.hpp>

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace gyre::postgres {

/// A value of a result's column. It is in the binary format of its type, if that is a built-in one
/// that column_traits know, and else in text format.
///
/// Lifetime: within column_traits::read(); the bytes are gone afterwards.
/// Errors: the functions throw std::system_error, which name the column.
class column_value {
 public:
  /// The column that a value belongs to.
  struct description {
    std::size_t number;  ///< the number of the column, counted from 1
    std::string_view name;
    oid type;
    bool is_binary;
  };

  column_value(const description& column, bool is_null, std::span<const std::byte> bytes) noexcept
      : column_(column), is_null_(is_null), bytes_(bytes) {}

  [[nodiscard]] oid type() const noexcept { return column_.type; }
  [[nodiscard]] std::string_view column_name() const noexcept { return column_.name; }
  [[nodiscard]] bool is_null() const noexcept { return is_null_; }
  [[nodiscard]] bool is_binary() const noexcept { return column_.is_binary; }
  /// Whether the value is of a type, and in its binary format.
  [[nodiscard]] bool is_binary(oid type) const noexcept {
    return column_.is_binary && column_.type == type;
  }
  /// Returns the bytes, or throws errc::null_value.
  [[nodiscard]] std::span<const std::byte> bytes() const {
    if (is_null_) [[unlikely]]
      throw_null();
    return bytes_;
  }
  [[nodiscard]] std::string_view text() const {
    const std::span<const std::byte> chars = bytes();
    return {reinterpret_cast<const char*>(chars.data()), chars.size()};
  }
  /// The bytes, of which there must be `size`. Throws errc::null_value, malformed_value.
  [[nodiscard]] const std::byte* bytes(std::size_t size) const {
    if (bytes().size() != size) [[unlikely]]
      throw_malformed();
    return bytes_.data();
  }
  /// An element of an array, with the column's name.
  [[nodiscard]] column_value element(oid type, bool is_null,
                                     std::span<const std::byte> bytes) const noexcept {
    return {{column_.number, column_.name, type, column_.is_binary}, is_null, bytes};
  }

  /// The column's type cannot be read as `name`, such as "a bool"; throws errc::null_value instead
  /// if it is NULL.
  [[noreturn, gnu::cold]] void throw_unsupported(std::string_view name) const;
  /// The value does not fit into the type of C++; throws errc::out_of_range.
  [[noreturn, gnu::cold]] void throw_out_of_range(std::string_view value) const;
  /// The bytes are no value of the column's type; throws errc::malformed_value.
  [[noreturn, gnu::cold]] void throw_malformed() const;

 private:
  [[noreturn, gnu::cold]] void throw_null() const;
  std::string describe() const;

  description column_;
  bool is_null_;
  std::span<const std::byte> bytes_;
};

}  // namespace gyre::postgres
