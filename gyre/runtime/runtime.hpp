// SPDX-License-Identifier: Apache-2.0
// A whole program: loops on all cores, a pool for work that blocks or computes, signals, and an
// orderly end.
//
//     int main() {
//       return gyre::runtime::main([](gyre::runtime& rt) -> gyre::task<int> {
//         gyre::net::tcp_listener clients(rt.loops()[0], at);
//         for (;;) {
//           gyre::net::socket client = co_await clients.accept_socket();  // until SIGINT or SIGTERM
//           gyre::loop& home = rt.loops().next();
//           rt.spawn(home, serve(home, std::move(client)), gyre::shutdown_phase::force);
//         }
//       });
//     }
//
// The whole of it is examples/echo_coroutine.cpp.
#pragma once

#include <chrono>
#include <concepts>
#include <csignal>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include <gyre/base/move_only_function.hpp>
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

namespace gyre {

/// How a runtime behaves; fixed when it is made.
struct runtime_options {
  /// 0: as many as the CPUs that the thread which makes the runtime may use.
  std::size_t loops = 0;
  /// Whether loop i keeps to the i-th of those CPUs.
  bool pin_loops = false;
  /// What else can be set of the loops and their threads: `.name`, `.loop`, `.on_start` …
  loop_pool_options<gyre::loop> each_loop = {.name = "loop"};
  thread_pool_options pool = {};
  /// The first of these asks the runtime to end, or forces it if it is ending already; the next one
  /// forces it; one more takes its ordinary effect, as does one that comes when only the threads are
  /// left to end. Empty: none. Threads and programs that are started inherit their mask; see unblock_signals().
  std::vector<int> signals = {SIGINT, SIGTERM};
  /// Whether writing to a pipe whose reader is gone fails with EPIPE instead of ending the program.
  /// (Sockets do in any case.) Ignores SIGPIPE in the whole process while the runtime lives.
  bool ignore_sigpipe = true;
  /// How long tasks and hooks may take to end when asked to; those left are then forced.
  std::chrono::nanoseconds drain_time = std::chrono::seconds{10};
  /// How long after that the program gives up: prints what is left and exits with EXIT_FAILURE, as
  /// nothing can be destroyed that still runs. `max()`: never.
  std::chrono::nanoseconds force_time = std::chrono::seconds{5};
  /// Receives what a spawned task throws, on the thread where it ends; by several at once. Empty:
  /// the first such exception ends the runtime, orderly, and run() throws it. Must not throw.
  move_only_function<void(std::exception_ptr)> on_exception = {};
};

/// Sums of what a runtime's loops and its pool have counted.
struct runtime_metrics {
  loop_metrics loops;
  thread_pool_metrics pool;
  std::size_t tasks = 0;  ///< spawned and not ended, the main task included
};

/// Loops with their threads, one thread pool, signals, and an orderly end for what runs on them.
///
/// It ends in phases (shutdown_phase) when the main task has ended, or when asked to by a signal or
/// shutdown(): the main task is asked to stop, hooks are called, and tasks are awaited. Once nothing
/// is left, loops end (they still run what had been posted to them), and so does the pool (it still
/// runs what had been submitted to it, unless the end was forced).
///
/// Made, run and destroyed by one thread, before any other thread of the program that does not block
/// its signals (those of gyre do). Its destructor ends it if run() was never called. The loops must not be stopped by
/// others. All members but run() may be called by any thread.
class runtime {
 public:
  using options = runtime_options;

  /// Starts the loops and the pool. Throws std::system_error (EAGAIN: no thread, EMFILE: no
  /// descriptor, EINVAL: no such signal, or one that cannot be caught), and what `each_loop.on_start`
  /// throws.
  explicit runtime(options how = {})
      : options_(prepared(std::move(how))),
        sequence_(control_, {.drain = options_.drain_time, .force = options_.force_time},
                  [this](shutdown_phase phase) { enter(phase); }),
        sigpipe_(options_.ignore_sigpipe),
        signals_(take_signals()),
        loops_(options_.loops, std::move(options_.each_loop)),
        pool_(std::move(options_.pool)) {}
  runtime(const runtime&) = delete;
  runtime& operator=(const runtime&) = delete;
  ~runtime();

  /// Makes a runtime, runs it with `body`, and returns the exit code; for main(). An exception that
  /// leaves it is printed, and the exit code 1.
  template <class Body>
  [[nodiscard]] static int main(options how, Body&& body) noexcept {
    try {
      return runtime(std::move(how)).run(std::forward<Body>(body));
    } catch (...) {
      print(std::current_exception());
      return 1;
    }
  }
  template <class Body>
    requires std::invocable<Body&, runtime&>
  [[nodiscard]] static int main(Body&& body) noexcept {
    return main(options{}, std::forward<Body>(body));
  }

  /// Runs what `body(*this)` returns, the main task, on the first loop; when it and all else has
  /// ended, returns its result: an int, or 0 for a task without one. Throws what the main task threw
  /// (to end because it was asked to stop is no error: 0), or else the first error of
  /// another task or a hook. A second run() throws std::logic_error. `body` lives as long as its task.
  template <class Body>
    requires std::invocable<Body&, runtime&>
  int run(Body&& body) {
    return run_main(call(body));
  }

  /// Begins the end. What the main task still does is up to it. Idempotent; also before run(), whose
  /// main task then starts with a token that says so. Async-signal-safe.
  void shutdown() noexcept { sequence_.request(); }
  /// The same, and skips to shutdown_phase::force. Async-signal-safe.
  void force_shutdown() noexcept { sequence_.force(); }
  /// Whether it was asked to end.
  bool shutting_down() const noexcept { return sequence_.requested(); }

  /// Starts `awaitable` on the loops in turn; its result is dropped, the end waits for it. It is
  /// asked to stop when the phase `stop_in` begins: `force` lets it finish what it is at. What it
  /// throws goes to `on_exception`, unless it ended because it was asked to stop.
  /// Throws std::bad_alloc, and std::system_error (operation_canceled) once `force` has begun or all
  /// has ended.
  /// Costs as gyre::spawn(), and an atomic addition at each end.
  template <awaitable Awaitable>
  void spawn(Awaitable awaitable, shutdown_phase stop_in = shutdown_phase::stop_accepting) {
    spawn(loops_.next(), std::move(awaitable), stop_in);
  }
  /// The same on `where`: one of the loops, the pool, or what outlives the runtime.
  template <awaitable Awaitable>
  void spawn(executor& where, Awaitable awaitable,
             shutdown_phase stop_in = shutdown_phase::stop_accepting) {
    detail::shutdown_sequence::task_place place(sequence_);
    gyre::spawn(where, run_task(*this, std::move(place), std::move(awaitable)),
                {.stop = stop_token(stop_in)});
  }

  /// Calls `hook` on `where` when `phase` begins, once; at once if it has begun, never if the end
  /// does not come to it. The phase lasts until what it returns has ended, if that is awaitable,
  /// until the shutdown_step that it takes is done, if it takes one, or else until it returns.
  ///
  ///     auto hook = rt.on_shutdown(gyre::shutdown_phase::drain, loop, [&](gyre::shutdown_step step) {
  ///       const gyre::steady_time deadline = step.deadline();
  ///       server.stop(deadline, [step = std::move(step)] {});
  ///     });
  ///
  /// A coroutine is asked to stop when `force` begins. On inline_executor() it is called by the
  /// thread in run(), which keeps the deadlines: then it must not block.
  ///
  /// It is unregistered when the result is destroyed. What it throws does not stop the end, and
  /// leaves run().
  template <class Hook>
    requires std::invocable<Hook&> || std::invocable<Hook&, shutdown_step>
  shutdown_hook on_shutdown(shutdown_phase phase, executor& where, Hook hook) {
    return sequence_.add(phase, where,
                         [this, &where, hook = std::move(hook)](shutdown_step step) mutable {
                           call_hook(where, std::move(hook), std::move(step));
                         });
  }
  /// The same on the first loop, where the main task begins.
  template <class Hook>
    requires std::invocable<Hook&> || std::invocable<Hook&, shutdown_step>
  shutdown_hook on_shutdown(shutdown_phase phase, Hook hook) {
    return on_shutdown(phase, loops_[0], std::move(hook));
  }

  /// Awaited by the main task, waits until the runtime was asked to end, and hooks and all other
  /// tasks have ended, by force or not: what those use may be local to the main task.
  ///
  ///     gyre::task<> serve(gyre::runtime& rt) {
  ///       gyre::net::tcp_server echo(rt.loops());
  ///       auto hook = rt.on_shutdown(gyre::shutdown_phase::drain,
  ///                                  [&] { return echo.stop_async(); });
  ///       co_await rt.drained();
  ///     }
  ///
  /// A stop request does not end it. Only for tasks of the runtime and what they await, else throws
  /// std::logic_error (hooks would wait for themselves); several that wait do not wait for each other,
  /// but one task waits once at a time.
  [[nodiscard]] task<> drained() { return sequence_.others_ended(); }

  /// Asks to stop when `phase` begins. Its callbacks are called by the thread in run(), which also
  /// keeps the deadlines: they must not block.
  inplace_stop_token stop_token(
      shutdown_phase phase = shutdown_phase::stop_accepting) const noexcept {
    return sequence_.token(phase);
  }

  loop_pool& loops() noexcept { return loops_; }
  /// For work that blocks or computes for long. Its workers are as many as CPUs by default: give it
  /// more if most of its tasks block.
  thread_pool& pool() noexcept { return pool_; }

  /// Not read at one instant.
  [[nodiscard]] runtime_metrics metrics();

 private:
  // SIGPIPE is ignored while it lives, unless the program has a handler for it.
  class ignored_sigpipe {
   public:
    explicit ignored_sigpipe(bool wanted) noexcept;
    ignored_sigpipe(const ignored_sigpipe&) = delete;
    ignored_sigpipe& operator=(const ignored_sigpipe&) = delete;
    ~ignored_sigpipe();

   private:
    bool ignored_ = false;
  };

  static options prepared(options how);
  static void print(const std::exception_ptr& error) noexcept;

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

  // The place is given back when the frame is destroyed.
  template <class Awaitable>
  static task<> run_task(runtime& self, detail::shutdown_sequence::task_place place,
                         Awaitable work) {
    task_context& context = co_await detail::this_context();
    place.mark(context);
    try {
      static_cast<void>(co_await std::move(work));
    } catch (...) {
      self.report(detail::current_exception_outside());
    }
  }

  template <class Hook>
  void call_hook(executor& where, Hook hook, shutdown_step step) {
    if constexpr (std::invocable<Hook&, shutdown_step>) {
      shutdown_step until_ended = sequence_.share(step);
      call_with(where, std::move(hook), std::move(until_ended), std::move(step));
    } else {
      call_with(where, std::move(hook), std::move(step));
    }
  }
  template <class Hook, class... Step>
  void call_with(executor& where, Hook hook, shutdown_step until_ended, Step... step) {
    if constexpr (awaitable<std::invoke_result_t<Hook&, Step...>>) {
      auto kept = std::make_unique<Hook>(std::move(hook));  // a lambda's captures
      auto work = as_task(std::invoke(*kept, std::move(step)...));
      gyre::spawn(where, run_hook(*this, std::move(until_ended), std::move(kept), std::move(work)),
                  {.stop = stop_token(shutdown_phase::force)});
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
  void enter(shutdown_phase phase) noexcept;
  void report(std::exception_ptr error) noexcept;
  void report_hook(const std::exception_ptr& error) noexcept;
  void end();

  options options_;
  loop control_;  // run by run(): of users' code only stop callbacks and inline hooks are on it
  detail::shutdown_sequence sequence_;
  ignored_sigpipe sigpipe_;
  std::unique_ptr<signal_set> signals_;  // blocked before the threads start
  loop_pool loops_;
  thread_pool pool_;
  bool ran_ = false;
  bool ended_ = false;
};

}  // namespace gyre
