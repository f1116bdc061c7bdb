// SPDX-License-Identifier: Apache-2.0
// The awaiter of operations on files. If the coroutine is on a loop whose backend can, the kernel
// carries the operation out for the loop; else a thread of a pool does.
#pragma once

#include <gyre/exec/event_loop.hpp>
#include <gyre/io/detail/blocking_call.hpp>
#include <gyre/io/detail/file_steps.hpp>
#include <gyre/io/file_service.hpp>
#include <gyre/task/context.hpp>
#include <gyre/task/detail/cancelled.hpp>
#include <gyre/task/executor.hpp>
#include <gyre/task/stop_token.hpp>

#include <coroutine>
#include <cstdint>
#include <expected>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <type_traits>
#include <utility>
#include <variant>

namespace gyre::io::detail {

/// An operation that is carried out for a loop. All of it is on the loop's thread, but for a stop,
/// which comes from any: that posts to the loop what it needs to find this, or its absence.
class ring_operation final : file_call {
 public:
  ring_operation(event_loop& home, file_service& service, file_steps& steps) noexcept
      : file_call(&on_completion), home_(home), service_(service), steps_(steps) {}
  /// Of a coroutine that is destroyed while it waits: waits for the end of what cannot be taken back.
  ~ring_operation();

  /// False: it is over already.
  bool begin(std::coroutine_handle<> awaiting, inplace_stop_token stop);

 private:
  struct on_stop {
    ring_operation* self;
    void operator()() const noexcept { self->stop(); }
  };

  static void on_completion(file_call& completed, result made);
  bool go_on(file_steps::next next) noexcept;
  file_steps::next after(result made) noexcept;
  void stop() noexcept;
  void forget_stop() noexcept;
  void take_back() noexcept;

  event_loop& home_;
  file_service& service_;
  file_steps& steps_;
  std::coroutine_handle<> waiting_;
  bool stopping_ = false;
  // What a stop has posted finds here who it is for: nobody any more if that is over.
  std::shared_ptr<ring_operation*> stop_target_;
  std::optional<inplace_stop_callback<on_stop>> stop_callback_;
};

/// Makes all calls on the calling thread.
void perform(file_steps& steps) noexcept;

/// How an operation is carried out.
struct file_way {
  /// Of threads; null: the kernel, if it can, or else the default one.
  executor* pool = nullptr;
  /// What the kernel must be able to do.
  file_call_kind kind = file_call_kind::read;
  bool suits_ring = true;
  /// Whether it may be given up when the coroutine is asked to stop.
  bool stops = true;
};

/// What carries an operation out for a loop, if anything does.
struct ring_place {
  event_loop* loop = nullptr;
  file_service* files = nullptr;
};
/// For a coroutine of the executor `where`, which runs now.
ring_place ring_for(const file_way& way, executor& where) noexcept;

/// Awaited, carries `Steps` out and gives their outcome.
template <class Steps>
class [[nodiscard]] file_operation {
 public:
  using value_type = typename Steps::value_type;
  using expected = outcome_of<value_type>;

  /// `name`: of the call, for the exception, which also says the path() of steps that have one.
  file_operation(const char* name, file_way way, Steps steps)
      : name_(name), way_(way), steps_(std::move(steps)) {}
  // Before it is awaited.
  file_operation(file_operation&& other) noexcept
      : name_(other.name_), way_(other.way_), steps_(std::move(other.steps_)) {}
  file_operation& operator=(const file_operation&) = delete;

  static constexpr bool executor_affine = true;
  static constexpr bool await_ready() noexcept { return false; }
  template <class Promise>
  bool await_suspend(std::coroutine_handle<Promise> awaiting) {
    const task_context& context = gyre::detail::context_of(awaiting);
    context_ = &context;
    if (const auto [loop, files] = ring_for(way_, *context.where); files != nullptr) {
      const inplace_stop_token stop = way_.stops ? context.stop : inplace_stop_token();
      if (stop.stop_requested()) return gyre::detail::gives_way(context, awaiting);
      return under_way_.template emplace<ring_operation>(*loop, *files, steps_)
          .begin(awaiting, stop);
    }
    return under_way_.template emplace<pool_operation>(on_pool()).await_suspend(awaiting);
  }
  value_type await_resume() {
    expected made = outcome();
    if constexpr (requires { steps_.path(); }) {
      if (!made) {
        const std::string what = name_ + (' ' + steps_.path());
        gyre::detail::throw_failure(made.error(), context_, what.c_str());
      }
    }
    return value_or_throw(std::move(made), context_, name_);
  }
  expected result() {
    expected made = outcome();
    if (!made) return std::unexpected(gyre::detail::failure_value(made.error(), context_));
    return made;
  }

 private:
  // With every error as a value.
  expected outcome() noexcept {
    if (auto* const pool = std::get_if<pool_operation>(&under_way_)) {
      if (const auto made = pool->outcome(); !made) return std::unexpected(made.error());
    } else if (under_way_.index() == 0) {
      return std::unexpected(std::make_error_code(std::errc::operation_canceled));
    }
    return steps_.outcome();
  }

  struct on_thread {
    Steps* steps;
    outcome_of<void> operator()() const noexcept {
      perform(*steps);
      return {};
    }
  };
  using pool_operation = blocking_call<on_thread>;

  pool_operation on_pool() {
    const on_thread work{&steps_};
    return way_.stops ? pool_operation(name_, way_.pool, work)
                      : pool_operation::made_in_any_case(name_, way_.pool, work);
  }

  const char* name_;
  const task_context* context_ = nullptr;  // once it is awaited
  file_way way_;
  Steps steps_;
  std::variant<std::monostate, ring_operation, pool_operation> under_way_;  // uses the others
};

}  // namespace gyre::io::detail
