// SPDX-License-Identifier: Apache-2.0
// reply_scanner: finds the end of a Redis reply, without I/O.
#pragma once

#include <gyre/engines/redis/error.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <optional>
#include <string_view>

namespace gyre::redis::detail {

/// Finds the end of a reply, in bytes that come in parts.
///
///     reply_scanner scanner(max_reply);
///     auto length = scanner.scan(input);  // from the reply's first byte on, each time
///
/// Complexity: passes over each value once, and over the header of the last one each time.
class reply_scanner {
 public:
  static constexpr std::size_t max_depth = 64;

  explicit reply_scanner(std::size_t max_size) noexcept : max_size_(max_size) {}

  /// The length of the reply at the front of `bytes`; none: more bytes are needed. After a length
  /// the next reply begins. Errors: bad_reply, also for more than max_depth levels;
  /// reply_too_large.
  std::expected<std::optional<std::size_t>, errc> scan(std::string_view bytes) noexcept;

 private:
  struct level {
    std::uint64_t missing_values = 0;  // elements that have yet to come
    bool is_attribute = false;
  };

  bool note_value() noexcept;

  std::size_t max_size_;
  std::size_t scanned_bytes_ = 0;
  std::size_t depth_ = 0;
  std::array<level, max_depth> levels_;
};

}  // namespace gyre::redis::detail
