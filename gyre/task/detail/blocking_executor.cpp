// SPDX-License-Identifier: Apache-2.0
#include <gyre/task/detail/blocking_executor.hpp>

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bit>

namespace gyre::detail {
namespace {

constinit thread_local blocking_executor* innermost = nullptr;

static_assert(std::endian::native == std::endian::little, "the lower half comes first");

}  // namespace

void word_futex::wait(const atomic<std::uintptr_t>& word, std::uintptr_t expected) noexcept {
  ::syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, static_cast<std::uint32_t>(expected), nullptr);
}

void word_futex::wake_one(const atomic<std::uintptr_t>* word) noexcept {
  ::syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1);
}

blocking_executor::blocking_executor() noexcept : outer_(innermost) { innermost = this; }

blocking_executor::~blocking_executor() { innermost = outer_; }

bool blocking_executor::running_here() const noexcept {
  const blocking_executor* each = innermost;
  while (each != nullptr && each != this) each = each->outer_;
  return each == this;
}

void blocking_executor::run_until(const bool& done) noexcept {
  while (!done) {
    intrusive_queue<operation> ready = queue_.take();
    if (ready.empty()) queue_.sleep();
    while (operation* next = ready.pop_front()) next->execute();
  }
}

}  // namespace gyre::detail
