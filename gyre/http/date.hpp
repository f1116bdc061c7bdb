// SPDX-License-Identifier: Apache-2.0
// Dates of HTTP headers (RFC 9110, 5.6.7): written in one form, and read in three.
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

inline constexpr std::size_t date_size = 29;

/// "Sun, 06 Nov 1994 08:49:37 GMT" in `memory`. Times before the year 0 and after 9999 become the
/// first and the last that have this form. Allocates nothing, and uses no locale.
std::string_view format_date(std::chrono::sys_seconds time,
                             std::span<char, date_size> memory) noexcept;
[[nodiscard]] std::string format_date(std::chrono::sys_seconds time);

/// Reads "Sun, 06 Nov 1994 08:49:37 GMT" and the obsolete forms "Sunday, 06-Nov-94 08:49:37 GMT"
/// and "Sun Nov  6 08:49:37 1994"; nothing for other texts, impossible dates and wrong days of the
/// week.
/// A year of two digits is the latest one that is at most 50 years after `reference_time`.
[[nodiscard]] std::optional<std::chrono::sys_seconds> parse_date(
    std::string_view text, std::chrono::sys_seconds reference_time);
/// As the other parse_date(), whose `reference_time` is the system's time, read only for years of
/// two digits.
[[nodiscard]] std::optional<std::chrono::sys_seconds> parse_date(std::string_view text);

}  // namespace gyre::http
