// SPDX-License-Identifier: Apache-2.0
// readable_line: coroutines that wait in line for values that a descriptor, such as a signalfd or a
// pidfd, brings one at a time when it is readable.
#pragma once

#include <gyre/base/intrusive_list.hpp>
#include <gyre/exec/event_loop.hpp>
#include <gyre/exec/fd_watch.hpp>
#include <gyre/task/context.hpp>
#include <gyre/task/detail/cancelled.hpp>
#include <gyre/task/detail/stoppable_wait.hpp>

#include <cassert>
#include <coroutine>
#include <expected>
#include <new>
#include <optional>
#include <system_error>
#include <utility>

namespace gyre::detail {

template <class Source, class T>
class readable_line;

/// The awaiter of a readable_line. It waits on the thread of the line's loop. A stop, or destroying
/// the awaiter on that thread, takes it out of the line without a value.
template <class Source, class T>
class [[nodiscard]] readable_wait final : stoppable_wait, public intrusive_list_node {
 public:
  explicit readable_wait(readable_line<Source, T>& line) noexcept : line_(line) {}
  // A wait is copied only before it is awaited.
  readable_wait(const readable_wait& other) noexcept
      : stoppable_wait(), intrusive_list_node(), line_(other.line_) {}
  readable_wait& operator=(const readable_wait&) = delete;
  ~readable_wait() {
    if (abandon()) [[unlikely]]
      cancel();
  }

  static constexpr bool executor_affine = true;
  static constexpr bool await_ready() noexcept { return false; }
  template <class Promise>
  bool await_suspend(std::coroutine_handle<Promise> coroutine) noexcept {
    const task_context& context = context_of(coroutine);
    set_holder(coroutine, line_.loop_);
    set_context(context);
    if (context.stop.stop_requested()) {
      outcome_ = cancelled();
      return gives_way(context, coroutine);
    }
    return begin(line_.loop_, coroutine, context) || gives_way(context, coroutine);
  }
  T await_resume() {
    end();
    if (!*outcome_) throw_failure(outcome_->error(), context(), Source::wait_name);
    return *std::move(*outcome_);
  }
  std::expected<T, std::error_code> result() {
    end();
    if (!*outcome_) return std::unexpected(failure_value(outcome_->error(), context()));
    return *std::move(outcome_);
  }

 private:
  friend readable_line<Source, T>;
  using outcome = std::expected<T, std::error_code>;

  static outcome cancelled() {
    return std::unexpected(std::make_error_code(std::errc::operation_canceled));
  }
  bool start() noexcept override { return line_.start(*this); }
  bool cancel() noexcept override {
    if (!line_.withdraw(*this)) return false;
    outcome_ = cancelled();
    return true;
  }

  readable_line<Source, T>& line_;
  std::optional<outcome> outcome_;
};

/// Waits of coroutines for values of a Source, which has
///
///     std::optional<std::expected<T, std::error_code>> try_take() noexcept;   // Null: not yet.
///     static constexpr const char* wait_name;                               // For messages.
///     void serve_again() noexcept;   // Optional. Calls serve() in the loop's next turn.
///
/// The descriptor is watched while there are waits. Each turn of the loop serves the oldest wait. A
/// Source that buffers values that it has read from the descriptor has serve_again(), which is
/// called when waits remain.
///
/// Lifetime: outlives its waits; destroyed before the descriptor is closed.
template <class Source, class T>
class readable_line {
 public:
  readable_line(event_loop& loop, int fd, Source& source) noexcept
      : loop_(loop), source_(source), watch_(loop, fd, [this](readiness) { serve(); }) {}
  readable_line& operator=(readable_line&&) = delete;
  ~readable_line() { assert(waits_.empty() && "destroyed while a coroutine waited for it"); }

  /// Passes a value to the oldest wait, if there are both. Called on the loop's thread. The resumed
  /// coroutine may destroy this line.
  void serve() noexcept {
    if (waits_.empty()) return;
    auto value = source_.try_take();
    if (!value) return;  // a level-triggered watch reports again in the next turn
    wait& oldest_wait = *waits_.pop_front();
    oldest_wait.outcome_ = std::move(value);
    if (waits_.empty()) {
      watch_.stop();
    } else if constexpr (requires { source_.serve_again(); }) {
      source_.serve_again();
    }
    oldest_wait.complete_event();
  }

 private:
  friend readable_wait<Source, T>;
  using wait = readable_wait<Source, T>;

  // The functions below are called on the loop's thread.

  // Begins the wait of `node`. Returns true if the wait is over already.
  bool start(wait& node) noexcept {
    if (waits_.empty()) {
      // A value may be taken at once only if there is no older wait.
      node.outcome_ = source_.try_take();
      if (!node.outcome_) node.outcome_ = try_watch();
      if (node.outcome_) return true;
    }
    waits_.push_back(node);
    return false;
  }
  std::optional<std::expected<T, std::error_code>> try_watch() noexcept {
    try {
      watch_.start(readiness::readable);
      return std::nullopt;
    } catch (const std::system_error& error) {
      return std::unexpected(error.code());
    } catch (const std::bad_alloc&) {
      return std::unexpected(std::make_error_code(std::errc::not_enough_memory));
    }
  }
  // Removes `node` from the line. Returns false if the wait has been served.
  bool withdraw(wait& node) noexcept {
    if (!node.is_linked()) return false;
    node.unlink();
    if (waits_.empty()) watch_.stop();
    return true;
  }

  event_loop& loop_;
  Source& source_;
  intrusive_list<wait> waits_;  // the waits, the oldest first
  fd_watch watch_;
};

}  // namespace gyre::detail
