// SPDX-License-Identifier: Apache-2.0
// head_scanner: finds the end of a head of HTTP/1, or of a trailer section, and enforces limits.
//
//     head_scanner scanner;
//     auto size = scanner.find_end(input.text(), limits);  // 0: the rest is still to come
#pragma once

#include <gyre/http/error.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <string_view>

namespace gyre::http::detail {

inline constexpr errc no_error{};

/// Limits of a head or of a trailer section.
struct head_limits {
  std::size_t start_line = 8 * 1024;  ///< bytes of the start line, line end included
  std::size_t fields = 32 * 1024;     ///< bytes of all field lines, line ends included
  std::size_t field_count = 100;      ///< number of field lines

  /// Returns the limits, at most 1 GiB each, because offsets have 32 bits. Sums of them fit, too.
  [[nodiscard]] constexpr head_limits bounded() const noexcept {
    constexpr std::size_t max = std::size_t{1} << 30U;
    return {.start_line = std::min(start_line, max),
            .fields = std::min(fields, max),
            .field_count = std::min(field_count, max)};
  }
};

/// Finds the end of a head in input that grows between calls, and scans each byte once.
class head_scanner {
 public:
  /// Returns the size of the head with its empty line, or 0 while that line has not come. `bytes`:
  /// the head from its beginning, in each call the same bytes and more. One empty line before the
  /// start line (RFC 9112 2.2) is part of the head. `trailers`: whether there is no start line.
  /// After a size or an error was returned, the next call begins another head.
  ///
  /// Errors: errc::bare_line_end; bad_start_line or bad_field for NUL; bad_start_line for a second
  /// empty line; target_too_long and fields_too_large. Each error is returned as soon as its cause
  /// has come.
  [[nodiscard]] std::expected<std::size_t, errc> find_end(std::string_view bytes,
                                                          const head_limits& limits,
                                                          bool trailers = false) noexcept;
  void reset() noexcept { *this = {}; }

 private:
  std::uint32_t line_ = 0;  // the offset of the current, incomplete line
  // The part of the current line that has no line end ends at this offset.
  std::uint32_t scanned_size_ = 0;
  // The offset of the first field line; 0 in the start line and in trailers.
  std::uint32_t fields_ = 0;
  std::uint32_t lines_ = 0;  // the number of complete field lines
};

}  // namespace gyre::http::detail
