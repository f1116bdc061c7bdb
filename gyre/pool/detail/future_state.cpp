// SPDX-License-Identifier: Apache-2.0
#include <gyre/pool/detail/outcome.hpp>

#include <gyre/base/detail/futex.hpp>
#include <gyre/pool/detail/helper.hpp>

#include <algorithm>
#include <chrono>
#include <system_error>

namespace gyre::detail {
namespace {

using namespace std::chrono_literals;

// How long a thread that could help sleeps before it looks again for work: others are there to run
// what comes, unless all of them wait.
constexpr std::chrono::nanoseconds first_look = 50us;
constexpr std::chrono::nanoseconds last_look = 3200us;

[[noreturn, gnu::cold]] void throw_deadlock(const char* what) {
  throw std::system_error(std::make_error_code(std::errc::resource_deadlock_would_occur), what);
}

// The innermost of the tasks that the thread is running.
constinit thread_local intrusive_node* running_tasks = nullptr;

}  // namespace

outcome_base::running::running(outcome_base& task) noexcept : task_(task) {
  task.next = std::exchange(running_tasks, &task);
}

outcome_base::running::~running() { running_tasks = std::exchange(task_.next, nullptr); }

bool outcome_base::runs_below() const noexcept {
  const intrusive_node* each = running_tasks;
  while (each != nullptr && each != this) each = each->next;
  return each != nullptr;
}

void outcome_base::settle() noexcept {
  const atomic<std::uint32_t>* const word = &word_;
  // release: the outcome; pairs with the acquire in settled(), or with that in abandon(). acquire:
  // pairs with the release in abandon(), after which this is freed here, and with that in await(),
  // whose coroutine is resumed here.
  const std::uint32_t seen = word_.fetch_or(is_settled, std::memory_order_acq_rel);
  if ((seen & is_abandoned) != 0) {
    free();
  } else if ((seen & sleeps) != 0) {
    futex_wake_one(word);  // of what may be gone by now
  } else if ((seen & (is_awaited | is_cancelled)) == is_awaited) {
    waiter_->where->post(*waiter_);  // not gone: its owner is resumed by this
  }
}

bool outcome_base::wait_until(steady_time deadline) {
  const bool for_ever = deadline == steady_time::max();
  helper* const help = current_helper();
  auto look = first_look;
  // What runs below this wait runs until it returns, so one look is enough.
  if (for_ever && !settled() && runs_below()) {
    throw_deadlock("gyre::future: the task waits for itself");
  }
  while (!settled()) {
    if (!for_ever && monotonic_now() >= deadline) return false;
    if (help == nullptr) {
      sleep_until(deadline);
    } else if (help->help_once()) {
      look = first_look;
    } else {
      if (for_ever && !help->may_sleep(*this)) {
        throw_deadlock("gyre::future: waits are nested so deep that no worker has stack left");
      }
      sleep_until(std::min(deadline, later(monotonic_now(), look)));
      if (for_ever) help->woke_up();
      look = std::min(2 * look, last_look);
    }
  }
  return true;
}

void outcome_base::sleep_until(steady_time deadline) noexcept {
  // relaxed: settled() reads with acquire what settle() released, of whose release sequence these
  // exchanges are a part.
  const std::uint32_t seen = word_.fetch_or(sleeps, std::memory_order_relaxed);
  if ((seen & is_settled) == 0) futex_wait_until(word_, seen | sleeps, deadline);
  word_.fetch_and(~sleeps, std::memory_order_relaxed);
}

bool outcome_base::await(outcome_waiter& waiter) noexcept {
  waiter_ = &waiter;
  // release: the waiter and its coroutine; pairs with the acquire in settle() and in cancel_wait().
  // Whoever need not wait looks at settled() again before the outcome.
  const std::uint32_t seen = word_.fetch_or(is_awaited, std::memory_order_release);
  return (seen & (is_settled | is_cancelled)) == 0;
}

bool outcome_base::cancel_wait() noexcept {
  // acquire: pairs with the release in await().
  const std::uint32_t seen = word_.fetch_or(is_cancelled, std::memory_order_acquire);
  return (seen & (is_awaited | is_settled)) == is_awaited;
}

void outcome_base::abandon() noexcept {
  // acquire: pairs with the release in settle(), after which this is freed here; release: pairs
  // with the acquire there.
  if (settled() || (word_.fetch_or(is_abandoned, std::memory_order_acq_rel) & is_settled) != 0) {
    free();
  }
}

}  // namespace gyre::detail
