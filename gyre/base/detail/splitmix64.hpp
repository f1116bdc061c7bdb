// SPDX-License-Identifier: Apache-2.0
// splitmix64: a random number generator for jitter, eight bytes and some nanoseconds a number.
#pragma once

#include <cstdint>
#include <limits>

namespace gyre::detail {

/// Not for secrets: two numbers tell all others. A std::uniform_random_bit_generator.
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
    std::uint64_t mixed = state_;
    mixed = (mixed ^ (mixed >> 30U)) * 0xBF58'476D'1CE4'E5B9U;
    mixed = (mixed ^ (mixed >> 27U)) * 0x94D0'49BB'1331'11EBU;
    return mixed ^ (mixed >> 31U);
  }

 private:
  std::uint64_t state_;
};

/// A random seed of the system, also different in each process after a fork; of the clock where the
/// system has none. Thread-safety: any thread. Complexity: a system call.
[[nodiscard]] std::uint64_t random_seed() noexcept;

}  // namespace gyre::detail
