// SPDX-License-Identifier: Apache-2.0
#include <gyre/pool/detail/future_state.hpp>

#include <gyre/base/detail/futex.hpp>
#include <gyre/pool/detail/helper.hpp>

#include <algorithm>
#include <chrono>
#include <system_error>

namespace gyre::detail {
namespace {

using namespace std::chrono_literals;

// The time for which a thread that can help sleeps before it polls for work again: first the
// minimum, then twice as long each time, up to the maximum.
constexpr std::chrono::nanoseconds min_sleep = 50us;
constexpr std::chrono::nanoseconds max_sleep = 3200us;

[[noreturn, gnu::cold]] void throw_deadlock(const char* message) {
  throw std::system_error(std::make_error_code(std::errc::resource_deadlock_would_occur), message);
}

// Returns a number that identifies the calling thread; never 0.
std::uint32_t this_thread_number() noexcept {
  static constinit atomic<std::uint32_t> threads{0};
  static constinit thread_local std::uint32_t number = 0;
  // relaxed: the numbers must only differ.
  if (number == 0) [[unlikely]]
    number = threads.fetch_add(1, std::memory_order_relaxed) + 1;
  return number;
}

}  // namespace

// relaxed, here and in is_run_by_this_thread(): a thread compares only with the number that it has
// stored itself.
future_state_base::run_scope::run_scope(future_state_base& task) noexcept : task_(task) {
  task.runner_.store(this_thread_number(), std::memory_order_relaxed);
}

future_state_base::run_scope::~run_scope() { task_.runner_.store(0, std::memory_order_relaxed); }

bool future_state_base::is_run_by_this_thread() const noexcept {
  return runner_.load(std::memory_order_relaxed) == this_thread_number();
}

void future_state_base::finish() noexcept {
  const atomic<std::uint32_t>* const word = &word_;
  // release: pairs with the acquire in is_finished() and in abandon(); makes the result visible.
  // acquire: pairs with the release in abandon(), before this object is freed here, and with the
  // release in await(), before its coroutine is resumed here.
  const std::uint32_t old_word = word_.fetch_or(finished_bit, std::memory_order_acq_rel);
  if ((old_word & abandoned_bit) != 0) {
    free();
  } else if ((old_word & sleeping_bit) != 0) {
    futex_wake_one(word);  // the call uses only the address: the word may be destroyed by now
  } else if ((old_word & (awaited_bit | cancelled_bit)) == awaited_bit) {
    // The waiter exists until this call resumes its coroutine.
    waiter_->context->where->post(*waiter_);
  }
}

bool future_state_base::wait_until(steady_time deadline) {
  const bool has_deadline = deadline != steady_time::max();
  helper* const help = current_helper();
  auto sleep = min_sleep;
  // One check is enough: a task deeper in this stack cannot end before the wait.
  if (!has_deadline && !is_finished() && is_run_by_this_thread()) {
    throw_deadlock("gyre::future: the task waits for itself");
  }
  while (!is_finished()) {
    if (has_deadline && monotonic_now() >= deadline) return false;
    if (help == nullptr) {
      sleep_until(deadline);
    } else if (help->help_once()) {
      sleep = min_sleep;
    } else {
      if (!has_deadline && !help->begin_sleep(*this)) {
        throw_deadlock("gyre::future: waits are nested so deep that no worker has stack left");
      }
      sleep_until(std::min(deadline, later(monotonic_now(), sleep)));
      if (!has_deadline) help->on_wake_up();
      sleep = std::min(2 * sleep, max_sleep);
    }
  }
  return true;
}

void future_state_base::sleep_until(steady_time deadline) noexcept {
  // relaxed: is_finished() acquires from the release sequence of finish(), which these operations
  // continue.
  const std::uint32_t old_word = word_.fetch_or(sleeping_bit, std::memory_order_relaxed);
  if ((old_word & finished_bit) == 0) futex_wait_until(word_, old_word | sleeping_bit, deadline);
  word_.fetch_and(~sleeping_bit, std::memory_order_relaxed);
}

bool future_state_base::await(future_state_waiter& waiter) noexcept {
  waiter_ = &waiter;
  // release: pairs with the acquire in finish() and in cancel_wait(); makes the waiter and its
  // coroutine visible. A caller that does not wait calls is_finished() again, for its acquire,
  // before it reads the result.
  const std::uint32_t old_word = word_.fetch_or(awaited_bit, std::memory_order_release);
  return (old_word & (finished_bit | cancelled_bit)) == 0;
}

bool future_state_base::cancel_wait() noexcept {
  // acquire: pairs with the release in await(); the waiter is visible to the caller.
  const std::uint32_t old_word = word_.fetch_or(cancelled_bit, std::memory_order_acquire);
  return (old_word & (awaited_bit | finished_bit)) == awaited_bit;
}

void future_state_base::abandon() noexcept {
  // acquire, release: pair with the operation in finish(). The side that comes second frees the
  // object.
  if (is_finished() ||
      (word_.fetch_or(abandoned_bit, std::memory_order_acq_rel) & finished_bit) != 0) {
    free();
  }
}

}  // namespace gyre::detail
