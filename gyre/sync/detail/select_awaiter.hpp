// SPDX-License-Identifier: Apache-2.0
// select_awaiter: the awaiter of select().
#pragma once

#include <gyre/base/operation.hpp>
#include <gyre/sync/detail/select_cases.hpp>
#include <gyre/sync/detail/select_wait.hpp>
#include <gyre/sync/detail/single_wait.hpp>
#include <gyre/task/context.hpp>
#include <gyre/task/detail/cancelled.hpp>
#include <gyre/task/detail/stop_callback_slot.hpp>
#include <gyre/task/detail/transfer.hpp>
#include <gyre/task/executor.hpp>
#include <gyre/task/stop_token.hpp>

#include <cassert>
#include <concepts>
#include <coroutine>
#include <expected>
#include <mutex>
#include <optional>
#include <system_error>
#include <type_traits>
#include <utility>
#include <variant>

namespace gyre::detail {

/// Awaits the first of several cases. Must not be destroyed while its operation is in the queue of
/// the executor: between its wake-up and its resumption, and while begin_on_executor_ is posted.
template <selectable... Cases>
class select_awaiter : stop_callback_slot<select_awaiter<Cases...>> {
  using stop_slot = stop_callback_slot<select_awaiter>;
  using cases = select_cases<Cases...>;
  static constexpr bool has_timeout = (std::same_as<Cases, timeout_case> || ...);

 public:
  using result_type = typename cases::result_type;

  explicit select_awaiter(Cases&&... alternatives) noexcept : cases_(std::move(alternatives)...) {}
  select_awaiter(select_awaiter&& other) noexcept : stop_slot(), cases_(std::move(other.cases_)) {}
  select_awaiter& operator=(select_awaiter&&) = delete;
  ~select_awaiter() {
    if (wait_) [[unlikely]]
      abandon();
  }

  static constexpr bool executor_affine = true;
  bool await_ready() noexcept {
    const auto match = cases_.first([this](auto& candidate) {
      const bool is_complete = attempt_now(candidate);
      ends_turn_ = candidate.ends_turn;
      return is_complete;
    });
    if (match) completed_case_ = *match;
    return match && !ends_turn_;
  }

  template <class Promise>
  bool await_suspend(std::coroutine_handle<Promise> coroutine) noexcept {
    wait_.emplace(coroutine, false);
    if (ends_turn_) return give_way(completed_case_);
    const task_context& context = context_of(coroutine);
    const inplace_stop_token stop = context.stop;
    if constexpr (has_timeout) {
      // Timers may be started only on a thread of their executor.
      executor& target = wait_->where();
      if (!target.running_here() && target.timers() != nullptr) {
        target.post(begin_on_executor_.emplace(*this, stop));
        return true;
      }
    }
    return begin(stop) || gives_way(context, coroutine);
  }

  result_type await_resume() {
    const task_context* context = nullptr;
    if (const std::error_code error = finish(context)) [[unlikely]]
      throw_failure(error, context);
    return cases_.take(completed_case_);
  }

  std::expected<result_type, std::error_code> result() {
    const task_context* context = nullptr;
    if (const std::error_code error = finish(context)) {
      return std::unexpected(failure_value(error, context));
    }
    std::expected<result_type, std::error_code> case_result =
        expected_of([this] { return cases_.take(completed_case_); });
    if (!case_result) [[unlikely]]
      note_taken_error(context);
    return case_result;
  }

 private:
  friend stop_slot;

  struct delayed_begin : operation {
    delayed_begin(select_awaiter& awaiter, inplace_stop_token token) noexcept
        : operation(&run), self(awaiter), stop(token) {}
    static void run(operation& posted_operation) {
      const auto& begins = static_cast<delayed_begin&>(posted_operation);
      const std::coroutine_handle<> coroutine = begins.self.wait_->waiting;
      if (!begins.self.begin(begins.stop)) resume(coroutine);
    }
    select_awaiter& self;
    inplace_stop_token stop;
  };

  // Begins the wait. Returns false if the wait has ended already.
  bool begin(inplace_stop_token stop) noexcept {
    if (!start_timers()) return false;
    if (stop.stop_possible()) {
      wait_->note_callback();
      this->add_stop_callback(stop);
    }
    return suspend();
  }

  void stop() noexcept {
    if (wait_->decide(select_wait::cancelled)) wait_->wake();
  }

  bool give_way(select_wait::index completed_case) noexcept {
    const bool must_wake = wait_->give_way(completed_case);
    must_wake ? wait_->wake() : end_wait(completed_case);
    return must_wake;
  }

  bool suspend() noexcept {
    // The lock_set is on the stack: once the wait is published, the awaiter may be destroyed while
    // unlock() runs.
    lock_set<sizeof...(Cases)> locks;
    cases_.each_waiting([&](auto& candidate, auto index) {
      candidate.wait = &*wait_;
      candidate.index = index;
      locks.add(candidate.mutex());
    });
    select_wait* woken_wait = nullptr;
    locks.lock();
    const auto match = cases_.first([&](auto& candidate) {
      const bool is_complete = candidate.attempt(woken_wait);
      ends_turn_ = candidate.ends_turn;
      return is_complete;
    });
    if (!match) {
      cases_.each_waiting([](auto& candidate, auto) { candidate.enlist(); });
      const bool is_suspended = wait_->publish();
      locks.unlock();
      return is_suspended;
    }
    locks.unlock();
    if (woken_wait != nullptr) woken_wait->wake();
    if (ends_turn_) return give_way(*match);
    end_wait(*match);
    return false;
  }

  // Starts the timers of the time limits. Returns false if the wait has ended, because a deadline
  // has passed or the executor has no timers.
  bool start_timers() noexcept {
    bool wait = true;
    cases_.each([&](auto& candidate, auto index) {
      if constexpr (std::same_as<std::remove_reference_t<decltype(candidate)>, timeout_case>) {
        if (!wait) return;
        timer_service* const timers = wait_->where().timers();
        if (timers != nullptr && candidate.start(*timers, *wait_, index)) return;
        if (timers == nullptr) error_ = std::make_error_code(std::errc::operation_not_supported);
        end_wait(index);
        wait = false;
      }
    });
    return wait;
  }

  void end_wait(select_wait::index completed_case) noexcept {
    completed_case_ = completed_case;
    cases_.each([&](auto& candidate, auto) {
      if constexpr (std::same_as<std::remove_reference_t<decltype(candidate)>, timeout_case>) {
        if (timer_service* const timers = wait_->where().timers()) candidate.end(*timers);
      }
    });
    if (wait_->has_callback()) this->remove_stop_callback(wait_->context().stop);
    wait_.reset();
  }

  // Takes the nodes of all cases but `completed_case` out of their queues.
  void unlink_others(select_wait::index completed_case) noexcept {
    cases_.each_waiting([&](auto& candidate, auto index) {
      if (index == completed_case) return;
      const std::lock_guard hold(candidate.mutex());
      candidate.unlink();
    });
  }

  // Ends the wait, if there was one, and sets `waited_in` to its context. Returns the error, if
  // any.
  std::error_code finish(const task_context*& waited_in) noexcept {
    if (wait_) {
      waited_in = &wait_->context();
      const select_wait::index outcome = wait_->outcome();
      unlink_others(outcome);
      end_wait(outcome);
      if (outcome == select_wait::cancelled)
        return std::make_error_code(std::errc::operation_canceled);
    }
    return error_ ? error_ : cases_.error(completed_case_);
  }

  void abandon() noexcept {
    [[maybe_unused]] const bool has_waited = wait_->abandon();
    assert(has_waited && "a coroutine was destroyed between its wake-up and its resumption");
    unlink_others(select_wait::cancelled);
    end_wait(select_wait::cancelled);
  }

  cases cases_;
  [[no_unique_address]] std::conditional_t<has_timeout, std::optional<delayed_begin>,
                                           std::monostate> begin_on_executor_;
  std::optional<select_wait> wait_;
  select_wait::index completed_case_ = 0;
  bool ends_turn_ = false;  // whether the case that completed at once must yield first
  std::error_code error_;
};

}  // namespace gyre::detail
