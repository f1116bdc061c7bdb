// SPDX-License-Identifier: Apache-2.0
// task_sender: makes a task a sender of std::execution.
#pragma once

#include <gyre/base/operation.hpp>
#include <gyre/task/adapter/detail/execution.hpp>
#include <gyre/task/context.hpp>
#include <gyre/task/detail/cancelled.hpp>
#include <gyre/task/detail/recorded_task.hpp>
#include <gyre/task/executor.hpp>
#include <gyre/task/stop_token.hpp>
#include <gyre/task/task.hpp>

#include <coroutine>
#include <exception>
#include <new>
#include <optional>
#include <source_location>
#include <type_traits>
#include <utility>

namespace gyre::detail {

/// Posts `op`, or calls `discard(op)`. `op` may have been destroyed when this function returns.
inline void post_or_discard(executor& target, operation& op,
                            void (*discard)(operation& op) noexcept) noexcept {
  try {
    target.post_discardable(op, discard);
  } catch (const std::bad_alloc&) {  // NOLINT: thrown after `discard` was called
  }
}

/// Translates the stop token of a receiver into a token of gyre, valid between begin() and end().
template <class Token>
class received_stop {
 public:
  inplace_stop_token begin(Token token) noexcept {
    if (!token.stop_possible()) return {};
    callback_.emplace(std::move(token), request_stop_of{&source_});
    return source_.get_token();
  }
  void end() noexcept { callback_.reset(); }

 private:
  inplace_stop_source source_;
  std::optional<execution::stop_callback_for_t<Token, request_stop_of>> callback_;
};
template <>
class received_stop<inplace_stop_token> {
 public:
  static inplace_stop_token begin(inplace_stop_token token) noexcept { return token; }
  static void end() noexcept {}
};
template <execution::unstoppable_token Token>
class received_stop<Token> {
 public:
  static inplace_stop_token begin(Token) noexcept { return {}; }
  static void end() noexcept {}
};

/// The operation state of a task that is connected to a receiver; also the context of the task's
/// coroutine.
template <class T, class Receiver>
class task_operation : operation, task_context {
 public:
  using operation_state_concept = execution::operation_state_t;

  task_operation(executor& target, task<T>&& work, Receiver&& receiver)
      : operation(&run), receiver_(std::move(receiver)), work_(std::move(work)) {
    record_if_enabled(work_, target, "sender", std::source_location{});
    where = &target;
    finished = [](task_context& self) noexcept -> std::coroutine_handle<> {
      static_cast<task_operation&>(self).complete();
      return std::noop_coroutine();
    };
  }

  void start() noexcept {
    stop = stop_.begin(execution::get_stop_token(execution::get_env(receiver_)));
    post_or_discard(*where, *this, &discard);
  }

 private:
  static void run(operation& self) {
    auto& op = static_cast<task_operation&>(self);
    task_access::state(op.work_).start(op);
  }
  static void discard(operation& self) noexcept {
    auto& op = static_cast<task_operation&>(self);
    op.stop_.end();
    op.work_ = task<T>();
    execution::set_stopped(std::move(op.receiver_));
  }

  void complete() noexcept {
    stop_.end();
    task_state<T>& state = task_access::state(work_);
    if (std::exception_ptr error = state.take_error()) {
      if (error == cancellation()) return execution::set_stopped(std::move(receiver_));
      return execution::set_error(std::move(receiver_), std::move(error));
    }
    // The result is moved to the stack, because the receiver may destroy the operation.
    try {
      if constexpr (std::is_void_v<T>) {
        state.take_result();
        execution::set_value(std::move(receiver_));
      } else {
        execution::set_value(std::move(receiver_), state.take_result());
      }
    } catch (...) {
      execution::set_error(std::move(receiver_), std::current_exception());
    }
  }

  Receiver receiver_;
  received_stop<execution::stop_token_of_t<execution::env_of_t<Receiver>>> stop_;
  task<T> work_;
};

template <class T>
struct value_signature : std::type_identity<execution::set_value_t(T)> {};
template <>
struct value_signature<void> : std::type_identity<execution::set_value_t()> {};

template <class T>
class task_sender {
 public:
  using sender_concept = execution::sender_t;
  using completion_signatures =
      execution::completion_signatures<typename value_signature<T>::type,
                                       execution::set_error_t(std::exception_ptr),
                                       execution::set_stopped_t()>;

  task_sender(executor& target, task<T>&& work) : target_(&target), work_(std::move(work)) {
    if (!work_.valid()) throw_empty_task();
  }

  template <execution::receiver Receiver>
  task_operation<T, Receiver> connect(Receiver receiver) && {
    return task_operation<T, Receiver>(*target_, std::move(work_), std::move(receiver));
  }

 private:
  executor* target_;
  task<T> work_;
};

}  // namespace gyre::detail
