// SPDX-License-Identifier: Apache-2.0
#include <gyre/pool/detail/forked_operation.hpp>

#include <gyre/base/detail/futex.hpp>
#include <gyre/pool/detail/helper.hpp>

#include <algorithm>
#include <chrono>

namespace gyre::detail {
namespace {

using namespace std::chrono_literals;

// A stolen operation often ends soon and forks more work. So a thread that can help polls for work
// this often before it sleeps, and then sleeps only for short times.
constexpr int max_join_polls = 512;
constexpr std::chrono::nanoseconds min_join_sleep = 50us;
constexpr std::chrono::nanoseconds max_join_sleep = 1600us;

}  // namespace

void forked_operation::finish() noexcept {
  const atomic<std::uint32_t>* const word = &word_;
  // release: pairs with the acquire in is_finished(); makes the effects of the run visible.
  const std::uint32_t old_word = word_.fetch_or(finished_bit, std::memory_order_release);
  if ((old_word & sleeping_bit) != 0) futex_wake_one(word);  // the call uses only the address
}

void forked_operation::wait() noexcept {
  helper* const help = current_helper();
  auto sleep = min_join_sleep;
  int polls = 0;
  while (!is_finished()) {
    if (help == nullptr) {
      sleep_until(steady_time::max());
    } else if (help->help_once()) {
      polls = 0;
      sleep = min_join_sleep;
    } else if (++polls < max_join_polls) {
      cpu_relax();
    } else {
      sleep_until(later(monotonic_now(), sleep));
      sleep = std::min(2 * sleep, max_join_sleep);
    }
  }
}

void forked_operation::sleep_until(steady_time deadline) noexcept {
  // relaxed: is_finished() acquires from the release sequence of finish(), which these operations
  // continue.
  const std::uint32_t old_word = word_.fetch_or(sleeping_bit, std::memory_order_relaxed);
  if ((old_word & finished_bit) == 0) futex_wait_until(word_, old_word | sleeping_bit, deadline);
  word_.fetch_and(~sleeping_bit, std::memory_order_relaxed);
}

}  // namespace gyre::detail
