// SPDX-License-Identifier: Apache-2.0
// callback_state: the state that a coroutine in from_callback() shares with its completions;
// callback_awaiter: the awaiter of from_callback().
#pragma once

#include <gyre/base/atomic.hpp>
#include <gyre/base/detail/slab_object.hpp>
#include <gyre/task/context.hpp>
#include <gyre/task/detail/cancelled.hpp>
#include <gyre/task/detail/resumption.hpp>
#include <gyre/task/detail/wait_core.hpp>
#include <gyre/task/executor.hpp>
#include <gyre/task/stop_token.hpp>

#include <concepts>
#include <coroutine>
#include <exception>
#include <optional>
#include <system_error>
#include <type_traits>
#include <utility>
#include <variant>

namespace gyre {

template <class T>
class completion;

namespace detail {

/// The state that a waiting coroutine shares with its completions. The first of three events to
/// claim it sets the result: a completion's report, a stop, or the destruction of the last
/// completion.
class callback_state : public slab_object, public resumption {  // NOLINT: it deletes itself
 public:
  using failure = std::variant<std::monostate, std::error_code, std::exception_ptr>;

  /// Claims the right to report the outcome. Returns true for the first caller, which must then set
  /// the outcome and call publish().
  bool claim() noexcept { return core_.claim(right_to_report); }
  void publish() noexcept;
  bool fail(failure error) noexcept;

  void add_completion() noexcept {
    // relaxed: the caller holds a completion, so the count is above zero.
    completions_.fetch_add(1, std::memory_order_relaxed);
  }
  void end_completion() noexcept;

  // The following members belong to the waiting coroutine.
  /// Begins the wait, after the operation was started. Returns false if the outcome is set already;
  /// otherwise publish() resumes the coroutine. Called once.
  bool begin_wait() noexcept { return !core_.leave(starter); }
  /// Called when the coroutine is destroyed before it received the outcome.
  void abandon() noexcept;
  void release() noexcept;

  executor* where = nullptr;

 protected:
  callback_state() noexcept = default;
  virtual ~callback_state() = default;

  failure error_;

 private:
  static constexpr wait_core::parties starter = 1;
  static constexpr wait_core::parties reporter = 2;
  static constexpr wait_core::parties right_to_report = 4;

  wait_core core_{starter | reporter | right_to_report};
  atomic<unsigned> completions_{1};
  atomic<unsigned> owners_{2};  // one for the coroutine, and one for all completions together
};

template <class T>
class callback_outcome final : public callback_state {
 public:
  using stored = std::conditional_t<std::is_void_v<T>, std::monostate, T>;

  template <class... Arguments>
  bool set(Arguments&&... arguments) noexcept {
    if (!claim()) return false;
    try {
      value_.emplace(std::forward<Arguments>(arguments)...);
    } catch (...) {
      error_ = std::current_exception();
    }
    publish();
    return true;
  }

  T take(const task_context* context) {
    if (value_) [[likely]] {
      if constexpr (std::is_void_v<T>) {
        return;
      } else {
        return std::move(*value_);
      }
    }
    if (auto* code = std::get_if<std::error_code>(&error_)) throw_failure(*code, context);
    std::rethrow_exception(std::get<std::exception_ptr>(error_));
  }

 private:
  std::optional<stored> value_;
};

/// Stands for an omitted `on_stop`: a stop request then ends the wait at once, with
/// operation_canceled.
struct no_stop_function {};

template <class T, class Start, class OnStop>
class callback_awaiter {
 public:
  callback_awaiter(Start&& start, OnStop&& on_stop)
      : start_(std::move(start)), on_stop_(std::move(on_stop)) {}
  // An awaiter moves only before it is awaited.
  callback_awaiter(callback_awaiter&& other) noexcept(std::is_nothrow_move_constructible_v<Start> &&
                                                      std::is_nothrow_move_constructible_v<OnStop>)
      : start_(std::move(other.start_)), on_stop_(std::move(other.on_stop_)) {}
  ~callback_awaiter() {
    if (state_ == nullptr) [[likely]]
      return;
    stop_callback_.reset();
    state_->abandon();
    state_->release();
  }

  static constexpr bool executor_affine = true;
  static constexpr bool await_ready() noexcept { return false; }
  template <class Promise>
  bool await_suspend(std::coroutine_handle<Promise> coroutine) {
    const task_context& context = context_of(coroutine);
    context_ = &context;
    state_ = new callback_outcome<T>;
    state_->waiting = coroutine;
    state_->where = context.where;
    completion<T> callback(*state_);
    if (context.stop.stop_requested()) {
      callback.set_error(std::make_error_code(std::errc::operation_canceled));
      return gives_way(context, coroutine);
    }
    start_(std::move(callback));
    if (context.stop.stop_possible()) stop_callback_.emplace(context.stop, stop{this});
    return state_->begin_wait();
  }
  T await_resume() {
    stop_callback_.reset();
    const struct owner {
      callback_outcome<T>* state;
      ~owner() { state->release(); }
    } release_guard{std::exchange(state_, nullptr)};
    return release_guard.state->take(context_);
  }

 private:
  struct stop {
    callback_awaiter* self;
    void operator()() const noexcept {
      if constexpr (std::same_as<OnStop, no_stop_function>) {
        self->state_->fail(std::make_error_code(std::errc::operation_canceled));
      } else {
        self->on_stop_();
      }
    }
  };

  Start start_;
  [[no_unique_address]] OnStop on_stop_;
  callback_outcome<T>* state_ = nullptr;
  const task_context* context_ = nullptr;
  std::optional<inplace_stop_callback<stop>> stop_callback_;
};

}  // namespace detail
}  // namespace gyre
