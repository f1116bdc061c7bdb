// SPDX-License-Identifier: Apache-2.0
// find_control, skip_letters: scans of a text, sixteen bytes at a time if the CPU has SSE2.
#pragma once

#include <bit>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace gyre::http::detail {

/// Returns the first byte below 0x20 or equal to 0x7F at or after `position`, or `end`.
[[nodiscard]] inline const char* find_control(const char* position, const char* end) noexcept {
#if defined(__SSE2__)
  const auto find_in = [](__m128i block) {
    const __m128i low = _mm_cmpeq_epi8(_mm_min_epu8(block, _mm_set1_epi8(0x1F)), block);
    const __m128i matches = _mm_or_si128(low, _mm_cmpeq_epi8(block, _mm_set1_epi8(0x7F)));
    return static_cast<unsigned>(_mm_movemask_epi8(matches));
  };
  for (; end - position >= 16; position += 16) {
    const unsigned mask = find_in(_mm_loadu_si128(reinterpret_cast<const __m128i*>(position)));
    if (mask != 0) return position + std::countr_zero(mask);
  }
  if (end - position >= 8) {
    const unsigned mask =
        find_in(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(position))) & 0xFFU;
    if (mask != 0) return position + std::countr_zero(mask);
    position += 8;
  }
#endif
  for (; position != end; ++position) {
    const auto code = static_cast<unsigned char>(*position);
    if (code < 0x20 || code == 0x7F) return position;
  }
  return end;
}

/// Skips ASCII letters and '-', of which most field names consist. May return before the first
/// other character.
[[nodiscard]] inline const char* skip_letters(const char* position, const char* end) noexcept {
#if defined(__SSE2__)
  const __m128i last = _mm_set1_epi8('z' - 'a');
  for (; end - position >= 16; position += 16) {
    const __m128i block = _mm_loadu_si128(reinterpret_cast<const __m128i*>(position));
    const __m128i small = _mm_or_si128(block, _mm_set1_epi8(0x20));
    const __m128i index = _mm_sub_epi8(small, _mm_set1_epi8('a'));
    const __m128i letters = _mm_cmpeq_epi8(_mm_min_epu8(index, last), index);
    const __m128i matches = _mm_or_si128(letters, _mm_cmpeq_epi8(block, _mm_set1_epi8('-')));
    const auto mismatches = static_cast<unsigned>(_mm_movemask_epi8(matches)) ^ 0xFFFFU;
    if (mismatches != 0) return position + std::countr_zero(mismatches);
  }
#else
  static_cast<void>(end);
#endif
  return position;
}

}  // namespace gyre::http::detail
