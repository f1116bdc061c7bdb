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

// A thread that could help sleeps between its looks for work, first for the minimum, and then each
// time twice as long up to the maximum.
constexpr std::chrono::nanoseconds min_sleep = 50us;
constexpr std::chrono::nanoseconds max_sleep = 3200us;

[[noreturn, gnu::cold]] void throw_deadlock(const char* message) {
  throw std::system_error(std::make_error_code(std::errc::resource_deadlock_would_occur), message);
}

// A number that identifies the calling thread; never 0.
std::uint32_t this_thread_number() noexcept {
  static constinit atomic<std::uint32_t> threads{0};
  static constinit thread_local std::uint32_t number = 0;
  // relaxed: orders nothing.
  if (number == 0) [[unlikely]]
    number = threads.fetch_add(1, std::memory_order_relaxed) + 1;
  return number;
}

}  // namespace

// relaxed, here and in is_run_by_this_thread(): a thread looks only for the number that it has
// stored itself.
future_state_base::running::running(future_state_base& task) noexcept : task_(task) {
  task.runner_.store(this_thread_number(), std::memory_order_relaxed);
}

future_state_base::running::~running() { task_.runner_.store(0, std::memory_order_relaxed); }

bool future_state_base::is_run_by_this_thread() const noexcept {
  return runner_.load(std::memory_order_relaxed) == this_thread_number();
}

void future_state_base::finish() noexcept {
  const atomic<std::uint32_t>* const word = &word_;
  // release: the result; pairs with the acquire in is_finished(), or with that in abandon().
  // acquire: pairs with the release in abandon(), after which this is freed here, and with that in
  // await(), whose coroutine is resumed here.
  const std::uint32_t old_word = word_.fetch_or(finished_bit, std::memory_order_acq_rel);
  if ((old_word & abandoned_bit) != 0) {
    free();
  } else if ((old_word & sleeping_bit) != 0) {
    futex_wake_one(word);  // the word may be gone by now
  } else if ((old_word & (awaited_bit | cancelled_bit)) == awaited_bit) {
    waiter_->context->where->post(*waiter_);  // exists until this call resumes its coroutine
  }
}

bool future_state_base::wait_until(steady_time deadline) {
  const bool has_deadline = deadline != steady_time::max();
  helper* const help = current_helper();
  auto sleep = min_sleep;
  // A task below this wait in the stack ends after the wait, so one look is enough.
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
  // relaxed: is_finished() acquires from the release sequence of finish(), which these continue.
  const std::uint32_t old_word = word_.fetch_or(sleeping_bit, std::memory_order_relaxed);
  if ((old_word & finished_bit) == 0) futex_wait_until(word_, old_word | sleeping_bit, deadline);
  word_.fetch_and(~sleeping_bit, std::memory_order_relaxed);
}

bool future_state_base::await(future_state_waiter& waiter) noexcept {
  waiter_ = &waiter;
  // release: the waiter and its coroutine; pairs with the acquire in finish() and in cancel_wait().
  // A caller that does not wait looks at is_finished() again before it reads the result.
  const std::uint32_t old_word = word_.fetch_or(awaited_bit, std::memory_order_release);
  return (old_word & (finished_bit | cancelled_bit)) == 0;
}

bool future_state_base::cancel_wait() noexcept {
  // acquire: pairs with the release in await().
  const std::uint32_t old_word = word_.fetch_or(cancelled_bit, std::memory_order_acquire);
  return (old_word & (awaited_bit | finished_bit)) == awaited_bit;
}

void future_state_base::abandon() noexcept {
  // acquire, release: pair with those in finish(). The side that comes second frees this object.
  if (is_finished() ||
      (word_.fetch_or(abandoned_bit, std::memory_order_acq_rel) & finished_bit) != 0) {
    free();
  }
}

}  // namespace gyre::detail
