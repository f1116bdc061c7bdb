// SPDX-License-Identifier: Apache-2.0
// splitmix64: a random number generator for jitter, with a state of 8 bytes.
#pragma once

#include <cstdint>
#include <limits>

namespace gyre::detail {

/// A std::uniform_random_bit_generator. Not for secrets: two numbers reveal all others.
///
/// Source: Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014.
class splitmix64 {
 public:
  using result_type = std::uint64_t;

  constexpr explicit splitmix64(std::uint64_t seed) noexcept : state_(seed) {}

  static constexpr result_type min() noexcept { return 0; }
  static constexpr result_type max() noexcept { return std::numeric_limits<result_type>::max(); }

  constexpr result_type operator()() noexcept {
    state_ += 0x9E37'79B9'7F4A'7C15U;
    std::uint64_t word = state_;
    word = (word ^ (word >> 30U)) * 0xBF58'476D'1CE4'E5B9U;
    word = (word ^ (word >> 27U)) * 0x94D0'49BB'1331'11EBU;
    return word ^ (word >> 31U);
  }

 private:
  std::uint64_t state_;
};

/// Returns a random seed from the system, which differs in each process after a fork, or a seed
/// made from the clock if the system has none. Thread-safety: any thread. Complexity: a system
/// call.
[[nodiscard]] std::uint64_t random_seed() noexcept;

}  // namespace gyre::detail
