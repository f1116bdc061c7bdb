// SPDX-License-Identifier: Apache-2.0
// blocking_call: a system call that may block, made on a thread of a pool while a coroutine awaits
// it.
//
// The pool's queue holds not the awaiter but a ticket from the slab, which stays there when the
// coroutine is gone: a coroutine that is asked to stop while the call waits for a thread is resumed
// at once. A call that has begun uses the coroutine's memory, so its end is awaited. The ticket
// also wakes the coroutine, and is left in the executor's queue if the coroutine is destroyed
// meanwhile.
#pragma once

#include <gyre/task/context.hpp>
#include <gyre/task/detail/cancelled.hpp>
#include <gyre/task/executor.hpp>
#include <gyre/task/stop_token.hpp>

#include <coroutine>
#include <expected>
#include <optional>
#include <system_error>
#include <type_traits>
#include <utility>

namespace gyre::io::detail {

/// blocking_pool(), without its header.
executor& default_pool();

/// The value; else throws as gyre::detail::throw_failure().
template <class T>
T value_or_throw(std::expected<T, std::error_code>&& outcome, const task_context* context,
                 const char* operation) {
  if (!outcome) [[unlikely]]
    gyre::detail::throw_failure(outcome.error(), context, operation);
  if constexpr (!std::is_void_v<T>) return *std::move(outcome);
}

/// The part that does not depend on the call. May be moved until it is awaited.
class blocking_call_base {
 public:
  blocking_call_base& operator=(const blocking_call_base&) = delete;

 protected:
  enum class on_stop : bool { withdraw, ignore };

  /// `pool`: null for default_pool().
  blocking_call_base(executor* pool, on_stop reaction) noexcept : pool_(pool), on_stop_(reaction) {}
  blocking_call_base(const blocking_call_base& other) noexcept
      : pool_(other.pool_), on_stop_(other.on_stop_) {}
  ~blocking_call_base() = default;
  /// Before a waiting coroutine is destroyed, where it would be resumed: withdraws the call, or
  /// waits for its end.
  void abandon() noexcept {
    if (ticket_ != nullptr) [[unlikely]]
      abandon_ticket();
  }

  /// False: there is nothing to wait for, and perform() is not called.
  bool begin(std::coroutine_handle<> awaiting, const task_context& context);
  const task_context* context() const noexcept { return context_; }
  /// When the coroutine is resumed.
  void end() noexcept;
  /// On a thread of the pool.
  virtual void perform() noexcept = 0;

 private:
  class ticket;
  struct stop {
    blocking_call_base* self;
    void operator()() const noexcept { self->withdraw(); }
  };

  void withdraw() noexcept;
  void abandon_ticket() noexcept;

  std::coroutine_handle<> waiting_;
  executor* pool_;
  const task_context* context_ = nullptr;  // once it is awaited
  ticket* ticket_ = nullptr;
  std::optional<inplace_stop_callback<stop>> stop_callback_;
  on_stop on_stop_;
};

/// Awaited, calls `Function`, which returns a std::expected<T, std::error_code> and does not throw.
template <class Function>
class [[nodiscard]] blocking_call final : blocking_call_base {
 public:
  using expected = std::invoke_result_t<Function&>;
  using value_type = typename expected::value_type;
  static_assert(std::is_same_v<typename expected::error_type, std::error_code>);

  /// `name`: of the call, for the exception.
  blocking_call(const char* name, executor* pool, Function call)
      : blocking_call_base(pool, on_stop::withdraw), name_(name), call_(std::move(call)) {}
  blocking_call(blocking_call&& other) noexcept
      : blocking_call_base(other), name_(other.name_), call_(std::move(other.call_)) {}
  ~blocking_call() { abandon(); }

  /// A call that is made even when the coroutine is asked to stop.
  static blocking_call without_stop(const char* name, executor* pool, Function call) {
    return blocking_call(name, pool, std::move(call), on_stop::ignore);
  }

  static constexpr bool executor_affine = true;
  static constexpr bool await_ready() noexcept { return false; }
  template <class Promise>
  bool await_suspend(std::coroutine_handle<Promise> awaiting) {
    const task_context& context = gyre::detail::context_of(awaiting);
    return begin(awaiting, context) || gyre::detail::gives_way(context, awaiting);
  }
  value_type await_resume() { return value_or_throw(outcome(), context(), name_); }
  expected result() {
    expected ended = outcome();
    if (!ended) [[unlikely]]
      return std::unexpected(gyre::detail::failure_value(ended.error(), context()));
    return ended;
  }
  /// As result(), with every error as a value.
  expected outcome() noexcept {
    end();
    if (result_) return *std::move(result_);
    return std::unexpected(std::make_error_code(std::errc::operation_canceled));
  }

 private:
  blocking_call(const char* name, executor* pool, Function call, on_stop reaction)
      : blocking_call_base(pool, reaction), name_(name), call_(std::move(call)) {}

  void perform() noexcept override { result_.emplace(call_()); }

  const char* name_;
  Function call_;
  std::optional<expected> result_;
};

}  // namespace gyre::io::detail
