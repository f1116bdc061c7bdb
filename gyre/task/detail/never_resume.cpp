// SPDX-License-Identifier: Apache-2.0
#include <gyre/task/detail/never_resume.hpp>

#include <atomic>
#include <mutex>
#include <unordered_set>

namespace gyre::detail {
namespace {

constinit std::atomic<bool> any_abandoned = false;
constinit std::mutex abandoned_mutex;

// The set is never destroyed, because an executor may run its operations when the program exits.
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

bool is_never_resumed(std::coroutine_handle<> coroutine) noexcept {
  // relaxed: never_resume() is called while the program has one thread; the start of another thread
  // makes the store visible to that thread.
  if (!any_abandoned.load(std::memory_order_relaxed)) [[likely]]
    return false;
  const std::lock_guard lock(abandoned_mutex);
  return abandoned_frames().contains(coroutine.address());
}

}  // namespace gyre::detail
