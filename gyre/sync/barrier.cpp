// SPDX-License-Identifier: Apache-2.0
#include <gyre/sync/barrier.hpp>

namespace gyre::detail {

bool barrier_base::subtract(std::uint64_t arrivals, woken_waiters& ready) noexcept {
  assert(missing_ >= arrivals && "more arrived at a gyre::barrier than were expected");
  missing_ -= arrivals;
  if (missing_ != 0) return false;
  ready.complete_all(waiting_);
  return true;
}

bool barrier_base::record_arrivals(std::uint64_t arrivals, std::uint64_t departures,
                                   woken_waiters& ready) noexcept {
  const locked_state state(lock_);
  expected_ -= departures;
  return subtract(arrivals, ready);
}

auto barrier_base::record_arrival(barrier_waiter& node, woken_waiters& ready) noexcept -> arrival {
  const locked_state state(lock_);
  if (node.has_arrived && node.arrival_phase != phase_) {
    node.complete();
    return arrival::continues;
  }
  if (!node.has_arrived && missing_ == 1) {
    node.complete();
    subtract(1, ready);
    return arrival::completes;
  }
  if (node.is_cancelled()) return arrival::continues;
  if (!node.has_arrived) subtract(1, ready);
  node.join(waiting_);
  return arrival::waits;
}

// Begins the next phase. The waiters that it completes arrived in the phase that has ended, and
// began to wait with their tokens while the completion function ran.
void barrier_base::begin_phase(woken_waiters& ready) noexcept {
  const locked_state state(lock_);
  missing_ = expected_;
  ++phase_;
  ready.complete_all(waiting_);
}

bool barrier_base::withdraw(barrier_waiter& node) noexcept {
  const locked_state state(lock_);
  const bool has_waited = node.withdraw();
  if (has_waited && !node.has_arrived) ++missing_;
  return has_waited;
}

std::uint64_t barrier_base::phase() noexcept {
  const locked_state state(lock_);
  return phase_;
}

}  // namespace gyre::detail
