// SPDX-License-Identifier: Apache-2.0
#include <gyre/task/detail/blocking_executor.hpp>

#include <gyre/base/clock.hpp>
#include <gyre/base/detail/futex.hpp>
#include <gyre/base/detail/process_threads.hpp>
#include <gyre/task/async_backtrace.hpp>
#include <gyre/task/detail/schedule_awaiters.hpp>

#include <bit>
#include <system_error>

namespace gyre::detail {
namespace {

constinit thread_local blocking_executor* innermost = nullptr;

static_assert(std::endian::native == std::endian::little, "the lower half comes first");
// Returns the half of `word` that the kernel compares. gyre itself reads and writes the whole word
// only.
const atomic<std::uint32_t>* lower_half(const atomic<std::uintptr_t>* word) noexcept {
  return reinterpret_cast<const atomic<std::uint32_t>*>(word);
}

}  // namespace

void word_futex::wait(const atomic<std::uintptr_t>& word, std::uintptr_t expected) noexcept {
  futex_wait_until(*lower_half(&word), static_cast<std::uint32_t>(expected), steady_time::max());
}

void word_futex::wake_one(const atomic<std::uintptr_t>* word) noexcept {
  futex_wake_one(lower_half(word));
}

blocking_executor::blocking_executor() noexcept : outer_(innermost) { innermost = this; }

blocking_executor::~blocking_executor() { retire(); }

void blocking_executor::retire() noexcept {
  innermost = outer_;
  run_.end();
}

bool blocking_executor::running_here() const noexcept { return current_run() == &run_; }

bool blocking_executor::runs_only_here() const noexcept {
  const blocking_executor* candidate = innermost;
  while (candidate != nullptr && candidate != this) candidate = candidate->outer_;
  return candidate == this;
}

bool blocking_executor::blocks_this_thread() noexcept { return innermost != nullptr; }

bool blocking_executor::run_until(const bool& is_done) {
  while (!is_done) {
    intrusive_queue<operation> operations = queue_.take();
    if (operations.empty() && checks_deadlocks && is_single_threaded()) {
      // Another thread may have posted an operation between the first take() and its end.
      operations = queue_.take();
      if (operations.empty()) return false;
    }
    if (operations.empty()) queue_.sleep();
    while (operation* front = operations.pop_front()) front->execute();
  }
  return true;
}

void throw_deadlock(const std::string& report) {
  throw std::system_error(std::make_error_code(std::errc::resource_deadlock_would_occur), report);
}

void throw_if_deadlock(const task_context& context, const executor& target) {
  const bool is_in_sync_wait =
      context.where->runs_only_here() && blocking_executor::blocks_this_thread();
  if (is_in_sync_wait && context.where != &target && target.runs_only_here()) {
    throw_deadlock(
        "gyre: a coroutine goes to an executor whose only thread is in the sync_wait() that waits "
        "for it:\n" +
        async_backtrace(context).to_string());
  }
}

}  // namespace gyre::detail
