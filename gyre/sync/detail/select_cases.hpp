// SPDX-License-Identifier: Apache-2.0
// select_cases: the cases of a select(), and timeout_case, the case of a time limit.
#pragma once

#include <gyre/base/atomic.hpp>
#include <gyre/base/clock.hpp>
#include <gyre/base/duration.hpp>
#include <gyre/base/timer_operation.hpp>
#include <gyre/sync/detail/select_wait.hpp>
#include <gyre/sync/detail/single_wait.hpp>
#include <gyre/sync/detail/spin_lock.hpp>
#include <gyre/task/executor.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <system_error>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>

namespace gyre {

/// The result of on_timeout() and on_deadline() in a select().
struct timed_out {};

namespace detail {

/// The case of select() that completes when a time limit expires.
class timeout_case : public timer_operation {
 public:
  using result = timed_out;
  explicit timeout_case(duration delay) noexcept : timer_operation(&expired), delay_(delay) {}
  explicit timeout_case(time_point deadline) noexcept
      : timer_operation(&expired), deadline_(deadline) {}
  timeout_case(timeout_case&& other) noexcept
      : timer_operation(&expired), delay_(other.delay_), deadline_(other.deadline_) {}

  /// Starts the timer. Returns false if the deadline has passed already.
  bool start(timer_service& timers, select_wait& wait, select_wait::index index) noexcept {
    const steady_time now = timers.now();
    const steady_time deadline = deadline_ ? *deadline_ : later(now, delay_);
    if (deadline <= now) return false;
    wait_ = &wait;
    index_ = index;
    timers.start_timer(*this, deadline);
    return true;
  }
  /// Cancels the timer; waits for it if it is expiring on another thread of the executor. Called by
  /// the coroutine when its wait has ended.
  void end(timer_service& timers) noexcept {
    if (wait_ == nullptr || timers.cancel_timer(*this)) return;
    // acquire: pairs with the release in expired(), after which that function no longer uses this
    // case.
    while (!has_expired_.load(std::memory_order_acquire)) thread_yield();
  }
  static std::error_code error() noexcept { return {}; }
  static timed_out take() noexcept { return {}; }

 private:
  static void expired(timer_operation& timer) {
    auto& self = static_cast<timeout_case&>(timer);
    select_wait& wait = *self.wait_;
    const bool must_wake = wait.decide(self.index_);
    // release: pairs with the acquire in end(), after which the awaiter may be destroyed, unless
    // the coroutine waits for the wake() below.
    self.has_expired_.store(true, std::memory_order_release);
    if (must_wake) wait.wake();
  }

  std::chrono::nanoseconds delay_{};
  std::optional<steady_time> deadline_;
  select_wait* wait_ = nullptr;  // null until start() succeeds
  select_wait::index index_ = 0;
  atomic<bool> has_expired_{false};
};

template <class T>
concept selectable = select_case<T> || std::same_as<T, timeout_case>;

/// The type of a case's result T in the variant of select().
template <class T>
using variant_member = std::conditional_t<std::is_void_v<T>, std::monostate, T>;

/// Fills `order` with a random permutation of the numbers from 0 to its size - 1.
void shuffle(std::span<std::uint8_t> order) noexcept;

/// The set of locks of several primitives. They are locked in the order of their addresses, each
/// once, which prevents deadlocks between selects.
template <std::size_t MaxLocks>
class lock_set {
 public:
  void add(spin_lock& lock) noexcept {
    const auto end = locks_.begin() + count_;
    const auto position = std::lower_bound(locks_.begin(), end, &lock, std::less<>());
    if (position != end && *position == &lock) return;
    std::move_backward(position, end, end + 1);
    *position = &lock;
    ++count_;
  }
  void lock() noexcept {
    for (std::ptrdiff_t i = 0; i < count_; ++i) locks_[static_cast<std::size_t>(i)]->lock();
  }
  void unlock() noexcept {
    for (std::ptrdiff_t i = 0; i < count_; ++i) locks_[static_cast<std::size_t>(i)]->unlock();
  }

 private:
  std::array<spin_lock*, MaxLocks> locks_;
  std::ptrdiff_t count_ = 0;
};

/// The cases of a select(), in the order of its arguments.
template <selectable... Cases>
class select_cases {
 public:
  static constexpr std::size_t count = sizeof...(Cases);
  static_assert(count > 0 && count <= 64);
  using result_type = std::variant<variant_member<typename Cases::result>...>;

  explicit select_cases(Cases&&... cases) noexcept : cases_(std::move(cases)...) {}

  /// Calls `function` with the case at `index` and its constant index.
  template <class Function>
  void visit(std::size_t index, Function&& function) {
    each([&](auto& candidate, auto case_index) {
      if (case_index == index) function(candidate, case_index);
    });
  }
  /// Calls `function` with each case and its constant index.
  template <class Function>
  void each(Function&& function) {
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      (function(std::get<I>(cases_), std::integral_constant<std::size_t, I>()), ...);
    }(std::index_sequence_for<Cases...>());
  }
  /// Calls `function` with each case that waits at a primitive.
  template <class Function>
  void each_waiting(Function&& function) {
    each([&](auto& candidate, auto case_index) {
      if constexpr (select_case<std::remove_reference_t<decltype(candidate)>>)
        function(candidate, case_index);
    });
  }

  /// Calls `attempt` with the cases that wait at a primitive, in random order; returns the index of
  /// the first case for which `attempt` returns true.
  template <class Attempt>
  std::optional<select_wait::index> first(Attempt&& attempt) noexcept {
    std::array<std::uint8_t, count> order;
    shuffle(order);
    for (const std::uint8_t index : order) {
      bool done = false;
      visit(index, [&](auto& candidate, auto) {
        if constexpr (select_case<std::remove_reference_t<decltype(candidate)>>)
          done = attempt(candidate);
      });
      if (done) return index;
    }
    return std::nullopt;
  }

  /// Returns the error of the completed case at `index`; take() returns the result.
  std::error_code error(std::size_t index) noexcept {
    std::error_code error;
    visit(index, [&](auto& candidate, auto) { error = candidate.error(); });
    return error;
  }
  result_type take(std::size_t index) {
    std::optional<result_type> taken;
    visit(index, [&](auto& candidate, auto case_index) {
      if constexpr (std::is_void_v<typename std::remove_reference_t<decltype(candidate)>::result>) {
        candidate.take();
        taken.emplace(std::in_place_index<case_index()>);
      } else {
        taken.emplace(std::in_place_index<case_index()>, candidate.take());
      }
    });
    return std::move(*taken);
  }

 private:
  std::tuple<Cases...> cases_;
};

}  // namespace detail
}  // namespace gyre
