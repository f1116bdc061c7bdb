// SPDX-License-Identifier: Apache-2.0
#include <gyre/task/detail/transfer.hpp>

#include <utility>

namespace gyre::detail {
namespace {

// The coroutine that a trampoline resumes next; the address tells that there is a trampoline.
constinit thread_local std::coroutine_handle<>* next_up = nullptr;

}  // namespace

void run_on_trampoline(std::coroutine_handle<> first) noexcept {
  std::coroutine_handle<> next = first;
  std::coroutine_handle<>* const outer = std::exchange(next_up, &next);
  while (next) std::exchange(next, nullptr).resume();
  next_up = outer;
}

std::coroutine_handle<> leave_to_trampoline(std::coroutine_handle<> next) noexcept {
  if (next_up == nullptr) {
    run_on_trampoline(next);
  } else if (std::coroutine_handle<> other = std::exchange(*next_up, next)) {
    // Somebody resumed a coroutine by hand between the two; neither may be lost.
    run_on_trampoline(other);
  }
  return std::noop_coroutine();
}

}  // namespace gyre::detail
