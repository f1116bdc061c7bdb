// SPDX-License-Identifier: Apache-2.0
#include <gyre/task/detail/transfer.hpp>

#include <atomic>
#include <mutex>
#include <unordered_set>
#include <utility>

namespace gyre::detail {

constinit thread_local std::coroutine_handle<>* next_on_trampoline = nullptr;

void run_on_trampoline(std::coroutine_handle<> first) noexcept {
  std::coroutine_handle<> next = first;
  std::coroutine_handle<>* const outer = std::exchange(next_on_trampoline, &next);
  while (next) std::exchange(next, nullptr).resume();
  next_on_trampoline = outer;
}

std::coroutine_handle<> leave_to_trampoline(std::coroutine_handle<> next) noexcept {
  if (next_on_trampoline == nullptr) {
    run_on_trampoline(next);
  } else if (std::coroutine_handle<> other = std::exchange(*next_on_trampoline, next)) {
    // A coroutine was resumed by hand between the two; neither may be lost.
    run_on_trampoline(other);
  }
  return std::noop_coroutine();
}

#if GYRE_ASYNC_BACKTRACE

namespace {

constinit std::atomic<bool> any_abandoned = false;
constinit std::mutex abandoned_mutex;

// Never destroyed: an executor may run its operations at the end of the program.
std::unordered_set<void*>& abandoned_frames() {
  static auto& frames = *new std::unordered_set<void*>;
  return frames;
}

}  // namespace

void never_resume(std::coroutine_handle<> coroutine) {
  const std::lock_guard lock(abandoned_mutex);
  abandoned_frames().insert(coroutine.address());
  any_abandoned = true;
}

bool may_resume(std::coroutine_handle<> first) noexcept {
  // relaxed: coroutines are abandoned while the program has one thread, which starts the others.
  if (!any_abandoned.load(std::memory_order_relaxed)) [[likely]]
    return true;
  const std::lock_guard lock(abandoned_mutex);
  return !abandoned_frames().contains(first.address());
}

#endif

}  // namespace gyre::detail
