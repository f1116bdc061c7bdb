// SPDX-License-Identifier: Apache-2.0
// this_thread: a unique number of the calling thread; the kernel keeps requests of rings by thread.
#pragma once

#include <atomic>
#include <cstdint>

namespace gyre::io::detail {

/// A number that no other thread has had, unlike the system's; not 0.
inline std::uint64_t this_thread() noexcept {
  static constinit std::atomic<std::uint64_t> last = 0;
  static constinit thread_local std::uint64_t number = 0;
  // relaxed: only uniqueness counts.
  if (number == 0) number = last.fetch_add(1, std::memory_order_relaxed) + 1;
  return number;
}

}  // namespace gyre::io::detail
