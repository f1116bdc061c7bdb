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
    // Somebody resumed a coroutine by hand between the two; neither may be lost.
    run_on_trampoline(other);
  }
  return std::noop_coroutine();
}

#if GYRE_ASYNC_BACKTRACE

namespace {

constinit std::atomic<bool> some_given_up = false;
constinit std::mutex given_up_mutex;

// Never destroyed: an executor may run what it holds at the end of the program.
std::unordered_set<void*>& frames_given_up() {
  static auto& frames = *new std::unordered_set<void*>;
  return frames;
}

}  // namespace

void never_resume(std::coroutine_handle<> given_up) {
  const std::lock_guard lock(given_up_mutex);
  frames_given_up().insert(given_up.address());
  some_given_up = true;
}

bool may_resume(std::coroutine_handle<> first) noexcept {
  // relaxed: coroutines are given up while the program has one thread; others are started after it.
  if (!some_given_up.load(std::memory_order_relaxed)) [[likely]]
    return true;
  const std::lock_guard lock(given_up_mutex);
  return !frames_given_up().contains(first.address());
}

#endif

}  // namespace gyre::detail
