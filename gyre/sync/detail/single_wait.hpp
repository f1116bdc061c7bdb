// SPDX-License-Identifier: Apache-2.0
// single_wait: the awaiter of a single case, for channels, broadcast, watch and oneshot.
#pragma once

#include <gyre/sync/detail/primitive_wait.hpp>
#include <gyre/sync/detail/select_wait.hpp>
#include <gyre/sync/detail/spin_lock.hpp>
#include <gyre/task/detail/cancelled.hpp>
#include <gyre/task/detail/stop_callback_slot.hpp>

#include <cassert>
#include <concepts>
#include <coroutine>
#include <expected>
#include <memory>
#include <mutex>
#include <new>
#include <system_error>
#include <type_traits>
#include <utility>

namespace gyre::detail {

/// A case of select(): a node, and the attempt that completes it. Movable until it is enlisted.
template <class T>
concept select_case = std::derived_from<T, select_node> && std::move_constructible<T> &&
                      requires(T& object, select_wait*& woken_wait) {
                        typename T::result;
                        // The primitive's lock, which is held during attempt() and enlist().
                        { object.mutex() } noexcept -> std::same_as<spin_lock&>;
                        // Completes the case if that is possible now. May set `woken_wait` to a
                        // claimed wait, which the caller wakes after unlocking.
                        { object.attempt(woken_wait) } noexcept -> std::same_as<bool>;
                        // Puts the node into a queue of the primitive.
                        { object.enlist() } noexcept -> std::same_as<void>;
                        // The error and the result of the completed case.
                        { object.error() } noexcept -> std::same_as<std::error_code>;
                        { object.take() } -> std::same_as<typename T::result>;
                        // Optional: must_wait(), called without the lock, returns true only if an
                        // attempt would fail now.
                      };

/// Completes `candidate` if that is possible now. Returns whether it has completed.
template <select_case Case>
bool attempt_now(Case& candidate) noexcept {
  select_wait* woken_wait = nullptr;
  spin_lock& lock = candidate.mutex();
  lock.lock();
  const bool is_complete = candidate.attempt(woken_wait);
  lock.unlock();
  if (woken_wait != nullptr) woken_wait->wake();
  return is_complete;
}

/// Calls `take`. Returns its result or, if it throws std::system_error or std::bad_alloc, the error
/// code.
template <class Take>
auto expected_of(Take take) noexcept(noexcept(take()))
    -> std::expected<std::invoke_result_t<Take>, std::error_code> {
  try {
    if constexpr (std::is_void_v<std::invoke_result_t<Take>>) {
      take();
      return {};
    } else {
      return take();
    }
  } catch (const std::system_error& error) {
    return std::unexpected(error.code());
  } catch (const std::bad_alloc&) {
    return std::unexpected(std::make_error_code(std::errc::not_enough_memory));
  }
}

/// Awaits one case. Must not be destroyed between the wake-up and the resumption of the coroutine.
template <select_case Case>
class single_wait : stop_callback_slot<single_wait<Case>> {
  using stop_slot = stop_callback_slot<single_wait>;

 public:
  using result_type = typename Case::result;

  template <class... Arguments>
  explicit single_wait(std::in_place_t, Arguments&&... arguments)
      : case_(std::forward<Arguments>(arguments)...) {}
  single_wait(single_wait&& other) noexcept : stop_slot(), case_(std::move(other.case_)) {}
  single_wait& operator=(single_wait&&) = delete;
  ~single_wait() {
    if (waits()) [[unlikely]]
      abandon();
  }

  static constexpr bool executor_affine = true;
  bool await_ready() noexcept {
    if constexpr (requires { case_.must_wait(); }) {
      if (case_.must_wait()) return false;
    }
    return attempt_now(case_) && !case_.ends_turn;
  }

  template <class Promise>
  bool await_suspend(std::coroutine_handle<Promise> coroutine) noexcept {
    const task_context& context = context_of(coroutine);
    case_.wait = std::construct_at(&wait_, coroutine, true);
    case_.index = 0;
    if (case_.ends_turn) return give_way();
    if (context.stop.stop_possible()) {
      wait_.note_callback();
      this->add_stop_callback(context.stop);
    }
    return suspend() || gives_way(context, coroutine);
  }

  result_type await_resume() {
    if (const task_context* const context = finish()) throw_cancelled(*context);
    if (const std::error_code error = case_.error()) [[unlikely]]
      throw std::system_error(error);
    return case_.take();
  }

  std::expected<result_type, std::error_code> result() {
    const task_context* const waited_in = waits() ? &wait_.context() : nullptr;
    if (const task_context* const context = finish()) return cancelled_result(*context);
    if (const std::error_code error = case_.error()) return std::unexpected(error);
    auto case_result =
        expected_of([this]() noexcept(noexcept(case_.take())) { return case_.take(); });
    if (!case_result) [[unlikely]]
      note_taken_error(waited_in);
    return case_result;
  }

 private:
  friend stop_slot;

  // Returns whether wait_ is alive.
  [[nodiscard]] bool waits() const noexcept { return case_.wait != nullptr; }

  void stop() noexcept {
    spin_lock& lock = case_.mutex();
    lock.lock();
    const bool must_wake = wait_.decide(select_wait::cancelled);
    lock.unlock();
    if (must_wake) wait_.wake();
  }

  bool suspend() noexcept {
    select_wait* woken_wait = nullptr;
    spin_lock& lock = case_.mutex();
    lock.lock();
    if (!case_.attempt(woken_wait)) {
      case_.enlist();
      const bool is_suspended = wait_.publish();
      lock.unlock();  // if is_suspended, this may be gone from here on
      return is_suspended;
    }
    lock.unlock();
    if (woken_wait != nullptr) woken_wait->wake();
    if (case_.ends_turn) return give_way();
    end_wait();
    return false;
  }

  bool give_way() noexcept {
    spin_lock& lock = case_.mutex();
    lock.lock();
    const bool must_wake = wait_.give_way(case_.index);
    lock.unlock();
    must_wake ? wait_.wake() : end_wait();
    return must_wake;
  }

  // Ends the wait. Returns its context if the wait was cancelled, else null.
  const task_context* finish() noexcept {
    if (!waits()) return nullptr;
    const bool is_completed = wait_.outcome() != select_wait::cancelled;
    const task_context* const context = is_completed ? nullptr : &wait_.context();
    if (!is_completed) {
      const std::lock_guard hold(case_.mutex());
      case_.unlink();
    }
    end_wait();
    return context;
  }

  void abandon() noexcept {
    {
      const std::lock_guard hold(case_.mutex());
      [[maybe_unused]] const bool has_waited = wait_.abandon();
      assert(has_waited && "a coroutine was destroyed between its wake-up and its resumption");
      case_.unlink();
    }
    end_wait();
  }

  void end_wait() noexcept {
    if (wait_.has_callback()) this->remove_stop_callback(wait_.context().stop);
    std::destroy_at(&wait_);
    case_.wait = nullptr;
  }

  Case case_;
  union {
    select_wait wait_;  // exists while waits() is true
  };
};

}  // namespace gyre::detail
