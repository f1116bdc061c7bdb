// SPDX-License-Identifier: Apache-2.0
#include <gyre/base/fence.hpp>

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string_view>

namespace gyre {
namespace {

bool membarrier(int command) noexcept { return ::syscall(SYS_membarrier, command, 0, 0) == 0; }

bool is_switched_off() noexcept {
  const char* value = std::getenv("GYRE_MEMBARRIER");
  return value != nullptr && std::string_view{value} == "0";
}

// Whether heavy fences use membarrier(2), which is decided once for the process. Every heavy fence
// calls this function first, so no heavy fence can use the fallback after the light fences have
// become free.
bool uses_membarrier() noexcept {
  static const bool is_supported = [] {
    const bool is_available = !is_switched_off() &&
                              membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) &&
                              membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
    // relaxed: see asymmetric_light_fence().
    detail::light_fence_is_free.store(is_available, std::memory_order_relaxed);
    return is_available;
  }();
  return is_supported;
}

// The variable makes light fences free when the program starts, not at the first heavy fence.
[[maybe_unused]] const bool decided_at_start = uses_membarrier();

constinit std::atomic<bool> forced_symmetric{false};

}  // namespace

namespace detail {

constinit std::atomic<bool> light_fence_is_free{false};

void heavy_fence() noexcept {
  // relaxed: forced_symmetric is written only while no thread uses the fences.
  if (!uses_membarrier() || forced_symmetric.load(std::memory_order_relaxed)) {
    full_fence();
    return;
  }
  if (membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED)) return;
  // A forked child inherits the registration with the copied address space. If a kernel drops the
  // registration, the call fails with EPERM, and the process registers again.
  if (membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) &&
      membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED)) {
    return;
  }
  // Other threads already rely on membarrier(2): without it the program would have a silent race.
  std::fputs("gyre: membarrier(2) was taken away from the running program; set GYRE_MEMBARRIER=0\n",
             stderr);
  std::terminate();
}

void force_symmetric_fences(bool is_forced) noexcept {
  const bool is_available = uses_membarrier();
  forced_symmetric.store(is_forced, std::memory_order_relaxed);
  light_fence_is_free.store(is_available && !is_forced, std::memory_order_relaxed);
}

}  // namespace detail

bool asymmetric_fence_uses_membarrier() noexcept {
  return uses_membarrier() && !forced_symmetric.load(std::memory_order_relaxed);
}

}  // namespace gyre
