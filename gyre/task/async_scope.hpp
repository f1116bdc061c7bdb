// SPDX-License-Identifier: Apache-2.0
// async_scope: structured concurrency for classes: a scope that is a member, and ends with join().
//
//     class price_feed {
//      public:
//       explicit price_feed(gyre::executor& where) : tasks_(where) {}
//
//       void follow(std::string symbol) { tasks_.spawn(poll(std::move(symbol))); }
//       gyre::task<> stop() {
//         tasks_.request_stop();
//         co_await tasks_.join();  // no task uses this object any more
//       }
//
//      private:
//       gyre::task<> poll(std::string symbol);
//
//       gyre::async_scope tasks_;
//     };
//
// Source: Baker and others, "P3149: async_scope, Creating scopes for non-sequential concurrency".
#pragma once

#include <gyre/base/atomic.hpp>
#include <gyre/task/context.hpp>
#include <gyre/task/detail/cancelled.hpp>
#include <gyre/task/detail/child_set.hpp>
#include <gyre/task/detail/resumption.hpp>
#include <gyre/task/executor.hpp>
#include <gyre/task/scope.hpp>
#include <gyre/task/stop_token.hpp>

#include <coroutine>
#include <cstdint>
#include <exception>
#include <optional>
#include <vector>

namespace gyre {

namespace detail {

class scope_join;

}  // namespace detail

/// A gyre::scope with the lifetime of an object: tasks may be started until a coroutine joins the
/// scope, and join() waits for all of them. Use with_scope() where the lifetime is a block of code.
///
/// Thread-safety: every member may be called from any thread, and several coroutines may join.
/// Lifetime: the scope must outlive its tasks and every call of its members. Await join() before
/// the destructor, which ends the program with a message if tasks are running. A task of the scope
/// must not join it, as it would wait for itself.
/// Errors: join() throws the errors of the tasks, see scope_errors. A scope that is destroyed
/// without a join(), after its last task has ended, drops them.
/// Complexity: construction and joining allocate nothing; spawn() costs as much as scope::spawn().
class async_scope final : public scope {
 public:
  /// Makes a scope whose tasks start on `target` unless spawn() names another executor; `target`
  /// must outlive the tasks. The tasks have no task-local values. A stop of `parent`, whose source
  /// must outlive the scope, asks all tasks to stop, as request_stop() does.
  explicit async_scope(executor& target, inplace_stop_token parent = {},
                       scope_errors errors = scope_errors::stop_at_first) noexcept;
  async_scope(executor& target, scope_errors errors) noexcept : async_scope(target, {}, errors) {}
  async_scope(const async_scope&) = delete;
  async_scope& operator=(const async_scope&) = delete;
  ~async_scope();

  /// Awaited, closes the scope and waits until all tasks have ended; then throws their errors. More
  /// tasks may be spawned until the last task has ended, and join() waits for them, too; after that
  /// spawn() throws std::logic_error. A further join(), at the same time or later, has the same
  /// result.
  ///
  /// A stop of the awaiting coroutine asks all tasks to stop; join() still waits until they have
  /// ended, as with_scope() does. So no task is running when join() has returned or thrown.
  ///
  /// Thread-safety: the coroutine resumes on its own executor.
  /// Lifetime: the coroutine must not be destroyed while it waits; if it is, the program ends with
  /// a message.
  /// Errors: those of the tasks. Throws gyre::operation_cancelled if the coroutine was asked to
  /// stop and a task ended with that. Tasks that end with operation_cancelled after request_stop()
  /// are not errors.
  /// Complexity: no allocation.
  detail::scope_join join() noexcept;

 private:
  friend detail::scope_join;

  static std::coroutine_handle<> resume_joiners(scope& self, const executor* end_executor) noexcept;
  detail::scope_join* take_joiners() noexcept;

  // Marks in `joiners_` that the last task has ended. No joiner has this address.
  static constexpr std::uintptr_t ended = 1;

  // The stack of the waiting joiners, the newest first; `ended` once the last task has ended.
  detail::atomic<std::uintptr_t> joiners_{0};
};

namespace detail {

/// The awaiter of async_scope::join(). While it waits, it is one of the scope's joiners.
class [[nodiscard]] scope_join : resumption {
 public:
  explicit scope_join(async_scope& scope) noexcept : scope_(&scope) {}
  // An awaiter is copied only before it is awaited.
  scope_join(const scope_join& other) noexcept : scope_join(*other.scope_) {}
  scope_join& operator=(const scope_join&) = delete;
  ~scope_join() {
    if (waits_) [[unlikely]]
      end_program();
  }

  static constexpr bool executor_affine = true;
  static constexpr bool await_ready() noexcept { return false; }
  template <class Promise>
  bool await_suspend(std::coroutine_handle<Promise> coroutine) noexcept {
    waiting = coroutine;
    const task_context& context = *(context_ = &context_of(coroutine));
    tasks_.emplace(*scope_, coroutine);
    return wait() || gives_way(context, coroutine);
  }
  /// Throws the errors of the scope.
  void await_resume();

 private:
  friend async_scope;
  // Lists the tasks of the scope as children of a coroutine that joins it.
  class children final : public child_set {
   public:
    template <class Promise>
    children(async_scope& scope, std::coroutine_handle<Promise> joiner) noexcept : scope_(scope) {
      attach(joiner);
    }
    void append_children(std::vector<task_context*>& contexts);

   private:
    async_scope& scope_;
  };

  bool wait() noexcept;
  [[noreturn]] static void end_program() noexcept;

  async_scope* scope_;
  const task_context* context_ = nullptr;
  scope_join* next_ = nullptr;
  bool waits_ = false;
  std::optional<inplace_stop_callback<request_stop_of>> on_stop_;
  [[no_unique_address]] traced_optional<children> tasks_;
};

}  // namespace detail

inline detail::scope_join async_scope::join() noexcept { return detail::scope_join(*this); }

}  // namespace gyre
