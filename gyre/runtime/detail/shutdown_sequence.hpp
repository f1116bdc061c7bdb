// SPDX-License-Identifier: Apache-2.0
// shutdown_sequence: the state machine of a runtime's shutdown, which runs on its own loop.
#pragma once

#include <gyre/base/atomic.hpp>
#include <gyre/base/detail/wake_event.hpp>
#include <gyre/base/move_only_function.hpp>
#include <gyre/base/operation.hpp>
#include <gyre/exec/event_loop.hpp>
#include <gyre/exec/fd_watch.hpp>
#include <gyre/exec/timer.hpp>
#include <gyre/runtime/shutdown.hpp>
#include <gyre/sync/event.hpp>
#include <gyre/task/context.hpp>
#include <gyre/task/executor.hpp>
#include <gyre/task/stop_token.hpp>
#include <gyre/task/task.hpp>
#include <gyre/task/task_local.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

namespace gyre::detail {

/// A registered shutdown hook and the executor that calls it.
class shutdown_entry final : public operation {
 public:
  using function = move_only_function<void(shutdown_step)>;

  shutdown_entry(shutdown_phase phase, executor& target, function call) noexcept
      : operation(&run), phase_(phase), target_(target), call_(std::move(call)) {}

  shutdown_phase phase() const noexcept { return phase_; }
  /// Whether unregister() was called. relaxed: call() checks it again under the lock.
  bool is_unregistered() const noexcept { return is_unregistered_.load(std::memory_order_relaxed); }
  /// Posts the call of the function to its executor. May be called once; `self` owns the entry
  /// until the call.
  void begin(std::shared_ptr<shutdown_entry> self, shutdown_step step) noexcept;
  /// Unregisters the function; blocks while another thread calls the function.
  void unregister() noexcept;

 private:
  static void run(operation& self);
  void call(shutdown_step step) noexcept;

  const shutdown_phase phase_;
  executor& target_;
  // The entry owns itself while it is posted.
  std::shared_ptr<shutdown_entry> self_;
  std::optional<shutdown_step> step_;

  std::recursive_mutex mutex_;  // held during the call, which may unregister its own entry
  bool is_calling_ = false;
  atomic<bool> is_unregistered_{false};
  function call_;
};

/// Waits for hooks and tasks, enforces the deadlines, and enters the phases. Tasks that keep their
/// loops busy do not delay it: the control loop runs no user code except stop callbacks and hooks
/// on inline_executor(); such code must not block.
///
/// | stage | request | force, or drain time over | no step left | no step and no task left | force time over |
/// |---|---|---|---|---|---|
/// | running | stop_accepting | force | - | - | - |
/// | stop_accepting | - | force | drain | - | - |
/// | drain | - | force | - | over | - |
/// | force | - | - | - | over | exit |
/// | over | - | - | - | - | - |
class shutdown_sequence {
 public:
  /// Time limits for tasks and hooks: `drain` for all phases before `force`, and `force` for that
  /// phase.
  struct limits {
    std::chrono::nanoseconds drain;
    std::chrono::nanoseconds force;
  };

  /// `on_phase` is called when a phase begins, on the control loop's thread.
  shutdown_sequence(event_loop& control_loop, limits time_limits,
                    move_only_function<void(shutdown_phase)> on_phase);
  shutdown_sequence& operator=(shutdown_sequence&&) = delete;

  /// These functions begin the shutdown; force() also skips to the phase `force`. Idempotent and
  /// async-signal-safe.
  ///
  /// Thread-safety: any thread.
  void request() noexcept { add_request(shutdown_requested); }
  void force() noexcept { add_request(shutdown_requested | force_requested); }
  bool is_requested() const noexcept { return requests_.load(std::memory_order_relaxed) != 0; }
  /// Makes the transitions that are due. Called on the control loop's thread.
  void advance();
  /// Runs the control loop until the stage `over`.
  void run();
  /// Whether `force` began. Valid after run().
  bool is_forced() const noexcept { return is_forced_; }

  shutdown_hook add(shutdown_phase phase, executor& target, shutdown_entry::function call);
  inplace_stop_token token(shutdown_phase phase) const noexcept {
    return sources_[static_cast<std::size_t>(phase)].get_token();
  }
  /// Counts a task for which the shutdown waits, from construction to destruction. The constructor
  /// throws std::system_error (operation_canceled) once `force` has begun or the shutdown is over.
  class counted_task {
   public:
    explicit counted_task(shutdown_sequence& sequence) {
      sequence.begin_task();
      sequence_.reset(&sequence);
    }
    /// Marks `context`, which must end before this object, as the context of the counted task.
    void mark(task_context& context) noexcept {
      mark_ = {sequence_.get(), context.locals};
      context.locals = &mark_;
    }

   private:
    struct end_task {
      void operator()(shutdown_sequence* sequence) const noexcept { sequence->end_task(); }
    };
    std::unique_ptr<shutdown_sequence, end_task> sequence_;
    local_binding mark_{nullptr};
  };
  /// The number of tasks that have begun and not ended, including those in wait_for_other_tasks().
  std::size_t count_tasks() const noexcept {
    const std::lock_guard lock(mutex_);
    return unended_tasks();
  }
  /// Stores the first error, and requests the shutdown.
  void fail(std::exception_ptr error) noexcept;
  /// The first error. Valid after run().
  std::exception_ptr error() const noexcept { return error_; }
  /// Waits until all tasks have ended, except tasks that also wait here. Throws std::logic_error
  /// unless the awaiting coroutine belongs to a counted_task.
  task<> wait_for_other_tasks();

  void end_step() noexcept;
  /// Adds a step to the phase of `step`, which ends only after the new step, too, has ended.
  shutdown_step copy(const shutdown_step& step) noexcept;

 private:
  enum class stage : std::uint8_t { running, stop_accepting, drain, force, over };
  // The bits of requests_.
  static constexpr std::uint32_t shutdown_requested = 1;
  static constexpr std::uint32_t force_requested = 2;
  // tasks_ has the flag `closed_bit`, which refuses further tasks, and above it the count of tasks.
  static constexpr std::size_t closed_bit = 1;
  static constexpr std::size_t one_task = 2;

  void add_request(std::uint32_t request) noexcept;
  void enter(shutdown_phase phase, steady_time deadline);
  bool try_finish() noexcept;
  [[noreturn]] void give_up() noexcept;
  // Returns the number of tasks without an end. The caller must hold mutex_.
  std::size_t unended_tasks() const noexcept {
    return tasks_.load(std::memory_order_relaxed) / one_task + waiting_tasks_;
  }
  void begin_task();
  void end_task() noexcept;
  bool is_counted(const task_context& context) const noexcept;
  bool has_steps() const noexcept;
  static constexpr stage stage_of(shutdown_phase phase) noexcept {
    return static_cast<stage>(static_cast<std::uint8_t>(phase) + 1);
  }
  static constexpr shutdown_phase phase_of(stage stage) noexcept {
    return static_cast<shutdown_phase>(static_cast<std::uint8_t>(stage) - 1);
  }

  event_loop& control_loop_;
  const limits limits_;
  move_only_function<void(shutdown_phase)> on_phase_;
  wake_event wake_;
  fd_watch wake_watch_;
  timer timer_;
  bool is_forced_ = false;

  atomic<std::uint32_t> requests_{0};
  atomic<std::size_t> tasks_{0};
  std::array<inplace_stop_source, 3> sources_;

  mutable std::mutex mutex_;
  stage stage_ = stage::running;  // only the control loop writes the stage
  steady_time deadline_ = steady_time::max();
  std::size_t steps_ = 0;
  std::vector<std::shared_ptr<shutdown_entry>> entries_;
  std::size_t purge_size_ = 16;  // the size of entries_ at which unregistered ones are removed
  // The tasks in wait_for_other_tasks(), which tasks_ does not count.
  std::size_t waiting_tasks_ = 0;
  manual_reset_event other_tasks_end_event_;
  std::exception_ptr error_;
};

}  // namespace gyre::detail
