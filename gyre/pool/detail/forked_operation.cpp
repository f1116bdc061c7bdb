// SPDX-License-Identifier: Apache-2.0
#include <gyre/pool/detail/forked_operation.hpp>

#include <gyre/base/detail/futex.hpp>
#include <gyre/pool/detail/helper.hpp>

#include <algorithm>
#include <chrono>

namespace gyre::detail {
namespace {

using namespace std::chrono_literals;

// What was taken is often done soon, and new things to help with come from where it is done: so a
// thread that can help looks often, and then sleeps for short times only.
constexpr int eager_looks = 512;
constexpr std::chrono::nanoseconds first_sleep = 50us;
constexpr std::chrono::nanoseconds last_sleep = 1600us;

}  // namespace

void forked_operation::settle() noexcept {
  const atomic<std::uint32_t>* const word = &word_;
  // release: what was done; pairs with the acquire in settled().
  const std::uint32_t seen = word_.fetch_or(is_settled, std::memory_order_release);
  if ((seen & sleeps) != 0) futex_wake_one(word);  // of what may be gone by now
}

void forked_operation::wait() noexcept {
  helper* const help = current_helper();
  auto sleep = first_sleep;
  int looks = 0;
  while (!settled()) {
    if (help == nullptr) {
      sleep_until(steady_time::max());
    } else if (help->help_once()) {
      looks = 0;
      sleep = first_sleep;
    } else if (++looks < eager_looks) {
      cpu_relax();
    } else {
      sleep_until(later(monotonic_now(), sleep));
      sleep = std::min(2 * sleep, last_sleep);
    }
  }
}

void forked_operation::sleep_until(steady_time deadline) noexcept {
  // relaxed: settled() reads with acquire what settle() released, of whose release sequence these
  // exchanges are a part.
  const std::uint32_t seen = word_.fetch_or(sleeps, std::memory_order_relaxed);
  if ((seen & is_settled) == 0) futex_wait_until(word_, seen | sleeps, deadline);
  word_.fetch_and(~sleeps, std::memory_order_relaxed);
}

}  // namespace gyre::detail
