// SPDX-License-Identifier: Apache-2.0
// runtime: an application runtime with loops on all cores, a pool for work that blocks or computes,
// signal handling and an orderly shutdown.
//
//     int main() {
//       return gyre::runtime::main([](gyre::runtime& rt) -> gyre::task<int> {
//         gyre::net::tcp_listener clients(rt.loops()[0], at);  // an endpoint
//         for (;;) {
//           gyre::net::socket client = co_await clients.accept_socket();  // until SIGINT or SIGTERM
//           gyre::loop& home = rt.loops().next();  // serve() may continue until `force`
//           rt.spawn(home, serve(home, std::move(client)), gyre::shutdown_phase::force);
//         }
//       });
//     }
//
// examples/echo_coroutine.cpp is the complete program.
#pragma once

#include <gyre/base/duration.hpp>
#include <gyre/base/error.hpp>
#include <gyre/base/move_only_function.hpp>
#include <gyre/exec/executor_watchdog.hpp>
#include <gyre/exec/loop.hpp>
#include <gyre/pool/pool_options.hpp>
#include <gyre/pool/thread_pool.hpp>
#include <gyre/runtime/detail/shutdown_sequence.hpp>
#include <gyre/runtime/loop_pool.hpp>
#include <gyre/runtime/shutdown.hpp>
#include <gyre/runtime/signal_set.hpp>
#include <gyre/task/as_task.hpp>
#include <gyre/task/detail/cancelled.hpp>
#include <gyre/task/detail/this_context.hpp>
#include <gyre/task/executor.hpp>
#include <gyre/task/spawn.hpp>
#include <gyre/task/stop_token.hpp>
#include <gyre/task/task.hpp>

#include <chrono>
#include <concepts>
#include <csignal>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <source_location>
#include <type_traits>
#include <utility>
#include <vector>

namespace gyre {

/// Settings of a runtime, fixed when it is made.
struct runtime_options {
  /// The number of loops; 0: available_parallelism(), which heeds the quota of a container.
  std::size_t loops = 0;
  /// Whether loop i is pinned to the i-th of the CPUs that the calling thread may use, instead of
  /// `each_loop.cpus`.
  bool pin_loops = false;
  /// Settings of the loops and their threads: `.name`, `.loop`, `.on_start` …
  loop_pool_options<gyre::loop> each_loop = {.name = "loop"};
  thread_pool_options pool = {};
  /// Signals that call shutdown() or, during the shutdown, force_shutdown(). They are pending until
  /// run() or, without it, the destructor. From `force` on, and when only the threads are left to
  /// end, a signal takes its ordinary effect. For the first process of a container (PID 1), for
  /// which the kernel drops signals with the default action, that is to exit with 128 + the signal.
  /// The signals are blocked in run()'s thread and in the threads and child processes that inherit
  /// its mask; see unblock_signals().
  std::vector<int> signals = {SIGINT, SIGTERM};
  /// A signal, such as SIGUSR1, at which the runtime prints live_tasks_summary() to stderr, from
  /// run() on and also in the shutdown: for programs that hang. It switches the record of live
  /// tasks on (see live_tasks.hpp), and is blocked as `signals` are. 0: none.
  int debug_signal = 0;
  /// Ignores SIGPIPE in the whole process while the runtime lives, unless the program has a handler
  /// for it: writing to a pipe without reader then fails with EPIPE (on sockets in any case).
  bool ignore_sigpipe = true;
  /// The time from the beginning of the shutdown to `force`. `max()`: no limit.
  duration drain_time = std::chrono::seconds{10};
  /// The time limit of `force`. Then the program prints the number of tasks and hooks that are
  /// left, and the tasks if they are recorded (live_tasks.hpp), and calls
  /// std::_Exit(EXIT_FAILURE), as running tasks cannot be destroyed. `max()`: no limit.
  duration force_time = std::chrono::seconds{5};
  /// Lets an executor_watchdog tell when a loop or the pool is held for too long. Empty: none.
  std::optional<executor_watchdog_options> watchdog = {};
  /// Receives exceptions of spawned tasks on the threads where they end, several at once. Must not
  /// throw. Empty: the first exception shuts the runtime down, and run() throws it.
  move_only_function<void(std::exception_ptr)> on_exception = {};
};

/// Sums of the counters of a runtime's loops, and those of its pool.
struct runtime_metrics {
  loop_metrics loops;
  thread_pool_metrics pool;
  /// Tasks that have been spawned and not ended: also the main task, and those in drained().
  std::size_t tasks = 0;
};

/// An application runtime: loops with their threads, a thread pool, signals, orderly shutdown.
///
/// The shutdown goes through phases (shutdown_phase). It begins when the main task has ended, or at
/// a signal or shutdown(): the main task is asked to stop, hooks are called, and tasks are awaited.
/// When all hooks and tasks have ended, the loops run the callables still posted to them and end,
/// and so does the pool, but after a forced shutdown the pool drops its callables.
///
/// Thread-safety: all members but run() may be called from any thread. One thread makes, runs and
/// destroys the runtime. Make it before the program's other threads, unless they block its signals.
/// Lifetime: without a run(), the destructor shuts down and waits for spawned tasks. Only the
/// runtime may stop its loops.
class runtime {
 public:
  using options = runtime_options;

  /// Starts the loops and the pool. Throws std::system_error (EAGAIN: too many threads; EMFILE: too
  /// many descriptors; EINVAL: a signal that cannot be caught), std::invalid_argument for a
  /// negative time, and exceptions of `on_start`.
  explicit runtime(options settings = {})
      : options_(with_defaults(std::move(settings))),
        sequence_(control_, {.drain = options_.drain_time, .force = options_.force_time},
                  [this](shutdown_phase phase) {
                    if (phase == shutdown_phase::force) release_signals();
                  }),
        sigpipe_(options_.ignore_sigpipe),
        signals_(take_signals()),
        debug_signal_(take_debug_signal()),
        loops_(options_.loops, std::move(options_.each_loop)),
        pool_(std::move(options_.pool)) {
    if (options_.watchdog) watch_threads();
  }
  runtime& operator=(runtime&&) = delete;
  ~runtime();

  /// Makes a runtime, runs it with `body`, and returns the exit code; for main(). Prints the
  /// exception that leaves run() or the constructor to stderr, and returns 1.
  template <class Body>
  [[nodiscard]] static int main(options settings, Body&& body) noexcept {
    try {
      return runtime(std::move(settings)).run(std::forward<Body>(body));
    } catch (...) {
      detail::report_exception(std::current_exception(), "left the main task");
      return 1;
    }
  }
  template <class Body>
    requires std::invocable<Body&, runtime&>
  [[nodiscard]] static int main(Body&& body) noexcept {
    return main(options{}, std::forward<Body>(body));
  }

  /// Runs the awaitable `body(*this)`, the main task, on the first loop, and blocks the calling
  /// thread until the shutdown is over. Returns the main task's result: an int, or 0 if it has none
  /// or was ended by a stop. `body` lives as long as its task.
  ///
  /// Errors: the first exception of the main task, a hook or, without `on_exception`, another task;
  /// std::logic_error for a second run().
  template <class Body>
    requires std::invocable<Body&, runtime&>
  int run(Body&& body) {
    return run_main(call(body));
  }

  /// Begins the shutdown; a later run() begins with a stop. Idempotent. Async-signal-safe.
  void shutdown() noexcept { sequence_.request(); }
  /// Begins the shutdown and then `force`, without a `drain` not yet begun. Async-signal-safe.
  void force_shutdown() noexcept { sequence_.force(); }
  /// Whether the shutdown was requested, also by the end of the main task or by an exception.
  bool shutting_down() const noexcept { return sequence_.is_requested(); }

  /// Starts `awaitable` at once, also before run(), on the next loop in turn, and drops its result.
  /// The shutdown waits for the task, and asks it to stop when the phase `stop_in` begins. Its
  /// exception goes to `on_exception`, unless the task ended because it was asked to stop.
  ///
  /// Errors: std::bad_alloc; std::system_error (std::errc::operation_canceled: the spawn was
  /// refused) once `force` has begun or the shutdown is over.
  /// Complexity: as gyre::spawn(), and two atomic additions.
  template <awaitable Awaitable>
  void spawn(Awaitable awaitable, shutdown_phase stop_in = shutdown_phase::stop_accepting,
             std::source_location place = std::source_location::current()) {
    spawn(loops_.next(), std::move(awaitable), stop_in, place);
  }
  /// Starts `awaitable` on `target`: a loop, the pool, or an executor that outlives the runtime.
  template <awaitable Awaitable>
  void spawn(executor& target, Awaitable awaitable,
             shutdown_phase stop_in = shutdown_phase::stop_accepting,
             std::source_location place = std::source_location::current()) {
    detail::shutdown_sequence::task_membership membership(sequence_);
    gyre::spawn(target, run_task(*this, std::move(membership), std::move(awaitable)),
                {.stop = stop_token(stop_in)}, place);
  }
  // Explains wrong arguments: see base/detail/misuse.hpp.
  void spawn(detail::misused_awaitable explained, shutdown_phase stop_in = {});
  void spawn(executor& target, detail::misused_awaitable explained, shutdown_phase stop_in = {});

  /// Posts `hook` to `target`, which must outlive it, when `phase` begins; at once if it or a later
  /// phase has begun; never if it is skipped or not reached. The phase lasts until the hook ends:
  /// - a hook that returns an awaitable, when that has completed;
  /// - a hook that takes a shutdown_step, when the step is done;
  /// - any other, when it returns.
  ///
  ///     auto hook = rt.on_shutdown(gyre::shutdown_phase::drain, loop, [&](gyre::shutdown_step step) {
  ///       const gyre::steady_time deadline = step.deadline();
  ///       server.stop(deadline, [step = std::move(step)] {});
  ///     });
  ///
  /// The returned object unregisters the hook when it is destroyed. A hook's coroutine is asked to
  /// stop when `force` begins. On inline_executor() the hook is called by the thread in run(),
  /// which watches the deadlines, so the hook must not block. A hook's exception leaves run().
  template <class Hook>
    requires std::invocable<Hook&> || std::invocable<Hook&, shutdown_step>
  shutdown_hook on_shutdown(shutdown_phase phase, executor& target, Hook hook) {
    return sequence_.add(phase, target,
                         [this, &target, hook = std::move(hook)](shutdown_step step) mutable {
                           call_hook(target, std::move(hook), std::move(step));
                         });
  }
  /// Calls `hook` on the first loop, where the main task begins.
  template <class Hook>
    requires std::invocable<Hook&> || std::invocable<Hook&, shutdown_step>
  shutdown_hook on_shutdown(shutdown_phase phase, Hook hook) {
    return on_shutdown(phase, loops_[0], std::move(hook));
  }

  /// Awaited by the main task, waits until the shutdown has begun and hooks and all other tasks
  /// have ended, so that they may use locals of the main task.
  ///
  ///     gyre::task<> serve(gyre::runtime& rt) {
  ///       gyre::net::tcp_server echo(rt.loops());
  ///       auto hook = rt.on_shutdown(gyre::shutdown_phase::drain,
  ///                                  [&] { return echo.stop_async(); });
  ///       co_await rt.drained();
  ///     }
  ///
  /// A stop request does not end the wait. Several tasks may wait, and do not wait for each other,
  /// but one task must not wait twice at once. Throws std::logic_error unless awaited by a task of
  /// the runtime, directly or not: a hook would wait for itself.
  [[nodiscard]] task<> drained() { return sequence_.wait_for_other_tasks(); }

  /// A token whose stop is requested when `phase` or a later one begins. The runtime must outlive
  /// the uses of the token. Its callbacks run on the thread in run(), and must not block.
  inplace_stop_token stop_token(
      shutdown_phase phase = shutdown_phase::stop_accepting) const noexcept {
    return sequence_.token(phase);
  }

  loop_pool& loops() noexcept { return loops_; }
  /// For work that blocks or computes for long. It has available_parallelism() workers by default;
  /// give it more if most of its tasks block.
  thread_pool& pool() noexcept { return pool_; }

  /// Reads the figures one after the other, so together they are no snapshot.
  [[nodiscard]] runtime_metrics metrics();

 private:
  // The scope in which SIGPIPE is ignored, unless the program has a handler for it.
  class ignored_sigpipe {
   public:
    explicit ignored_sigpipe(bool enabled) noexcept;
    ignored_sigpipe& operator=(ignored_sigpipe&&) = delete;
    ~ignored_sigpipe();

   private:
    bool is_ignored_ = false;
  };

  static options with_defaults(options settings);

  template <class Body>
  task<int> call(Body& body) {
    auto work = as_task(std::invoke(body, *this));
    if constexpr (std::is_void_v<task_result_t<decltype(work)>>) {
      co_await std::move(work);
      co_return 0;
    } else {
      const int code = co_await std::move(work);
      co_return code;
    }
  }
  task<> run_body(task<int> body, int& code);
  int run_main(task<int> body);

  // The membership lasts as long as the coroutine's frame.
  template <class Awaitable>
  static task<> run_task(runtime& self, detail::shutdown_sequence::task_membership membership,
                         Awaitable work) {
    task_context& context = co_await detail::this_context();
    membership.mark(context);
    try {
      static_cast<void>(co_await std::move(work));
    } catch (...) {
      self.report(detail::current_exception_outside());
    }
  }

  template <class Hook>
  void call_hook(executor& target, Hook hook, shutdown_step step) {
    if constexpr (std::invocable<Hook&, shutdown_step>) {
      shutdown_step end_of_hook = sequence_.copy(step);
      call_with(target, std::move(hook), std::move(end_of_hook), std::move(step));
    } else {
      call_with(target, std::move(hook), std::move(step));
    }
  }
  template <class Hook, class... Step>
  void call_with(executor& target, Hook hook, shutdown_step end_of_hook, Step... step) {
    if constexpr (awaitable<std::invoke_result_t<Hook&, Step...>>) {
      // The coroutine of a lambda refers to the lambda's captures.
      auto owned_hook = std::make_unique<Hook>(std::move(hook));
      auto work = as_task(std::invoke(*owned_hook, std::move(step)...));
      gyre::spawn(target,
                  run_hook(*this, std::move(end_of_hook), std::move(owned_hook), std::move(work)),
                  {.stop = stop_token(shutdown_phase::force), .name = "shutdown hook"});
    } else {
      std::invoke(hook, std::move(step)...);
    }
  }
  template <class Hook, class Work>
  static task<> run_hook(runtime& self, shutdown_step, std::unique_ptr<Hook>, Work work) {
    try {
      static_cast<void>(co_await std::move(work));
    } catch (...) {
      self.report_hook(detail::current_exception_outside());
    }
  }

  std::unique_ptr<signal_set> take_signals();
  void release_signals() noexcept;
  std::unique_ptr<signal_set> take_debug_signal();
  void watch_threads();
  void report(std::exception_ptr error) noexcept;
  void report_hook(const std::exception_ptr& error) noexcept;
  void end();

  options options_;
  loop control_;  // runs in run(): stop callbacks and inline hooks, no other code of users
  detail::shutdown_sequence sequence_;
  ignored_sigpipe sigpipe_;
  std::unique_ptr<signal_set> signals_;  // blocked before the threads start
  std::unique_ptr<signal_set> debug_signal_;
  loop_pool loops_;
  thread_pool pool_;
  std::optional<executor_watchdog> watchdog_;
  bool run_called_ = false;
  bool end_called_ = false;
};

}  // namespace gyre
