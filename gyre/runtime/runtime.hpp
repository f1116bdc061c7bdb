// SPDX-License-Identifier: Apache-2.0
// runtime: an application runtime with loops on all cores, a pool for work that blocks or computes,
// signal handling and an orderly shutdown.
//
//     int main() {
//       return gyre::runtime::main([](gyre::runtime& rt) -> gyre::task<int> {
//         gyre::net::tcp_listener clients(rt.loops()[0], endpoint);
//         for (;;) {
//           gyre::net::socket client = co_await clients.accept_socket();  // until SIGINT or SIGTERM
//           gyre::loop& home = rt.loops().next();  // serve() may continue until `force`
//           rt.spawn(home, serve(home, std::move(client)), gyre::shutdown_phase::force);
//         }
//       });
//     }
//
// The complete program is examples/echo_coroutine.cpp.
#pragma once

#include <gyre/base/duration.hpp>
#include <gyre/base/error.hpp>
#include <gyre/base/move_only_function.hpp>
#include <gyre/exec/executor_watchdog.hpp>
#include <gyre/exec/loop.hpp>
#include <gyre/metrics/inspection.hpp>
#include <gyre/metrics/writable.hpp>
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
#include <gyre/trace/dump_writer.hpp>

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

/// Settings of a runtime, fixed at its construction.
struct runtime_options {
  /// The number of loops; 0: available_parallelism(), which respects the quota of a container.
  std::size_t loops = 0;
  /// Whether to pin loop i to the i-th CPU that the calling thread may use, instead of the CPUs in
  /// `each_loop.cpus`.
  bool pin_loops = false;
  /// Settings of the loops and their threads: `.name`, `.loop`, `.on_start` …
  loop_pool_options<gyre::loop> each_loop = {.name = "loop"};
  thread_pool_options pool = {};
  /// Signals that call shutdown() or, during the shutdown, force_shutdown(). They stay pending
  /// until run() or, without run(), the destructor. From `force` on, and once only the threads have
  /// to end, a signal has its ordinary effect. In the first process of a container (PID 1), for
  /// which the kernel drops signals with the default action, the effect is then to exit with 128 +
  /// the signal. The signals are blocked in run()'s thread, and in the threads and child processes
  /// that inherit its mask; see unblock_signals().
  std::vector<int> signals = {SIGINT, SIGTERM};
  /// A signal, such as SIGUSR1. When it arrives, the runtime prints live_tasks_summary() and
  /// trace::dump_text() to stderr, from run() on and even during the shutdown: for programs that
  /// hang. It enables the recording of live tasks (see live_tasks.hpp), and is blocked like
  /// `signals`. 0: none.
  int debug_signal = 0;
  /// Whether to ignore SIGPIPE in the whole process while the runtime exists, unless the program
  /// has a handler for it. Writing to a pipe without a reader then fails with EPIPE (as on sockets
  /// always).
  bool ignore_sigpipe = true;
  /// The time from the beginning of the shutdown to `force`. `max()`: no limit.
  duration drain_time = std::chrono::seconds{10};
  /// The time limit of `force`. After it the program prints the number of remaining tasks and
  /// hooks, and the tasks themselves if they are recorded (live_tasks.hpp), and calls
  /// std::_Exit(EXIT_FAILURE), because running tasks cannot be destroyed. `max()`: no limit.
  duration force_time = std::chrono::seconds{5};
  /// Options of an executor_watchdog, which reports when a loop or the pool is blocked for too
  /// long. Empty: none.
  std::optional<executor_watchdog_options> watchdog = {};
  /// Options of a trace::dump_writer, which writes a file when a request or a span has taken too
  /// long. Empty: none.
  std::optional<trace::dump_writer_options> slow_dumps = {};
  /// Makes the address at which operators see the inside of the program, such as
  /// `http::inspect_at("unix:/run/shop/inspect")`. It exists until the tasks have ended, and shows
  /// registry(). Empty: none.
  metrics::inspection_factory inspect = {};
  /// Receives exceptions of spawned tasks on the threads where they end, on several at the same
  /// time. Must not throw. Empty: the first exception shuts the runtime down, and run() throws it.
  move_only_function<void(std::exception_ptr)> on_exception = {};
};

/// Sums of the counters of a runtime's loops, and the counters of its pool.
struct runtime_metrics {
  loop_metrics loops;
  thread_pool_metrics pool;
  /// Number of tasks that have been spawned and not ended, including the main task and tasks in
  /// drained().
  std::size_t tasks = 0;
};
/// Adds the counts to an exposition: see metrics::registry.
void write_metrics(metrics::exposition& output, const runtime_metrics& counts);

namespace detail {
class observation;
}  // namespace detail

/// An application runtime: loops with their threads, a thread pool, signals, orderly shutdown.
///
/// The shutdown has phases (shutdown_phase). It begins when the main task has ended, at a signal or
/// by shutdown(): the main task is requested to stop, hooks are called, and tasks are awaited. When
/// all hooks and tasks have ended, the loops run the callables still posted to them and end. So
/// does the pool, except that it drops its callables after a forced shutdown.
///
/// Thread-safety: all members except run() may be called from any thread. One thread constructs,
/// runs and destroys the runtime. Construct it before the program's other threads, unless they
/// block its signals.
/// Lifetime: without a run(), the destructor shuts down and waits for spawned tasks. Only the
/// runtime may stop its loops.
class runtime {
 public:
  using options = runtime_options;

  /// Starts the loops and the pool. Throws std::system_error (EAGAIN: too many threads; EMFILE: too
  /// many descriptors; EINVAL: a signal that cannot be caught), std::invalid_argument for a
  /// negative time, and the exceptions of `on_start`.
  explicit runtime(options settings = {})
      : options_(with_defaults(std::move(settings))),
        sequence_(control_loop_, {.drain = options_.drain_time, .force = options_.force_time},
                  [this](shutdown_phase phase) {
                    if (phase == shutdown_phase::force) release_signals();
                  }),
        sigpipe_(options_.ignore_sigpipe),
        signals_(take_signals()),
        debug_signal_(take_debug_signal()),
        loops_(options_.loops, std::move(options_.each_loop)),
        pool_(std::move(options_.pool)) {
    if (options_.watchdog) watch_threads();
    observe();
  }
  runtime& operator=(runtime&&) = delete;
  ~runtime();

  /// Constructs a runtime, runs it with `body`, and returns the exit code; for main(). Prints an
  /// exception of run() or of the constructor to stderr, and returns 1.
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
  /// thread until the shutdown is over. Returns the main task's result: an int, or 0 if it has no
  /// result or was ended by a stop. `body` exists as long as its task.
  ///
  /// Errors: the first exception of the main task, of a hook or, without `on_exception`, of another
  /// task; std::logic_error for a second run().
  template <class Body>
    requires std::invocable<Body&, runtime&>
  int run(Body&& body) {
    return run_main(call(body));
  }

  /// Begins the shutdown; the main task of a later run() starts with a stop requested. Idempotent.
  /// Async-signal-safe.
  void shutdown() noexcept { sequence_.request(); }
  /// Begins the shutdown and then `force`; skips `drain` if it has not begun. Async-signal-safe.
  void force_shutdown() noexcept { sequence_.force(); }
  /// Whether the shutdown was requested, including by the end of the main task or an exception.
  bool shutting_down() const noexcept { return sequence_.is_requested(); }

  /// Starts `awaitable` at once, even before run(), on the next loop in turn, and discards its
  /// result. The shutdown waits for the task, and requests it to stop when the phase `stop_in`
  /// begins. Its exception is passed to `on_exception`, unless the task ended because of a stop.
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
    detail::shutdown_sequence::counted_task task_count(sequence_);
    gyre::spawn(target, run_task(*this, std::move(task_count), std::move(awaitable)),
                {.stop = stop_token(stop_in)}, place);
  }
  // These overloads explain wrong arguments: see base/detail/misuse.hpp.
  void spawn(detail::misused_awaitable explained, shutdown_phase stop_in = {});
  void spawn(executor& target, detail::misused_awaitable explained, shutdown_phase stop_in = {});

  /// Posts `hook` to `target`, which must outlive the hook, when `phase` begins: at once if `phase`
  /// or a later one has begun; never if `phase` is skipped or not reached. The phase lasts until
  /// the hook ends:
  /// - a hook that returns an awaitable ends when the awaitable has completed;
  /// - a hook that takes a shutdown_step ends when the step is done;
  /// - any other hook ends when it returns.
  ///
  ///     auto hook = rt.on_shutdown(gyre::shutdown_phase::drain, loop, [&](gyre::shutdown_step step) {
  ///       const gyre::steady_time deadline = step.deadline();
  ///       server.stop(deadline, [step = std::move(step)] {});
  ///     });
  ///
  /// The returned object unregisters the hook when it is destroyed. A hook's coroutine is requested
  /// to stop when `force` begins. On inline_executor() the hook is called by the thread in run(),
  /// which enforces the deadlines, so the hook must not block. run() throws the exception of a
  /// hook.
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

  /// Waits until the shutdown has begun and hooks and all other tasks have ended, so that they may
  /// use local variables of the main task, which awaits this.
  ///
  ///     gyre::task<> serve(gyre::runtime& rt) {
  ///       gyre::net::tcp_server echo(rt.loops());
  ///       auto hook = rt.on_shutdown(gyre::shutdown_phase::drain,
  ///                                  [&] { return echo.stop_async(); });
  ///       co_await rt.drained();
  ///     }
  ///
  /// A stop request does not end the wait. Several tasks may wait, and do not wait for one another,
  /// but one task must not wait twice at the same time. Throws std::logic_error unless awaited by a
  /// task of the runtime, directly or indirectly: a hook would wait for itself.
  [[nodiscard]] task<> drained() { return sequence_.wait_for_other_tasks(); }

  /// A token whose stop is requested when `phase` or a later one begins. The runtime must outlive
  /// all uses of the token. Its callbacks run on the thread in run(), and must not block.
  inplace_stop_token stop_token(
      shutdown_phase phase = shutdown_phase::stop_accepting) const noexcept {
    return sequence_.token(phase);
  }

  loop_pool& loops() noexcept { return loops_; }
  /// The pool, for work that blocks or computes for long. It has available_parallelism() workers by
  /// default; configure more if most of its tasks block.
  thread_pool& pool() noexcept { return pool_; }

  /// Reads the counters one after the other, so together they are not a snapshot.
  [[nodiscard]] runtime_metrics metrics();
  /// The registry of the program's metrics, which has the loops, as "loop 0", "loop 1" …, and the
  /// pool, as "pool".
  [[nodiscard]] metrics::registry& registry() noexcept;

 private:
  // The scope in which SIGPIPE is ignored, unless the program has a handler for it.
  class ignored_sigpipe {
   public:
    explicit ignored_sigpipe(bool is_enabled) noexcept;
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

  // `task_count` lasts as long as the coroutine's frame.
  template <class Awaitable>
  static task<> run_task(runtime& self, detail::shutdown_sequence::counted_task task_count,
                         Awaitable work) {
    task_context& context = co_await detail::this_context();
    task_count.mark(context);
    try {
      static_cast<void>(co_await std::move(work));
    } catch (...) {
      self.report_error(detail::current_exception_outside());
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
      // The hook is stored, because the coroutine of a lambda refers to the lambda's captures.
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
      self.report_hook_error(detail::current_exception_outside());
    }
  }

  std::unique_ptr<signal_set> take_signals();
  void release_signals() noexcept;
  std::unique_ptr<signal_set> take_debug_signal();
  void watch_threads();
  void observe();
  void report_error(std::exception_ptr error) noexcept;
  void report_hook_error(const std::exception_ptr& error) noexcept;
  void end_threads();

  options options_;
  // run() runs this loop, whose only user code are stop callbacks and inline hooks.
  loop control_loop_;
  detail::shutdown_sequence sequence_;
  ignored_sigpipe sigpipe_;
  std::unique_ptr<signal_set> signals_;  // constructed before the threads, which inherit its mask
  std::unique_ptr<signal_set> debug_signal_;
  loop_pool loops_;
  thread_pool pool_;
  std::optional<executor_watchdog> watchdog_;
  std::optional<trace::dump_writer> slow_dumps_;
  // A shared_ptr, as the type is incomplete here.
  std::shared_ptr<detail::observation> observation_;
  bool was_run_called_ = false;
  bool was_end_called_ = false;
};

}  // namespace gyre
