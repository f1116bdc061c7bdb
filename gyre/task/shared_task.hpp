// SPDX-License-Identifier: Apache-2.0
// shared_task: a coroutine that runs once and whose result any number of coroutines may await.
//
//     gyre::shared_task<config> settings = load_settings();  // starts when first awaited
//
//     const config& here = co_await settings;  // on any executor, any number of times
#pragma once

#include <gyre/task/detail/shared_work.hpp>
#include <gyre/task/executor.hpp>
#include <gyre/task/task.hpp>

#include <concepts>
#include <type_traits>
#include <utility>

namespace gyre {

/// A copyable handle of a coroutine that runs once, when a copy of the handle is first awaited, and
/// whose result all awaiters receive. Can be the return type of a coroutine, or be made from any
/// task.
///
/// Awaiting an lvalue returns `const T&` (`T` if that is a reference or void), which is valid as
/// long as any copy of the handle exists. Awaiting an rvalue returns a copy of the result, or the
/// reference if T is not copyable. The work runs on the executor of its first awaiter, or on the
/// executor passed to the constructor: pass one if the first awaiter's executor may be destroyed
/// before the work has ended. The work has a stop token of its own, and no task-local values.
///
/// Destroying handles does not cancel the work: it is cancelled when the last awaiter leaves. For
/// work that one handle owns and stops, see join_handle (gyre/task/join_handle.hpp). A stop ends
/// the wait of one awaiter at once while others wait. The last awaiter asks the work to stop and
/// waits for its end; if the coroutine of the last awaiter is destroyed, the work is asked to stop
/// as well. The work is then abandoned: awaiting it fails at once with std::errc::owner_dead,
/// unless the work still ends with a value. A cache replaces an abandoned handle:
///
///     try {
///       co_return co_await loading;
///     } catch (const std::system_error& error) {
///       if (error.code() != std::errc::owner_dead) throw;
///     }
///     if (loading.is_abandoned()) loading = load_settings();  // no other awaiter has done so yet
///
/// Thread-safety: one handle belongs to one thread at a time; copies may be used on any threads at
/// once. Each awaiter resumes on its own executor.
/// Lifetime: a handle may be destroyed or assigned to while it is awaited.
/// Errors: awaiting throws the work's exception, the same object for all awaiters; std::logic_error
/// if the handle is empty; gyre::operation_cancelled; std::system_error (std::errc::owner_dead).
/// Complexity: copying costs an atomic increment; awaiting costs a load when the work is done, else
/// a short lock; no allocation. State and frame come from the slab. Chains of shared tasks use
/// constant stack.
template <class T = void>
class [[nodiscard]] shared_task {
  using state = detail::shared_state<T>;

  template <class Result>
  class awaiter : public detail::shared_waiter {
   public:
    using detail::shared_waiter::shared_waiter;
    Result await_resume() {
      this->end_wait_or_throw();
      return static_cast<state&>(this->work()).result();
    }
  };

 public:
  using promise_type = typename task<T>::promise_type;
  using value_type = T;

  /// Makes an empty handle.
  shared_task() noexcept = default;
  /// Makes a handle of `work`. Throws std::logic_error if `work` is empty, or std::bad_alloc.
  shared_task(task<T> work) : shared_task(std::move(work), nullptr) {}  // NOLINT: return type
  /// Makes a handle of `work`, as shared_task(work) does, that runs on `target`.
  shared_task(task<T> work, executor& target) : shared_task(std::move(work), &target) {}

  shared_task(const shared_task& other) noexcept : state_(other.state_) {
    if (state_ != nullptr) state_->acquire();
  }
  shared_task(shared_task&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
  shared_task& operator=(shared_task other) noexcept {
    std::swap(state_, other.state_);
    return *this;
  }
  ~shared_task() {
    if (state_ != nullptr) state_->release();
  }

  /// Returns whether the handle is not empty.
  [[nodiscard]] bool valid() const noexcept { return state_ != nullptr; }
  /// Returns whether the work has ended, so that an await need not wait.
  [[nodiscard]] bool is_done() const noexcept { return state_ != nullptr && state_->is_done(); }
  /// Returns whether an await fails with std::errc::owner_dead, because the last awaiter has left.
  /// Returns false again if the work ends with a value.
  [[nodiscard]] bool is_abandoned() const noexcept {
    return state_ != nullptr && state_->is_abandoned();
  }

  auto operator co_await() const& { return awaiter<detail::shared_result_t<T>>(work()); }
  template <class U = T>
    requires(!std::is_object_v<U> || std::copy_constructible<U>)
  auto operator co_await() && {
    return awaiter<std::remove_cv_t<U>>(work());
  }

 private:
  state& work() const {
    if (state_ == nullptr) [[unlikely]]
      detail::throw_empty_shared_task();
    return *state_;
  }

  shared_task(task<T>&& work, executor* target) {
    if (!work.valid()) detail::throw_empty_task();
    state_ = new state(std::move(work), target);
  }

  state* state_ = nullptr;
};

}  // namespace gyre
