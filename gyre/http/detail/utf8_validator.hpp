// SPDX-License-Identifier: Apache-2.0
// utf8_validator: whether bytes that come in pieces are UTF-8 (RFC 3629).
//
//     utf8_validator validator;
//     if (!validator.feed(piece)) refuse();           // at the first wrong byte
//     if (!validator.is_complete()) refuse();         // a character is cut off
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace gyre::http::detail {

class utf8_validator {
 public:
  /// Returns false if a byte cannot stand at its position: after the bytes that were fed, no text
  /// begins with them. The validator must not be used afterwards.
  [[nodiscard]] bool feed(std::span<const std::byte> bytes) noexcept;
  /// Whether the bytes end with a whole character.
  [[nodiscard]] bool is_complete() const noexcept { return missing_bytes_ == 0; }
  void reset() noexcept { missing_bytes_ = 0; }

 private:
  bool begin_character(std::uint8_t lead) noexcept;

  std::uint8_t missing_bytes_ = 0;  // how many bytes the current character lacks
  std::uint8_t lowest_ = 0;         // the range of the character's next byte
  std::uint8_t highest_ = 0;
};

/// Whether the bytes are a text in UTF-8.
[[nodiscard]] inline bool is_utf8(std::span<const std::byte> bytes) noexcept {
  utf8_validator validator;
  return validator.feed(bytes) && validator.is_complete();
}

}  // namespace gyre::http::detail
