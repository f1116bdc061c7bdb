// SPDX-License-Identifier: Apache-2.0
#include <gyre/sync/detail/state_word.hpp>

namespace gyre::detail {

auto state_word::lock_slowly() noexcept -> word {
  constexpr int spins = 64;  // more mean that the holder has lost the processor
  word state = load(std::memory_order_relaxed);
  for (int tries = 0;;) {
    if ((state & locked) != 0) {
      ++tries < spins ? cpu_relax() : thread_yield();
      state = load(std::memory_order_relaxed);
      // acquire: as in lock().
    } else if (compare_exchange_weak(state, state | locked, std::memory_order_acquire,
                                     std::memory_order_relaxed)) {
      return state;
    }
  }
}

}  // namespace gyre::detail
