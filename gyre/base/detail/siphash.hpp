// SPDX-License-Identifier: Apache-2.0
// siphash: a hash of bytes that nobody without its key can predict, for tables whose keys strangers
// choose.
//
//     const siphash hash(siphash::random_key());
//     const std::uint64_t value = hash(std::as_bytes(std::span(name)));
#pragma once

#include <gyre/base/detail/splitmix64.hpp>
#include <gyre/base/detail/system_random.hpp>

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace gyre::detail {

/// SipHash-2-4.
///
/// Source: Aumasson and Bernstein, "SipHash: a fast short-input PRF", 2012.
///
/// Thread-safety: as a value.
/// Complexity: some 15 ns for 16 bytes.
class siphash {
 public:
  using key = std::array<std::uint64_t, 2>;

  constexpr explicit siphash(key secret) noexcept : secret_(secret) {}

  /// Returns an unpredictable key. If the system has no random numbers, the key is made from the
  /// clock. Complexity: a system call.
  [[nodiscard]] static key random_key() noexcept {
    key secret{};
    if (fill_with_random(std::as_writable_bytes(std::span(secret))) != 0) {
      splitmix64 numbers(random_seed());
      for (std::uint64_t& word : secret) word = numbers();
    }
    return secret;
  }

  [[nodiscard]] std::uint64_t operator()(std::span<const std::byte> bytes) const noexcept {
    state v{secret_[0] ^ 0x736f'6d65'7073'6575U, secret_[1] ^ 0x646f'7261'6e64'6f6dU,
            secret_[0] ^ 0x6c79'6765'6e65'7261U, secret_[1] ^ 0x7465'6462'7974'6573U};
    const std::uint64_t size = bytes.size();
    for (; bytes.size() >= word_size; bytes = bytes.subspan(word_size)) {
      absorb(v, little_endian(bytes.first(word_size)));
    }
    absorb(v, little_endian(bytes) | size << 56U);
    v[2] ^= 0xffU;
    for (int i = 0; i < 4; ++i) mix(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
  }

 private:
  using state = std::array<std::uint64_t, 4>;
  static constexpr std::size_t word_size = sizeof(std::uint64_t);

  static std::uint64_t little_endian(std::span<const std::byte> bytes) noexcept {
    std::uint64_t word = 0;
    if (!bytes.empty()) std::memcpy(&word, bytes.data(), bytes.size());
    return std::endian::native == std::endian::little ? word : std::byteswap(word);
  }
  static void absorb(state& v, std::uint64_t word) noexcept {
    v[3] ^= word;
    mix(v);
    mix(v);
    v[0] ^= word;
  }
  static void mix(state& v) noexcept {
    v[0] += v[1];
    v[1] = std::rotl(v[1], 13) ^ v[0];
    v[0] = std::rotl(v[0], 32);
    v[2] += v[3];
    v[3] = std::rotl(v[3], 16) ^ v[2];
    v[0] += v[3];
    v[3] = std::rotl(v[3], 21) ^ v[0];
    v[2] += v[1];
    v[1] = std::rotl(v[1], 17) ^ v[2];
    v[2] = std::rotl(v[2], 32);
  }

  key secret_;
};

}  // namespace gyre::detail
