// SPDX-License-Identifier: Apache-2.0
// A system call that may block, made on a thread of a pool while a coroutine waits for it.
//
// What waits in the pool's queue is not the awaiter but a ticket from the slab, which stays there
// when the coroutine goes: a coroutine that is asked to stop while the call waits for a thread goes
// on at once. When the call has begun it uses the coroutine's memory, so it is waited for. The ticket
// is also what wakes the coroutine, and what is left in its executor's queue when that goes meanwhile.
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

/// blocking_pool(), for those who need not know what it is.
executor& default_pool();

/// The value; else throws as gyre::detail::throw_failure().
template <class T>
T value_or_throw(std::expected<T, std::error_code>&& ended, const task_context* context,
                 const char* what) {
  if (!ended) [[unlikely]]
    gyre::detail::throw_failure(ended.error(), context, what);
  if constexpr (!std::is_void_v<T>) return *std::move(ended);
}

/// The part that does not depend on the call. May be moved until it is awaited.
class blocking_call_base {
 public:
  blocking_call_base& operator=(const blocking_call_base&) = delete;

 protected:
  enum class on_stop : bool { give_up, go_on };

  /// `pool`: null for default_pool().
  blocking_call_base(executor* pool, on_stop stopping) noexcept
      : pool_(pool), stopping_(stopping) {}
  blocking_call_base(const blocking_call_base& other) noexcept
      : pool_(other.pool_), stopping_(other.stopping_) {}
  ~blocking_call_base() = default;
  /// Before a coroutine that waits is destroyed, where it would go on: takes the call back, or waits
  /// for its end.
  void withdraw() noexcept {
    if (ticket_ != nullptr) [[unlikely]]
      withdraw_ticket();
  }

  /// False: the coroutine goes on at once, and perform() is not called.
  bool begin(std::coroutine_handle<> awaiting, const task_context& context);
  const task_context* context() const noexcept { return context_; }
  /// When the coroutine goes on.
  void end() noexcept;
  /// On a thread of the pool.
  virtual void perform() noexcept = 0;

 private:
  class ticket;
  struct stop {
    blocking_call_base* self;
    void operator()() const noexcept { self->give_up(); }
  };

  void give_up() noexcept;
  void withdraw_ticket() noexcept;

  std::coroutine_handle<> waiting_;
  executor* pool_;
  const task_context* context_ = nullptr;  // once it is awaited
  ticket* ticket_ = nullptr;
  std::optional<inplace_stop_callback<stop>> stop_callback_;
  on_stop stopping_;
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
      : blocking_call_base(pool, on_stop::give_up), name_(name), call_(std::move(call)) {}
  blocking_call(blocking_call&& other) noexcept
      : blocking_call_base(other), name_(other.name_), call_(std::move(other.call_)) {}
  ~blocking_call() { withdraw(); }

  /// A call that is made even when the coroutine is asked to stop.
  static blocking_call made_in_any_case(const char* name, executor* pool, Function call) {
    return blocking_call(name, pool, std::move(call), on_stop::go_on);
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
  blocking_call(const char* name, executor* pool, Function call, on_stop stopping)
      : blocking_call_base(pool, stopping), name_(name), call_(std::move(call)) {}

  void perform() noexcept override { result_.emplace(call_()); }

  const char* name_;
  Function call_;
  std::optional<expected> result_;
};

}  // namespace gyre::io::detail
