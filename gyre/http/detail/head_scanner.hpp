// SPDX-License-Identifier: Apache-2.0
// head_scanner: finds the end of a head of HTTP/1, or of a trailer section, and keeps its limits.
//
//     head_scanner scanner;
//     auto size = scanner.find_end(input.text(), limits);  // 0: the rest is still to come
#pragma once

#include <gyre/http/error.hpp>

#include <cstddef>
#include <cstdint>
#include <expected>
#include <string_view>

namespace gyre::http::detail {

inline constexpr errc no_error{};

/// Limits of a head or of a trailer section.
struct head_limits {
  std::size_t start_line = 8 * 1024;  ///< bytes, line end included
  std::size_t fields = 32 * 1024;     ///< bytes of all field lines, line ends included
  std::size_t field_count = 100;
};

/// Finds the end of a head in input that grows from call to call: a byte is looked at once.
class head_scanner {
 public:
  /// The size of the head with its empty line, or 0 while that has not come. `bytes` begins with
  /// the head, in each call with the same bytes and more. An empty line before the start line (one
  /// at most, RFC 9112 2.2) is part of the head. With `trailers`, no start line is expected. Begins
  /// with another head after it returned a size or an error.
  ///
  /// Errors: as soon as the byte is seen, errc::bare_line_end; bad_start_line and bad_field for
  /// NUL; bad_start_line for a second empty line; target_too_long and fields_too_large.
  [[nodiscard]] std::expected<std::size_t, errc> find_end(std::string_view bytes,
                                                          const head_limits& limits,
                                                          bool trailers = false) noexcept;
  void reset() noexcept { *this = {}; }

 private:
  std::uint32_t line_ = 0;     // offset of the line that is not complete
  std::uint32_t scanned_ = 0;  // offset up to which there is no line end
  std::uint32_t fields_ = 0;   // offset of the first field line; 0 before it, and in trailers
  std::uint32_t lines_ = 0;    // complete field lines
};

}  // namespace gyre::http::detail
