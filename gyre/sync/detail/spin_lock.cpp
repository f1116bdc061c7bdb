// SPDX-License-Identifier: Apache-2.0
#include <gyre/sync/detail/spin_lock.hpp>

namespace gyre::detail {

void spin_lock::lock_slowly() noexcept {
  // Each pause is twice as long as the last: under contention the holder gets many turns in a row,
  // which is cheaper for everybody than handing the cache line to and fro.
  constexpr int longest = 64;
  constexpr int patience = 16;  // pauses; after more the holder has lost the processor
  int pause = 1;
  int pauses = 0;
  do {
    // relaxed: a look; the exchange acquires.
    while (locked_.load(std::memory_order_relaxed)) {
      if (++pauses > patience) {
        thread_yield();
      } else {
        for (int i = 0; i < pause; ++i) cpu_relax();
        if (pause < longest) pause *= 2;
      }
    }
    // acquire: pairs with the release in unlock().
  } while (locked_.exchange(true, std::memory_order_acquire));
}

}  // namespace gyre::detail
