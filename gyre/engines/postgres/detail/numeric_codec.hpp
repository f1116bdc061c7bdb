// SPDX-License-Identifier: Apache-2.0
// Conversions between decimal texts and the binary format of PostgreSQL's type numeric.
#pragma once

#include <gyre/io/buffer.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace gyre::postgres::detail {

/// Whether a text is digits with an optional sign and decimal point, NaN, Infinity or -Infinity.
bool is_numeric(std::string_view text) noexcept;

/// Appends the binary format of an is_numeric() text. Returns false, and appends nothing, if it has
/// more digits than the type can hold.
bool append_numeric(io::buffer& output, std::string_view text);

/// Returns the text of a value in binary format, with as many digits after the point as the server
/// would write, at most 150,000 characters; std::nullopt if the bytes are not a numeric.
std::optional<std::string> read_numeric(std::span<const std::byte> bytes);

/// A whole number, as its sign and magnitude.
struct whole_number {
  bool is_negative = false;
  std::uint64_t magnitude = 0;
};

/// Converts an is_numeric() text to a whole number; std::nullopt if it has a fraction that is not
/// zero, or more than 64 bits.
std::optional<whole_number> to_whole_number(std::string_view text) noexcept;
/// Returns the double nearest to an is_numeric() text.
double to_double(std::string_view text) noexcept;

}  // namespace gyre::postgres::detail
