// SPDX-License-Identifier: Apache-2.0
// file_operation: the awaiter of file_steps. The kernel makes the calls for the loop where the
// backend of the coroutine's loop can, else a thread of a pool does.
#pragma once

#include <gyre/exec/event_loop.hpp>
#include <gyre/io/detail/blocking_call.hpp>
#include <gyre/io/detail/file_steps.hpp>
#include <gyre/io/file_service.hpp>
#include <gyre/task/detail/cancelled.hpp>

#include <coroutine>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <type_traits>
#include <utility>
#include <variant>

namespace gyre::io::detail {

/// An operation that the kernel carries out for a loop, on the loop's thread. A stop, which comes
/// from any thread, posts a call to the loop. That call finds this object through `stop_target_`,
/// or null when the operation has ended.
class ring_operation final : file_call {
 public:
  ring_operation(event_loop& loop, file_service& service, file_steps& steps) noexcept
      : file_call(&on_completion), loop_(loop), service_(service), steps_(steps) {}
  /// Waits for the end of a call that cannot be cancelled, if the coroutine is destroyed while it
  /// waits.
  ~ring_operation();
  /// Returns false if there is nothing to wait for.
  bool begin(std::coroutine_handle<> coroutine, inplace_stop_token stop);

 private:
  struct on_stop {
    ring_operation* self;
    void operator()() const noexcept { self->stop(); }
  };

  static void on_completion(file_call& call, result outcome);
  bool make_calls(file_steps::next call) noexcept;
  file_steps::next next_after(result outcome) noexcept;
  void stop() noexcept;
  void disarm_stop() noexcept;

  event_loop& loop_;
  file_service& service_;
  file_steps& steps_;
  std::coroutine_handle<> coroutine_;
  bool is_stopping_ = false;
  // The address of this object, shared with the call that a stop has posted; null when the
  // operation has ended.
  std::shared_ptr<ring_operation*> stop_target_;
  std::optional<inplace_stop_callback<on_stop>> stop_callback_;
};

/// Decides how a file operation is carried out.
struct file_operation_options {
  /// The pool that makes the calls. Null: the kernel makes them, if it can; otherwise the default
  /// pool.
  executor* pool = nullptr;
  /// The calls that the kernel must be able to make.
  file_call_kind kind = file_call_kind::read;
  bool suits_ring = true;
  /// Whether the operation ends when the coroutine is asked to stop.
  bool is_stoppable = true;
};

/// A loop for which the kernel carries out operations, or null.
struct loop_files {
  event_loop* loop = nullptr;
  file_service* files = nullptr;
};
/// The loop for the coroutine that runs now on `executor`.
loop_files files_for(const file_operation_options& options, executor& executor) noexcept;

/// An awaitable that carries out `Steps` and gives their outcome.
template <class Steps>
class [[nodiscard]] file_operation {
 public:
  using value_type = typename Steps::value_type;
  using expected = outcome_of<value_type>;
  /// `name`: the name of the call for the message of the exception, which a hint() of the steps
  /// follows.
  file_operation(const char* name, file_operation_options options, Steps steps)
      : name_(name), options_(options), steps_(std::move(steps)) {}
  // An operation moves only before it is awaited.
  file_operation(file_operation&& other) noexcept
      : name_(other.name_), options_(other.options_), steps_(std::move(other.steps_)) {}
  file_operation& operator=(const file_operation&) = delete;

  static constexpr bool executor_affine = true;
  static constexpr bool await_ready() noexcept { return false; }
  template <class Promise>
  bool await_suspend(std::coroutine_handle<Promise> coroutine) {
    const task_context& context = gyre::detail::context_of(coroutine);
    context_ = &context;
    if (const auto [loop, files] = files_for(options_, *context.where); files != nullptr) {
      const inplace_stop_token stop = options_.is_stoppable ? context.stop : inplace_stop_token();
      if (stop.stop_requested()) return gyre::detail::gives_way(context, coroutine);
      return wait_.template emplace<ring_operation>(*loop, *files, steps_).begin(coroutine, stop);
    }
    return wait_.template emplace<blocking_call>(options_.pool, steps_, options_.is_stoppable)
               .begin(coroutine, context) ||
           gyre::detail::gives_way(context, coroutine);
  }
  value_type await_resume() {
    expected value = outcome();
    if (!value) [[unlikely]] {
      std::string operation = name_;
      if constexpr (requires { steps_.hint(); }) operation += steps_.hint();
      gyre::detail::throw_failure(value.error(), context_, operation.c_str());
    }
    if constexpr (!std::is_void_v<value_type>) return *std::move(value);
  }
  expected result() {
    expected value = outcome();
    if (!value) return std::unexpected(gyre::detail::failure_value(value.error(), context_));
    return value;
  }

 private:
  // Returns the outcome with every error as a value.
  expected outcome() noexcept {
    auto* const call = std::get_if<blocking_call>(&wait_);
    if (wait_.index() == 0 || (call != nullptr && !call->end())) {
      return std::unexpected(std::make_error_code(std::errc::operation_canceled));
    }
    return steps_.outcome();
  }

  const char* name_;
  const task_context* context_ = nullptr;  // the coroutine's context; null before the await
  file_operation_options options_;
  Steps steps_;
  // The wait refers to the steps.
  std::variant<std::monostate, ring_operation, blocking_call> wait_;
};

}  // namespace gyre::io::detail
