// SPDX-License-Identifier: Apache-2.0
// row_view, row_reader: a row of a result, read in the memory in which it came.
#pragma once

#include <gyre/base/endian.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace gyre::postgres::detail {

/// A column's value in a row.
struct field_view {
  bool is_null = true;
  std::span<const std::byte> bytes = {};

  std::string_view text() const noexcept {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
};

/// A row whose structure was checked: each of its values is all there.
///
/// Lifetime: valid within statement_request::on_row() only.
class row_view {
 public:
  /// Reads the body of a DataRow message; std::nullopt if it is not a row.
  static std::optional<row_view> parse(std::span<const std::byte> body) noexcept;

  /// Returns the number of columns.
  std::size_t size() const noexcept { return size_; }
  /// The bytes of all values and their lengths, for limits of results.
  std::size_t bytes() const noexcept { return values_.size(); }

 private:
  friend class row_reader;
  row_view(std::size_t size, std::span<const std::byte> values) noexcept
      : size_(size), values_(values) {}

  std::size_t size_;
  std::span<const std::byte> values_;
};

/// The values of a row in their order.
class row_reader {
 public:
  explicit row_reader(const row_view& row) noexcept : rest_(row.values_) {}

  /// Returns the next value. Callers call it at most row_view::size() times.
  field_view next() noexcept {
    const auto size = static_cast<std::int32_t>(load_be<std::uint32_t>(rest_.data()));
    rest_ = rest_.subspan(sizeof(size));
    if (size < 0) return {};
    const field_view value{false, rest_.first(static_cast<std::size_t>(size))};
    rest_ = rest_.subspan(value.bytes.size());
    return value;
  }

 private:
  std::span<const std::byte> rest_;
};

}  // namespace gyre::postgres::detail
