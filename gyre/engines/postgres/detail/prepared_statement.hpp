// SPDX-License-Identifier: Apache-2.0
// prepared_statement: a statement that a connection keeps prepared, and the types that it has.
#pragma once

#include <gyre/io/buffer.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace gyre::postgres::detail {

/// A column of a result.
struct column_description {
  std::string name = {};
  std::uint32_t type = 0;           ///< pg_type.oid
  std::int32_t type_modifier = -1;  ///< such as the length of varchar(n), plus 4; -1: none
  bool is_binary = false;           ///< the format in which its values come
};

/// Encodes the formats of columns as a Bind message has them: their number, then a code for each.
inline std::vector<std::byte> encode_formats(std::span<const column_description> columns) {
  io::buffer codes;
  codes.append(static_cast<std::uint16_t>(columns.size()));
  for (const column_description& column : columns) {
    codes.append(static_cast<std::uint16_t>(column.is_binary ? 1 : 0));
  }
  return {codes.bytes().begin(), codes.bytes().end()};
}

/// A prepared statement; immutable. It is valid on the connection that has made it, until the
/// connection drops it or ends: see connection_core::find_prepared().
class prepared_statement {
 public:
  prepared_statement(std::string name, std::string text, std::vector<std::uint32_t> parameters,
                     std::vector<column_description> columns)
      : name_(std::move(name)),
        text_(std::move(text)),
        parameters_(std::move(parameters)),
        columns_(std::move(columns)),
        result_formats_(encode_formats(columns_)) {}

  /// Returns the name by which the server knows the statement.
  const std::string& name() const noexcept { return name_; }
  const std::string& text() const noexcept { return text_; }
  /// The types of the parameters, which the server has inferred.
  std::span<const std::uint32_t> parameters() const noexcept { return parameters_; }
  /// Returns the columns of the rows; none if there are no rows.
  std::span<const column_description> columns() const noexcept { return columns_; }
  /// Returns the formats of the columns, from encode_formats().
  std::span<const std::byte> result_formats() const noexcept { return result_formats_; }

 private:
  const std::string name_;
  const std::string text_;
  const std::vector<std::uint32_t> parameters_;
  const std::vector<column_description> columns_;
  const std::vector<std::byte> result_formats_;
};

}  // namespace gyre::postgres::detail
