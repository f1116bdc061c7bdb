// SPDX-License-Identifier: Apache-2.0
#include <gyre/task/detail/transfer.hpp>

#include <utility>

namespace gyre::detail {

constinit thread_local std::coroutine_handle<>* next_on_trampoline = nullptr;

void run_on_trampoline(std::coroutine_handle<> first) noexcept {
  std::coroutine_handle<> coroutine = first;
  std::coroutine_handle<>* const outer = std::exchange(next_on_trampoline, &coroutine);
  while (coroutine) std::exchange(coroutine, nullptr).resume();
  next_on_trampoline = outer;
}

std::coroutine_handle<> leave_to_trampoline(std::coroutine_handle<> coroutine) noexcept {
  if (next_on_trampoline == nullptr) {
    run_on_trampoline(coroutine);
  } else if (std::coroutine_handle<> other = std::exchange(*next_on_trampoline, coroutine)) {
    // `other` was left to the trampoline, then a coroutine was resumed by hand and left
    // `coroutine`. Both must be resumed.
    run_on_trampoline(other);
  }
  return std::noop_coroutine();
}

}  // namespace gyre::detail
