// SPDX-License-Identifier: Apache-2.0
// barrier: coroutines that wait for each other at the end of each phase.
//
//     gyre::barrier phase(workers, [&]() noexcept { grid.swap(); });
//
//     while (!grid.settled()) {
//       grid.relax(part);
//       co_await phase.arrive_and_wait();
//     }
#pragma once

#include <gyre/sync/detail/primitive_wait.hpp>
#include <gyre/sync/detail/state_word.hpp>
#include <gyre/sync/detail/waiter.hpp>

#include <cassert>
#include <cstdint>
#include <type_traits>
#include <utility>

namespace gyre {
namespace detail {

struct barrier_waiter : waiter {
  /// Makes a waiter that arrives when it begins to wait.
  barrier_waiter() noexcept = default;
  /// Makes a waiter that has arrived before, in `phase`.
  explicit barrier_waiter(std::uint64_t phase) noexcept : has_arrived(true), arrival_phase(phase) {}

  const bool has_arrived = false;
  const std::uint64_t arrival_phase = 0;
};

/// The part of a barrier that does not depend on its completion function.
class barrier_base {
 protected:
  constexpr explicit barrier_base(std::uint64_t expected) noexcept
      : expected_(expected), missing_(expected) {
    assert(expected > 0 && "a gyre::barrier needs at least one participant");
  }
  ~barrier_base() {
    assert(waiting_.empty() && "a gyre::barrier was destroyed while a coroutine waited for it");
  }

  /// Counts `arrivals`, of which `departures` will not arrive in later phases. Returns whether all
  /// participants have arrived: the waiters are then in `ready`, and the caller must call
  /// begin_phase().
  bool record_arrivals(std::uint64_t arrivals, std::uint64_t departures,
                       woken_waiters& ready) noexcept;
  /// Counts `node`, whose coroutine waits for the others unless it is cancelled or the last.
  enum class arrival : unsigned char { waits, continues, completes };
  arrival record_arrival(barrier_waiter& node, woken_waiters& ready) noexcept;
  void begin_phase(woken_waiters& ready) noexcept;
  bool withdraw(barrier_waiter& node) noexcept;
  std::uint64_t phase() noexcept;

 private:
  bool subtract(std::uint64_t arrivals, woken_waiters& ready) noexcept;

  state_word lock_;         // guards the members below
  std::uint64_t expected_;  // the arrivals in each phase
  std::uint64_t missing_;   // the arrivals that the present phase still needs
  std::uint64_t phase_ = 0;
  waiter_list<barrier_waiter> waiting_;
};

struct no_completion {
  constexpr void operator()() const noexcept {}
};

}  // namespace detail

/// A meeting point for a fixed number of participants, like std::barrier: no participant continues
/// before all have arrived. The last to arrive calls `Completion` on its thread; then all are
/// released in the order of their arrival, and the next phase begins. Arrivals happen before the
/// call of the completion function, and this call happens before the end of the waits.
///
/// Thread-safety: every member may be called from any thread.
/// Lifetime: must outlive its waits.
/// Errors: an arrive_and_wait() that is asked to stop throws operation_cancelled and withdraws its
/// arrival, so that the participant may arrive again or drop out.
/// Complexity: one exchange for an arrival; three for the last one of a phase, and a post per
/// waiter. No allocation; 48 bytes and the function.
template <class Completion = detail::no_completion>
class barrier : detail::barrier_base {
  static_assert(std::is_nothrow_invocable_v<Completion&>,
                "a completion function must not throw, and says so");

 public:
  /// The awaitable of arrive_and_wait() and wait(), without a result.
  using wait_operation = detail::primitive_wait<void, barrier, detail::barrier_waiter>;

  /// Proof of having arrived in a phase, for wait().
  class [[nodiscard]] arrival_token {
   private:
    friend barrier;
    explicit arrival_token(std::uint64_t phase) noexcept : phase_(phase) {}
    std::uint64_t phase_;
  };

  constexpr explicit barrier(std::uint64_t expected, Completion completion = Completion()) noexcept(
      std::is_nothrow_move_constructible_v<Completion>)
      : barrier_base(expected), completion_(std::move(completion)) {}

  /// Awaited, arrives, and waits for the other participants. The last participant to arrive is not
  /// suspended.
  wait_operation arrive_and_wait() noexcept { return wait_operation(*this); }

  /// Arrives `arrivals` times, without waiting. Asserts that the phase still waits for as many.
  arrival_token arrive(std::uint64_t arrivals = 1) noexcept {
    const arrival_token token(phase());
    detail::woken_waiters ready;
    if (record_arrivals(arrivals, 0, ready)) complete(ready);
    return token;
  }
  /// Awaited, waits for the end of the phase in which arrive() returned `token`; completes at once
  /// if that phase has ended. The arrival counts even if the wait is asked to stop.
  wait_operation wait(arrival_token token) noexcept { return wait_operation(*this, token.phase_); }

  /// Arrives for the last time: later phases expect one participant less.
  void arrive_and_drop() noexcept {
    detail::woken_waiters ready;
    if (record_arrivals(1, 1, ready)) complete(ready);
  }

 private:
  friend wait_operation;

  static constexpr bool admit(detail::barrier_waiter&) noexcept { return false; }
  bool enlist(detail::barrier_waiter& node) noexcept {
    detail::woken_waiters ready;
    switch (record_arrival(node, ready)) {
      case arrival::waits: return true;
      case arrival::completes: complete(ready); break;
      case arrival::continues: break;
    }
    return false;
  }
  void complete(detail::woken_waiters& ready) noexcept {
    completion_();
    begin_phase(ready);
  }

  [[no_unique_address]] Completion completion_;
};

}  // namespace gyre
