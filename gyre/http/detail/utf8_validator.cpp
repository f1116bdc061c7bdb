// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/detail/utf8_validator.hpp>

#include <gyre/base/endian.hpp>

#include <cstring>

namespace gyre::http::detail {
namespace {

constexpr std::uint64_t high_bits = 0x8080808080808080;

std::uint64_t load_word(const std::uint8_t* position) noexcept {
  std::uint64_t word;
  std::memcpy(&word, position, sizeof(word));
  return word;
}

// Returns the first position from which 32 bytes are not all ASCII, or fewer remain.
const std::uint8_t* skip_ascii_blocks(const std::uint8_t* position,
                                      const std::uint8_t* end) noexcept {
  while (end - position >= 32) {
    const std::uint64_t all = load_word(position) | load_word(position + 8) |
                              load_word(position + 16) | load_word(position + 24);
    if ((all & high_bits) != 0) break;
    position += 32;
  }
  return position;
}

// Returns the size of the character at `position`, of which four bytes can be read, and whose first
// byte is not ASCII; 0 if there is no valid one. One load and masks test the marks of all bytes at
// once (RFC 3629, 3); overlong forms, surrogates and numbers above U+10FFFF are excluded by ranges.
std::size_t character_at(const std::uint8_t* position) noexcept {
  const auto word = load_le<std::uint32_t>(reinterpret_cast<const std::byte*>(position));
  if ((word & 0x00c0c0f0U) == 0x008080e0U) {
    // Three bytes must encode neither U+0000 to U+07FF, for which two are enough, nor the
    // surrogates U+D800 to U+DFFF. These bits tell both ranges from all others.
    const std::uint32_t high = word & 0x0000200fU;
    return high != 0 && high != 0x0000200dU ? 3 : 0;
  }
  if ((word & 0x0000c0e0U) == 0x000080c0U) return (word & 0x0000001eU) != 0 ? 2 : 0;
  if ((word & 0xc0c0c0f8U) != 0x808080f0U) return 0;
  const std::uint32_t plane = (word & 7U) << 2 | (word >> 12 & 3U);
  return plane >= 1 && plane <= 16 ? 4 : 0;
}

}  // namespace

// Sets what must follow a lead byte. Overlong forms, surrogates and numbers above U+10FFFF restrict
// the second byte (RFC 3629, 4).
bool utf8_validator::begin_character(std::uint8_t lead) noexcept {
  lowest_ = 0x80;
  highest_ = 0xbf;
  if (lead < 0x80) return true;
  if (lead < 0xc2 || lead > 0xf4) return false;
  missing_bytes_ = lead < 0xe0 ? 1 : (lead < 0xf0 ? 2 : 3);
  if (lead == 0xe0) lowest_ = 0xa0;
  if (lead == 0xed) highest_ = 0x9f;
  if (lead == 0xf0) lowest_ = 0x90;
  if (lead == 0xf4) highest_ = 0x8f;
  return true;
}

bool utf8_validator::feed(std::span<const std::byte> bytes) noexcept {
  const auto* position = reinterpret_cast<const std::uint8_t*>(bytes.data());
  const auto* const end = position + bytes.size();
  while (position != end) {
    if (missing_bytes_ != 0) {
      if (*position < lowest_ || *position > highest_) return false;
      lowest_ = 0x80;
      highest_ = 0xbf;
      --missing_bytes_;
      ++position;
      continue;
    }
    position = skip_ascii_blocks(position, end);
    while (end - position >= 8) {
      if ((load_word(position) & high_bits) == 0) {
        position += sizeof(std::uint64_t);
        if (end - position >= 32) break;  // the text may continue in ASCII
        continue;
      }
      while (*position < 0x80) ++position;
      while (end - position >= 4 && *position >= 0x80) {
        const std::size_t size = character_at(position);
        if (size == 0) return false;
        position += size;
      }
    }
    if (end - position >= 32 || position == end) continue;
    if (!begin_character(*position++)) return false;
  }
  return true;
}

}  // namespace gyre::http::detail
