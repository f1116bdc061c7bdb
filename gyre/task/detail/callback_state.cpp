// SPDX-License-Identifier: Apache-2.0
#include <gyre/task/detail/callback_state.hpp>

#include <cassert>
#include <future>

namespace gyre::detail {

// Publishes the outcome. When publish() returns, the coroutine may have ended; the state may be
// destroyed too, unless the caller holds a completion.
void callback_state::publish() noexcept {
  if (core_.leave(reporter)) where->post(*this);
}

bool callback_state::fail(failure error) noexcept {
  if (!claim()) return false;
  error_ = std::move(error);
  publish();
  return true;
}

void callback_state::end_completion() noexcept {
  // acquire and release: the decrement that reaches zero synchronises with all earlier ones, so
  // that the last completion's end comes after every use of the state by another completion.
  if (completions_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  fail(std::make_error_code(std::future_errc::broken_promise));
  release();
}

void callback_state::abandon() noexcept {
  [[maybe_unused]] const bool is_first = claim();
  assert((is_first || core_.has(starter)) &&
         "a coroutine was destroyed between its wake-up and its resumption");
}

void callback_state::release() noexcept {
  // acquire and release: the decrement that reaches zero synchronises with the other owner's, so
  // that the deletion comes after that owner's last access.
  if (owners_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
}

}  // namespace gyre::detail
