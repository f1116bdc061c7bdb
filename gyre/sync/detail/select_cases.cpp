// SPDX-License-Identifier: Apache-2.0
#include <gyre/sync/detail/select_cases.hpp>

#include <atomic>

namespace gyre::detail {
namespace {

// Returns the next random number of the calling thread, by the algorithm of Marsaglia, "Xorshift
// RNGs", 2003.
std::uint32_t next_random() noexcept {
  static constinit std::atomic<std::uint32_t> threads{0};
  static constinit thread_local std::uint32_t state = 0;
  if (state == 0) {
    // relaxed: the counter only gives each thread another number. The golden ratio spreads the
    // seeds.
    state = (threads.fetch_add(1, std::memory_order_relaxed) + 1) * 0x9e3779b9U;
  }
  state ^= state << 13;
  state ^= state >> 17;
  state ^= state << 5;
  return state;
}

}  // namespace

// The function is not inlined, because coroutines change threads and compilers cache addresses of
// thread-locals.
[[gnu::noinline]] void shuffle(std::span<std::uint8_t> order) noexcept {
  // The loop is the inside-out form of the Fisher-Yates shuffle.
  for (std::size_t i = 0; i < order.size(); ++i) {
    const std::size_t j =
        i == 0 ? 0 : static_cast<std::size_t>((std::uint64_t{next_random()} * (i + 1)) >> 32);
    order[i] = order[j];
    order[j] = static_cast<std::uint8_t>(i);
  }
}

}  // namespace gyre::detail
