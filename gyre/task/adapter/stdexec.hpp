// SPDX-License-Identifier: Apache-2.0
// from_sender, as_sender, as_scheduler: await senders of std::execution (P2300) in gyre's
// coroutines, and make gyre's coroutines and executors senders and schedulers. With NVIDIA's
// stdexec where its header is found, else with std::execution; not in gyre/gyre.hpp. In the
// examples `ex` is the namespace of the senders.
//
//     gyre::task<std::size_t> hash_on(gyre::executor& pool, std::string text) {
//       auto hashing = ex::then(ex::schedule(gyre::as_scheduler(pool)), [&] { return hash(text); });
//       co_return co_await gyre::from_sender(std::move(hashing));
//     }
//
//     auto [value] = ex::sync_wait(gyre::as_sender(main_loop, hash_on(pool, "gyre"))).value();
#pragma once

#include <gyre/base/operation.hpp>
#include <gyre/task/adapter/detail/execution.hpp>
#include <gyre/task/adapter/detail/task_sender.hpp>
#include <gyre/task/as_task.hpp>
#include <gyre/task/context.hpp>
#include <gyre/task/detail/cancelled.hpp>
#include <gyre/task/detail/completion_wait.hpp>
#include <gyre/task/executor.hpp>
#include <gyre/task/stop_token.hpp>
#include <gyre/task/task.hpp>

#include <cassert>
#include <concepts>
#include <coroutine>
#include <cstddef>
#include <exception>
#include <optional>
#include <system_error>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>

namespace gyre {
namespace detail {

class schedule_sender;

}  // namespace detail

/// A scheduler whose senders complete on an executor of gyre: a loop, a pool, a strand.
///
/// Thread-safety: every member may be called from any thread; so may the start of its senders.
/// Lifetime: the executor must outlive the operations.
/// Errors: none for a receiver whose stop token can never stop, as the task and the scopes of
/// std::execution require; an operation that the executor never runs, because a loop is destroyed
/// first, then never completes. For other receivers the operation completes with set_stopped() if a
/// stop was requested before the operation ran, or if the executor discards the operation, as
/// executor::post_discardable() does when a loop is destroyed first or without memory; then it
/// completes on the thread that discards it.
/// Complexity: that of executor::post() or post_discardable(); no further allocation.
class executor_scheduler {
 public:
  using scheduler_concept = detail::execution::scheduler_t;

  explicit executor_scheduler(executor& target) noexcept : target_(&target) {}

  [[nodiscard]] detail::schedule_sender schedule() const noexcept;
  [[nodiscard]] executor& get() const noexcept { return *target_; }

  /// Returns whether both schedulers have the same executor.
  friend bool operator==(const executor_scheduler&, const executor_scheduler&) noexcept = default;

 private:
  executor* target_;
};

/// Returns a scheduler for `target`.
[[nodiscard]] inline executor_scheduler as_scheduler(executor& target) noexcept {
  return executor_scheduler(target);
}

namespace detail {

/// Whether an operation whose receiver has this environment is never asked to stop.
template <class Environment>
concept unstoppable = execution::unstoppable_token<execution::stop_token_of_t<Environment>>;

template <class Receiver>
class schedule_operation : operation {
 public:
  using operation_state_concept = execution::operation_state_t;

  schedule_operation(executor& target, Receiver&& receiver)
      : operation(&run), target_(target), receiver_(std::move(receiver)) {}

  void start() noexcept {
    if constexpr (never_stops) {
      target_.post(*this);
    } else {
      post_or_discard(target_, *this, &discard);
    }
  }

 private:
  static constexpr bool never_stops = unstoppable<execution::env_of_t<Receiver>>;

  static Receiver&& receiver_of(operation& self) noexcept {
    return std::move(static_cast<schedule_operation&>(self).receiver_);
  }
  static void run(operation& self) {
    if constexpr (!never_stops) {
      const auto environment = execution::get_env(receiver_of(self));
      if (execution::get_stop_token(environment).stop_requested()) return discard(self);
    }
    execution::set_value(receiver_of(self));
  }
  static void discard(operation& self) noexcept { execution::set_stopped(receiver_of(self)); }

  executor& target_;
  Receiver receiver_;
};

class schedule_sender {
 public:
  using sender_concept = execution::sender_t;

  template <class Self, class Environment>
  static consteval auto get_completion_signatures() {
    if constexpr (unstoppable<Environment>) {
      return execution::completion_signatures<execution::set_value_t()>();
    } else {
      return execution::completion_signatures<execution::set_value_t(),
                                              execution::set_stopped_t()>();
    }
  }

  struct environment {
    executor_scheduler scheduler;
    executor_scheduler query(
        execution::get_completion_scheduler_t<execution::set_value_t>) const noexcept {
      return scheduler;
    }
  };

  explicit schedule_sender(executor_scheduler scheduler) noexcept : scheduler_(scheduler) {}

  template <execution::receiver Receiver>
  schedule_operation<Receiver> connect(Receiver receiver) const {
    return schedule_operation<Receiver>(scheduler_.get(), std::move(receiver));
  }
  environment get_env() const noexcept { return {scheduler_}; }

 private:
  executor_scheduler scheduler_;
};

}  // namespace detail

inline detail::schedule_sender executor_scheduler::schedule() const noexcept {
  return detail::schedule_sender(*this);
}

/// Returns a sender that runs `awaitable` on `target` once its operation is started. It completes
/// with the result, on the executor on which `awaitable` ends; with the exception as a
/// std::exception_ptr; or with set_stopped() after gyre::operation_cancelled. A stop of the
/// receiver asks `awaitable` to stop. The coroutine's frame has been destroyed when the sender
/// completes.
///
/// Thread-safety: the operation may be started on any thread.
/// Lifetime: `target` must outlive the operation.
/// Errors: std::logic_error for an empty task. Completes with set_stopped() if `target` discards
/// the operation, as executor_scheduler does.
/// Complexity: a coroutine frame, made here unless `awaitable` is a task, and the cost of
/// executor::post_discardable().
template <awaitable Awaitable>
[[nodiscard]] auto as_sender(executor& target, Awaitable awaitable) {
  return detail::task_sender<task_result_t<Awaitable>>(target, as_task(std::move(awaitable)));
}
// This overload explains wrong arguments: see base/detail/misuse.hpp.
std::suspend_never as_sender(executor& target, detail::misused_awaitable explained);

namespace detail {

template <class Query>
struct answers_only {
  executor_scheduler query(Query) const noexcept;
};
/// The query get_start_scheduler, which not all implementations have. It is recognised as the other
/// query by which an environment supports get_scheduler().
template <class Query>
concept start_scheduler_query =
    !std::same_as<Query, execution::get_scheduler_t> &&
    requires(const answers_only<Query>& environment) { execution::get_scheduler(environment); };

/// The environment of a sender that a coroutine awaits: it provides the coroutine's stop token and
/// executor.
class awaiting_environment {
 public:
  explicit awaiting_environment(const task_context& context) noexcept : context_(&context) {}

  inplace_stop_token query(execution::get_stop_token_t) const noexcept { return context_->stop; }
  executor_scheduler query(execution::get_scheduler_t) const noexcept {
    return executor_scheduler(*context_->where);
  }
  template <start_scheduler_query Query>
  executor_scheduler query(Query) const noexcept {
    return executor_scheduler(*context_->where);
  }

 private:
  const task_context* context_;
};

/// The type that holds the values of one completion: void, a value or a tuple.
template <class... Values>
struct sender_values : std::type_identity<std::tuple<std::decay_t<Values>...>> {};
template <>
struct sender_values<> : std::type_identity<void> {};
template <class Value>
struct sender_values<Value> : std::type_identity<std::decay_t<Value>> {};

/// The result type of a sender, from the sender_values of its completions, which must agree.
template <class... Completions>
struct sender_result;
template <>
struct sender_result<> : std::type_identity<void> {};
template <class First, class... Others>
struct sender_result<First, Others...> : First {
  static_assert((std::same_as<typename First::type, typename Others::type> && ...),
                "the sender completes with values of different types: apply into_variant() to it");
};
template <class Sender>
using sender_result_t = typename execution::value_types_of_t<Sender, awaiting_environment,
                                                             sender_values, sender_result>::type;
template <class Sender>
concept awaited_sender =
    execution::sender<Sender> && requires { typename sender_result_t<Sender>; };

template <class Sender>
class sender_awaiter : completion_wait {
  using result = sender_result_t<Sender>;
  using stored = std::conditional_t<std::is_void_v<result>, no_result, result>;

  class receiver {
   public:
    using receiver_concept = execution::receiver_t;

    explicit receiver(sender_awaiter& awaiter) noexcept : awaiter_(&awaiter) {}

    template <class... Values>
      requires std::constructible_from<stored, Values...>
    void set_value(Values&&... values) noexcept {
      awaiter_->template end_with<value>(std::forward<Values>(values)...);
    }
    template <class Error>
    void set_error(Error&& error) noexcept {
      if constexpr (std::same_as<std::decay_t<Error>, std::error_code>) {
        awaiter_->template end_with<error_code>(error);
      } else if constexpr (std::same_as<std::decay_t<Error>, std::exception_ptr>) {
        awaiter_->template end_with<exception>(std::forward<Error>(error));
      } else {
        awaiter_->template end_with<exception>(std::make_exception_ptr(std::forward<Error>(error)));
      }
    }
    void set_stopped() noexcept { awaiter_->complete(); }
    awaiting_environment get_env() const noexcept {
      return awaiting_environment(*awaiter_->context_);
    }

   private:
    sender_awaiter* awaiter_;
  };

  // The struct constructs the operation in place, because an operation state cannot be moved.
  struct connected_operation {
    connected_operation(Sender&& sender, receiver end)
        : operation(execution::connect(std::move(sender), end)) {}
    execution::connect_result_t<Sender, receiver> operation;
  };

 public:
  explicit sender_awaiter(Sender&& sender) : sender_(std::move(sender)) {}
  // An awaiter moves only before it is awaited.
  sender_awaiter(sender_awaiter&& other) noexcept(std::is_nothrow_move_constructible_v<Sender>)
      : sender_(std::move(other.sender_)) {}
  ~sender_awaiter() {
    assert(!is_waiting() &&
           "a coroutine was destroyed while it waited for a sender, which cannot be abandoned");
  }

  static constexpr bool executor_affine = true;
  static constexpr bool await_ready() noexcept { return false; }
  template <class Promise>
  bool await_suspend(std::coroutine_handle<Promise> coroutine) {
    const task_context& context = context_of(coroutine);
    context_ = &context;
    if (context.stop.stop_requested()) return gives_way(context, coroutine);
    // A deadlock report must not destroy the coroutine, because a started sender cannot be
    // abandoned.
    set_holder(coroutine, inline_executor());
    begin(coroutine, *context.where);
    operation_.emplace(std::move(sender_), receiver(*this));
    execution::start(operation_->operation);
    return begin_wait();
  }
  result await_resume() {
    operation_.reset();
    switch (outcome_.index()) {
      case error_code: throw_failure(std::get<error_code>(outcome_), context_);
      case exception: std::rethrow_exception(std::get<exception>(std::move(outcome_)));
      case stopped: throw_cancelled(*context_);
      default: break;
    }
    if constexpr (!std::is_void_v<result>) return std::get<value>(std::move(outcome_));
  }

 private:
  // The indices of `outcome_`.
  enum outcome : std::size_t { stopped, value, error_code, exception };

  template <std::size_t Outcome, class... Arguments>
  void end_with(Arguments&&... arguments) noexcept {
    try {
      outcome_.template emplace<Outcome>(std::forward<Arguments>(arguments)...);
    } catch (...) {
      outcome_.template emplace<exception>(std::current_exception());
    }
    this->complete();
  }

  Sender sender_;
  const task_context* context_ = nullptr;
  std::variant<std::monostate, stored, std::error_code, std::exception_ptr> outcome_;
  std::optional<connected_operation> operation_;
};

}  // namespace detail

/// Awaited, starts `sender`, waits for its completion, and returns the value: nothing, the only
/// value, or a std::tuple of several. Values are decayed: a reference is copied from, as it may
/// refer to the operation. The sender's environment has the coroutine's stop token, and the
/// coroutine's executor as its scheduler. The wait lasts until the sender completes, even after a
/// stop. If a stop was requested before the await, `sender` is not started.
///
/// Thread-safety: the sender may complete on any thread; the coroutine resumes on its executor.
/// Lifetime: a coroutine that waits must not be destroyed. The operation is destroyed before the
/// coroutine continues.
/// Errors: rethrows a std::exception_ptr, throws a std::error_code as std::system_error, and throws
/// an error of another type unchanged. For set_stopped() or std::errc::operation_canceled throws
/// gyre::operation_cancelled if the coroutine was asked to stop, else std::system_error.
/// Complexity: no allocation: the operation is a part of the awaiting coroutine. With GCC 12 name
/// the returned object: see invoke().
template <detail::awaited_sender Sender>
[[nodiscard]] auto from_sender(Sender sender) {
  return detail::sender_awaiter<Sender>(std::move(sender));
}

}  // namespace gyre
