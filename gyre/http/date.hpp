// SPDX-License-Identifier: Apache-2.0
// Dates of HTTP headers (RFC 9110, 5.6.7): format_date() writes one form, parse_date() reads three.
//
//     std::array<char, gyre::http::date_size> memory;
//     std::string_view date = gyre::http::format_date(modified, memory);
//     if (gyre::http::parse_date(since) >= modified) co_return not_modified();
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace gyre::http {

/// The number of characters of a date, "Sun, 06 Nov 1994 08:49:37 GMT".
inline constexpr std::size_t date_size = 29;

/// Writes the time into `memory`, as in "Sun, 06 Nov 1994 08:49:37 GMT". Times before the year 0 or
/// after 9999 become the first or last representable time. Allocates nothing and uses no locale.
std::string_view format_date(std::chrono::sys_seconds time,
                             std::span<char, date_size> memory) noexcept;
[[nodiscard]] std::string format_date(std::chrono::sys_seconds time);

/// Reads "Sun, 06 Nov 1994 08:49:37 GMT" and the obsolete forms "Sunday, 06-Nov-94 08:49:37 GMT"
/// and "Sun Nov  6 08:49:37 1994". Returns nothing for other texts, impossible dates and wrong days
/// of the week. A year of two digits is the latest matching year that is at most 50 years after
/// `reference_time`.
[[nodiscard]] std::optional<std::chrono::sys_seconds> parse_date(
    std::string_view text, std::chrono::sys_seconds reference_time);
/// Reads a date like the other parse_date(), with the system's time as `reference_time`. The clock
/// is read only for years of two digits.
[[nodiscard]] std::optional<std::chrono::sys_seconds> parse_date(std::string_view text);

}  // namespace gyre::http
