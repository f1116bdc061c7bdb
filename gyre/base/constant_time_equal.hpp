// SPDX-License-Identifier: Apache-2.0
// constant_time_equal: compares a secret with a text in a time that does not depend on where they
// differ.
//
//     if (!gyre::constant_time_equal(secret, text)) return refuse();
#pragma once

#include <cstddef>
#include <string_view>

namespace gyre {

/// Whether the texts are equal. The time depends on the size of `text`, and on whether the sizes
/// are equal, but not on the characters, so a peer cannot find out a password, a token or a
/// signature character by character.
///
/// Thread-safety: any thread.
/// Complexity: linear; some nanoseconds for a token.
[[nodiscard]] inline bool constant_time_equal(std::string_view secret,
                                              std::string_view text) noexcept {
  const bool has_same_size = secret.size() == text.size();
  const std::string_view other = has_same_size ? secret : text;
  unsigned difference = has_same_size ? 0 : 1;
  for (std::size_t i = 0; i != text.size(); ++i) {
    difference |= static_cast<unsigned char>(other[i]) ^ static_cast<unsigned char>(text[i]);
    // The compiler must not know the value, or it could end the loop early.
    asm volatile("" : "+r"(difference));
  }
  return difference == 0;
}

}  // namespace gyre
