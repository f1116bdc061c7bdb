// SPDX-License-Identifier: Apache-2.0
// select: awaits the first of several operations and leaves the others undone.
//
//     auto chosen = co_await gyre::select(gyre::on_receive(jobs), gyre::on_send(log, line),
//                                         gyre::on_timeout(5s));
//     switch (chosen.index()) {
//       case 0: run(std::get<0>(chosen)); break;  // a std::optional<job>
//       case 1: break;                            // sent
//       case 2: throw too_slow();
//     }
#pragma once

#include <gyre/base/clock.hpp>
#include <gyre/base/detail/awaited_value.hpp>
#include <gyre/base/duration.hpp>
#include <gyre/base/timer_operation.hpp>
#include <gyre/sync/channel.hpp>
#include <gyre/sync/detail/select_wait.hpp>
#include <gyre/sync/detail/single_wait.hpp>
#include <gyre/sync/detail/spin_lock.hpp>
#include <gyre/task/detail/cancelled.hpp>
#include <gyre/task/executor.hpp>

#include <algorithm>
#include <array>
#include <cassert>
#include <chrono>
#include <concepts>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <functional>
#include <mutex>
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

/// The case of a time limit.
class timeout_case : public timer_operation {
 public:
  using result = timed_out;
  explicit timeout_case(duration delay) noexcept : timer_operation(&expired), delay_(delay) {}
  explicit timeout_case(time_point deadline) noexcept
      : timer_operation(&expired), deadline_(deadline) {}
  timeout_case(timeout_case&& other) noexcept
      : timer_operation(&expired), delay_(other.delay_), deadline_(other.deadline_) {}

  /// False if the deadline has passed.
  bool start(timer_service& timers, select_wait& wait, select_wait::index index) noexcept {
    const steady_time now = timers.now();
    const steady_time deadline = deadline_ ? *deadline_ : later(now, delay_);
    if (deadline <= now) return false;
    wait_ = &wait;
    index_ = index;
    timers.start_timer(*this, deadline);
    return true;
  }
  /// Afterwards the timer does not expire, and is not expiring on another thread of the executor.
  /// For the coroutine that has ended its wait.
  void end(timer_service& timers) noexcept {
    if (wait_ == nullptr || timers.cancel_timer(*this)) return;
    // acquire: pairs with the release in expired().
    while (!has_expired_.load(std::memory_order_acquire)) thread_yield();
  }
  static std::error_code error() noexcept { return {}; }
  static timed_out take() noexcept { return {}; }

 private:
  static void expired(timer_operation& timer) {
    auto& self = static_cast<timeout_case&>(timer);
    select_wait& wait = *self.wait_;
    const bool must_wake = wait.decide(self.index_);
    // release: pairs with the acquire in end(), after which all this may be gone, unless the
    // coroutine waits to be woken from here.
    self.has_expired_.store(true, std::memory_order_release);
    if (must_wake) wait.wake();
  }

  std::chrono::nanoseconds delay_{};
  std::optional<steady_time> deadline_;
  select_wait* wait_ = nullptr;  // null unless it was started
  select_wait::index index_ = 0;
  atomic<bool> has_expired_{false};
};

template <class T>
concept selectable = select_case<T> || std::same_as<T, timeout_case>;

/// The type in the result's variant.
template <class T>
using variant_member = std::conditional_t<std::is_void_v<T>, std::monostate, T>;

/// Fills `order` with a random permutation of the numbers from 0 on.
void shuffle(std::span<std::uint8_t> order) noexcept;

/// The locks of several primitives, each once, taken in the order of their addresses.
template <std::size_t Most>
class lock_set {
 public:
  void add(spin_lock& lock) noexcept {
    const auto end = locks_.begin() + count_;
    const auto at = std::lower_bound(locks_.begin(), end, &lock, std::less<>());
    if (at != end && *at == &lock) return;
    std::move_backward(at, end, end + 1);
    *at = &lock;
    ++count_;
  }
  void lock() noexcept {
    for (std::ptrdiff_t i = 0; i < count_; ++i) locks_[static_cast<std::size_t>(i)]->lock();
  }
  void unlock() noexcept {
    for (std::ptrdiff_t i = 0; i < count_; ++i) locks_[static_cast<std::size_t>(i)]->unlock();
  }

 private:
  std::array<spin_lock*, Most> locks_;
  std::ptrdiff_t count_ = 0;
};

/// The cases of a select.
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
    each([&](auto& one, auto at) {
      if (at == index) function(one, at);
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
    each([&](auto& one, auto at) {
      if constexpr (select_case<std::remove_reference_t<decltype(one)>>) function(one, at);
    });
  }

  /// Tries the cases in random order; returns the index of the first for which `attempt` is true.
  template <class Attempt>
  std::optional<select_wait::index> first(Attempt&& attempt) noexcept {
    std::array<std::uint8_t, count> order;
    shuffle(order);
    for (const std::uint8_t index : order) {
      bool done = false;
      visit(index, [&](auto& one, auto) {
        if constexpr (select_case<std::remove_reference_t<decltype(one)>>) done = attempt(one);
      });
      if (done) return index;
    }
    return std::nullopt;
  }

  /// The result of the case at `index`.
  std::error_code error(std::size_t index) noexcept {
    std::error_code error;
    visit(index, [&](auto& one, auto) { error = one.error(); });
    return error;
  }
  result_type take(std::size_t index) {
    std::optional<result_type> taken;
    visit(index, [&](auto& one, auto at) {
      if constexpr (std::is_void_v<typename std::remove_reference_t<decltype(one)>::result>) {
        one.take();
        taken.emplace(std::in_place_index<at()>);
      } else {
        taken.emplace(std::in_place_index<at()>, one.take());
      }
    });
    return std::move(*taken);
  }

 private:
  std::tuple<Cases...> cases_;
};

/// Awaits the first of several cases. Must not be destroyed while its operation is in the queue of
/// the executor: between its wake-up and its resumption, or before it has begun to wait.
template <selectable... Cases>
class select_awaiter {
  using cases = select_cases<Cases...>;
  static constexpr bool has_timeout = (std::same_as<Cases, timeout_case> || ...);

 public:
  using result_type = typename cases::result_type;

  explicit select_awaiter(Cases&&... alternatives) noexcept : cases_(std::move(alternatives)...) {}
  select_awaiter(select_awaiter&& other) noexcept : cases_(std::move(other.cases_)) {}
  select_awaiter& operator=(select_awaiter&&) = delete;
  ~select_awaiter() {
    if (wait_) [[unlikely]]
      abandon();
  }

  static constexpr bool executor_affine = true;
  bool await_ready() noexcept {
    const auto now = cases_.first([this](auto& one) {
      const bool done = attempt_now(one);
      ends_turn_ = one.ends_turn;
      return done;
    });
    if (now) chosen_ = *now;
    return now && !ends_turn_;
  }

  template <class Promise>
  bool await_suspend(std::coroutine_handle<Promise> awaiting) noexcept {
    wait_.emplace(awaiting);
    if (ends_turn_) {
      if (wait_->give_way(chosen_)) return true;
      wait_.reset();
      return false;
    }
    const task_context& context = context_of(awaiting);
    const inplace_stop_token stop = context.stop;
    if constexpr (has_timeout) {
      // Timers belong to the executor's threads.
      executor& home = wait_->where();
      if (!home.running_here() && home.timers() != nullptr) {
        home.post(begin_at_home_.emplace(*this, stop));
        return true;
      }
    }
    return begin(stop) || gives_way(context, awaiting);
  }

  result_type await_resume() {
    const task_context* context = nullptr;
    if (const std::error_code error = finish(context)) [[unlikely]]
      throw_failure(error, context);
    return cases_.take(chosen_);
  }

  std::expected<result_type, std::error_code> result() {
    const task_context* context = nullptr;
    if (const std::error_code error = finish(context)) {
      return std::unexpected(failure_value(error, context));
    }
    std::expected<result_type, std::error_code> taken =
        expected_of([this] { return cases_.take(chosen_); });
    if (!taken) [[unlikely]]
      note_taken_error(context);
    return taken;
  }

 private:
  struct delayed_begin : operation {
    delayed_begin(select_awaiter& awaiter, inplace_stop_token token) noexcept
        : operation(&run), self(awaiter), stop(token) {}
    static void run(operation& posted) {
      const auto& begins = static_cast<delayed_begin&>(posted);
      const std::coroutine_handle<> awaiting = begins.self.wait_->waiting;
      if (!begins.self.begin(begins.stop)) resume(awaiting);
    }
    select_awaiter& self;
    inplace_stop_token stop;
  };

  // False if it need not wait.
  bool begin(inplace_stop_token stop) noexcept {
    if (!start_timers()) return false;
    wait_->cancel_on(stop);
    return suspend();
  }

  bool suspend() noexcept {
    // On the stack: once it is published, the awaiter may be gone when the locks are.
    lock_set<sizeof...(Cases)> locks;
    cases_.each_waiting([&](auto& one, auto index) {
      one.wait = &*wait_;
      one.index = index;
      locks.add(one.lock());
    });
    select_wait* woken = nullptr;
    locks.lock();
    const auto now = cases_.first([&](auto& one) {
      const bool done = one.attempt(woken);
      ends_turn_ = one.ends_turn;
      return done;
    });
    if (!now) {
      cases_.each_waiting([](auto& one, auto) { one.enlist(); });
      const bool suspended = wait_->publish();
      locks.unlock();
      return suspended;
    }
    locks.unlock();
    if (woken != nullptr) woken->wake();
    if (ends_turn_ && wait_->give_way(*now)) return true;
    end_wait(*now);
    return false;
  }

  // False if it need not wait.
  bool start_timers() noexcept {
    bool wait = true;
    cases_.each([&](auto& one, auto index) {
      if constexpr (std::same_as<std::remove_reference_t<decltype(one)>, timeout_case>) {
        if (!wait) return;
        timer_service* const timers = wait_->where().timers();
        if (timers != nullptr && one.start(*timers, *wait_, index)) return;
        if (timers == nullptr) error_ = std::make_error_code(std::errc::operation_not_supported);
        end_wait(index);
        wait = false;
      }
    });
    return wait;
  }

  void end_wait(select_wait::index chosen) noexcept {
    chosen_ = chosen;
    cases_.each([&](auto& one, auto) {
      if constexpr (std::same_as<std::remove_reference_t<decltype(one)>, timeout_case>) {
        if (timer_service* const timers = wait_->where().timers()) one.end(*timers);
      }
    });
    wait_.reset();
  }

  // Takes the nodes out of the other cases' queues.
  void unlink_others(select_wait::index chosen) noexcept {
    cases_.each_waiting([&](auto& one, auto index) {
      if (index == chosen) return;
      const std::lock_guard hold(one.lock());
      one.unlink();
    });
  }

  // Sets `waited_in` to the context of the wait, if there was one.
  std::error_code finish(const task_context*& waited_in) noexcept {
    if (wait_) {
      waited_in = &wait_->context();
      const select_wait::index chosen = wait_->outcome();
      unlink_others(chosen);
      end_wait(chosen);
      if (chosen == select_wait::cancelled)
        return std::make_error_code(std::errc::operation_canceled);
    }
    return error_ ? error_ : cases_.error(chosen_);
  }

  void abandon() noexcept {
    [[maybe_unused]] const bool waited = wait_->abandon();
    assert(waited && "a coroutine was destroyed between its wake-up and its resumption");
    unlink_others(select_wait::cancelled);
    end_wait(select_wait::cancelled);
  }

  cases cases_;
  [[no_unique_address]] std::conditional_t<has_timeout, std::optional<delayed_begin>,
                                           std::monostate> begin_at_home_;
  std::optional<select_wait> wait_;
  select_wait::index chosen_ = 0;
  bool ends_turn_ = false;  // the case that completed at once says so
  std::error_code error_;
};

}  // namespace detail

/// A case of select(): receives from `channel`, with the result of its receive(). broadcast.hpp,
/// watch.hpp and oneshot.hpp have cases of their own.
template <class T, class Buffer>
[[nodiscard]] auto on_receive(detail::channel_interface<T, Buffer>& channel) noexcept {
  return detail::receive_case(detail::channel_access::core(channel));
}

/// A case of select(): sends `value`, as channel::send(). The result is std::monostate.
template <class T>
[[nodiscard]] auto on_send(channel<T>& channel,
                           std::type_identity_t<detail::awaited_value<T>> value) noexcept {
  using sending = detail::send_case<T, detail::ring_buffer<T>, T>;
  return sending(detail::channel_access::core(channel), static_cast<T&&>(std::move(value)));
}
/// As on_send(), but moves from `value` only when it is sent, as channel::send_from().
template <class T>
[[nodiscard]] auto on_send_from(channel<T>& channel, std::type_identity_t<T>& value) noexcept {
  using sending = detail::send_case<T, detail::ring_buffer<T>, T&>;
  return sending(detail::channel_access::core(channel), value);
}

/// A case of select(): a limit of `delay` from the beginning of the wait. The result is timed_out.
[[nodiscard]] inline auto on_timeout(duration delay) noexcept {
  return detail::timeout_case(delay);
}
/// A case of select(): the time limit `deadline`. The result is timed_out.
[[nodiscard]] inline auto on_deadline(time_point deadline) noexcept {
  return detail::timeout_case(deadline);
}

/// Awaited, waits until one of `cases` can complete, completes that one and none of the others, and
/// gives a std::variant with its result at its index. If several can, the choice is random. Cases
/// may share a channel; there are 64 at most.
///
/// A closed channel completes its case at once: a send with an exception, a receive, if the channel
/// is empty, with nullopt. Values of on_send() that were not sent are destroyed. With a time limit
/// a select begins on a thread of its executor.
///
/// Lifetime: what the cases refer to must outlive the select.
/// Errors: operation_cancelled when asked to stop, and no case has completed;
/// std::errc::operation_not_supported for a time limit where the executor has no timers.
/// Complexity: a node in the queue of each case, no allocation. The locks of all their channels are
/// held at once for a moment.
template <detail::selectable... Cases>
[[nodiscard]] auto select(Cases... cases) noexcept {
  return detail::select_awaiter<Cases...>(std::move(cases)...);
}

/// Completes one of `cases` if one can complete now, else returns nullopt; needs no coroutine. Time
/// limits are no cases here. Throws std::system_error (channel_errc::closed) for a send into a
/// closed channel.
template <detail::select_case... Cases>
[[nodiscard]] auto try_select(Cases... cases)
    -> std::optional<typename detail::select_cases<Cases...>::result_type> {
  detail::select_cases<Cases...> all(std::move(cases)...);
  const auto chosen = all.first([](auto& one) { return detail::attempt_now(one); });
  if (!chosen) return std::nullopt;
  if (const std::error_code error = all.error(*chosen)) throw std::system_error(error);
  return all.take(*chosen);
}

}  // namespace gyre
