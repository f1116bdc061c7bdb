// SPDX-License-Identifier: Apache-2.0
// The orderly end of a runtime, as a state machine on a loop of its own: it waits for hooks and tasks,
// keeps the deadlines and follows the phases. Tasks that keep their loops busy do not delay it. Of
// users' code there are only stop callbacks and hooks on inline_executor(), which must not block.
#pragma once

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

#include <gyre/base/atomic.hpp>
#include <gyre/base/move_only_function.hpp>
#include <gyre/base/operation.hpp>
#include <gyre/base/unique_fd.hpp>
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

namespace gyre::detail {

/// A registered function and where it is called.
class shutdown_entry final : public operation {
 public:
  using function = move_only_function<void(shutdown_step)>;

  shutdown_entry(shutdown_phase phase, executor& where, function call) noexcept
      : operation(&run), phase_(phase), where_(where), call_(std::move(call)) {}

  shutdown_phase phase() const noexcept { return phase_; }
  // relaxed: a hint.
  bool forgotten() const noexcept { return forgotten_.load(std::memory_order_relaxed); }
  /// Calls it on its executor. Once.
  void begin(std::shared_ptr<shutdown_entry> self, shutdown_step step) noexcept;
  void forget() noexcept;

 private:
  static void run(operation& posted);
  void call(shutdown_step step) noexcept;

  const shutdown_phase phase_;
  executor& where_;
  std::shared_ptr<shutdown_entry> self_;  // while it is posted
  std::optional<shutdown_step> step_;     // likewise

  std::recursive_mutex mutex_;  // held during the call, which may forget its own entry
  bool calling_ = false;
  atomic<bool> forgotten_{false};
  function call_;
};

class shutdown_sequence {
 public:
  /// How long tasks and hooks may take until they are forced, and after that.
  struct limits {
    std::chrono::nanoseconds drain;
    std::chrono::nanoseconds force;
  };

  /// `entering` is called when a phase begins, on the control loop's thread.
  shutdown_sequence(event_loop& control, limits allowed,
                    move_only_function<void(shutdown_phase)> entering);
  shutdown_sequence(const shutdown_sequence&) = delete;
  shutdown_sequence& operator=(const shutdown_sequence&) = delete;
  ~shutdown_sequence();

  /// Begin the end; skip to its last phase. Any thread; async-signal-safe; idempotent.
  void request() noexcept { ask(to_end); }
  void force() noexcept { ask(to_end | to_force); }
  bool requested() const noexcept { return asked_.load(std::memory_order_relaxed) != 0; }

  /// Goes as far as it can. On the control loop's thread.
  void advance();
  /// Runs the control loop until it is over: somebody requested it, and no task and no step is left.
  void conduct();
  /// Whether `force` began. After conduct().
  bool forced() const noexcept { return forced_; }

  shutdown_hook add(shutdown_phase phase, executor& where, shutdown_entry::function call);
  inplace_stop_token token(shutdown_phase phase) const noexcept {
    return sources_[static_cast<std::size_t>(phase)].get_token();
  }

  /// A task that is waited for, from construction to destruction. Throws std::system_error
  /// (operation_canceled) when `force` has begun, or it is over.
  class task_place {
   public:
    explicit task_place(shutdown_sequence& sequence) : sequence_(&sequence) {
      sequence.begin_task();
    }
    task_place(task_place&& other) noexcept : sequence_(std::exchange(other.sequence_, nullptr)) {}
    /// From now on what runs in `of`, which ends before this, is known to have this place.
    void mark(task_context& of) noexcept {
      mark_ = {sequence_, of.locals};
      of.locals = &mark_;
    }
    task_place& operator=(task_place&&) = delete;
    ~task_place() {
      if (sequence_ != nullptr) sequence_->end_task();
    }

   private:
    shutdown_sequence* sequence_;
    local_binding mark_{nullptr};
  };
  std::size_t tasks() const noexcept { return tasks_.load(std::memory_order_relaxed) / one_task; }

  /// Remembers the first error, and requests the end.
  void fail(std::exception_ptr error) noexcept;
  /// That error. After conduct().
  std::exception_ptr error() const noexcept { return error_; }

  /// Waits until a task that has a place, or others that wait here too, are all that is left. Throws
  /// std::logic_error to who has none.
  task<> others_ended();

  void end_step() noexcept;
  /// Another one like it, for whoever works on its behalf.
  shutdown_step share(const shutdown_step& step) noexcept;

 private:
  enum class stage : std::uint8_t { running, stop_accepting, drain, force, over };
  static constexpr std::uint32_t to_end = 1;
  static constexpr std::uint32_t to_force = 2;
  // In tasks_: no more may begin.
  static constexpr std::size_t closed = 1;
  static constexpr std::size_t one_task = 2;

  void ask(std::uint32_t what) noexcept;
  void poke() const noexcept;
  void enter(shutdown_phase phase, steady_time deadline);
  bool finish() noexcept;
  [[noreturn]] void give_up() noexcept;
  void begin_task();
  void end_task() noexcept;
  bool has_place(const task_context& here) const noexcept;
  bool no_steps() const noexcept;
  static constexpr stage stage_of(shutdown_phase phase) noexcept {
    return static_cast<stage>(static_cast<std::uint8_t>(phase) + 1);
  }
  static constexpr shutdown_phase phase_of(stage at) noexcept {
    return static_cast<shutdown_phase>(static_cast<std::uint8_t>(at) - 1);
  }

  event_loop& control_;
  const limits limits_;
  move_only_function<void(shutdown_phase)> entering_;
  unique_fd wake_;
  fd_watch woken_;
  timer timer_;
  bool forced_ = false;

  atomic<std::uint32_t> asked_{0};
  atomic<std::size_t> tasks_{0};
  std::array<inplace_stop_source, 3> sources_;

  mutable std::mutex mutex_;
  stage stage_ = stage::running;  // written by the control loop
  steady_time deadline_ = steady_time::max();
  std::size_t steps_ = 0;
  std::vector<std::shared_ptr<shutdown_entry>> entries_;
  std::size_t purge_at_ = 16;
  std::size_t waiting_ = 0;  // in others_ended(); meanwhile not among the tasks
  manual_reset_event others_ended_;
  std::exception_ptr error_;
};

}  // namespace gyre::detail
