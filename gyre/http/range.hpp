// SPDX-License-Identifier: Apache-2.0
// byte_ranges: the parts of a resource that a header Range requests (RFC 9110, 14).
//
//     const auto ranges = gyre::http::byte_ranges::parse("bytes=0-99,-50", size);
//     if (ranges.outcome() == range_outcome::not_satisfiable) co_return send_416(size);
//     if (ranges.outcome() == range_outcome::whole) co_return send_whole();
//     for (const gyre::http::byte_range& part : ranges) send(part.first, part.size);
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace gyre::http {

/// A non-empty range of bytes of a resource.
struct byte_range {
  std::uint64_t first = 0;
  std::uint64_t size = 0;  ///< not 0

  [[nodiscard]] std::uint64_t last() const noexcept { return first + size - 1; }
  friend bool operator==(const byte_range&, const byte_range&) = default;
};

/// How to respond to a request with a header Range.
enum class range_outcome : std::uint8_t {
  whole,            ///< 200: the header is missing, malformed, or has too many ranges
  partial,          ///< 206: one range or several
  not_satisfiable,  ///< 416: all ranges lie after the end
};

/// The ranges of a request, up to max_count, in the order of the request. No range overlaps or
/// touches another. A value that allocates nothing.
///
/// Thread-safety: as a value.
class byte_ranges {
 public:
  static constexpr std::size_t max_count = 16;

  /// Parses a header Range for a resource of `size` bytes. Ranges that overlap or touch are joined;
  /// ranges after the end are dropped. More than max_count ranges before joining, a unit other than
  /// bytes, and a malformed header result in range_outcome::whole, as the standard requires. Use it
  /// only for GET requests, and only if the header If-Range holds (if_range_holds()).
  [[nodiscard]] static byte_ranges parse(std::string_view header, std::uint64_t size) noexcept;

  [[nodiscard]] range_outcome outcome() const noexcept { return outcome_; }
  /// The number of ranges; 0 unless the outcome is range_outcome::partial.
  [[nodiscard]] std::size_t size() const noexcept { return count_; }
  [[nodiscard]] const byte_range* begin() const noexcept { return ranges_.data(); }
  [[nodiscard]] const byte_range* end() const noexcept { return ranges_.data() + count_; }

 private:
  void add(byte_range range) noexcept;

  std::array<byte_range, max_count> ranges_ = {};
  std::size_t count_ = 0;
  range_outcome outcome_ = range_outcome::whole;
};

/// Returns the value of a header Content-Range, such as "bytes 0-99/1234".
[[nodiscard]] std::string content_range(byte_range part, std::uint64_t size);
/// Returns the value of Content-Range for a response with status 416, such as "bytes */1234".
[[nodiscard]] std::string unsatisfied_content_range(std::uint64_t size);

}  // namespace gyre::http
