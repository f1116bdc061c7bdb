// SPDX-License-Identifier: Apache-2.0
// worker: runs the durable jobs of a database.
//
//     gyre::work::worker worker(db);
//     worker.handle("resize", resize, {.max_running = 4, .executor = &pool});
//     worker.handle("mail", [&](gyre::work::job& job) { return send_mail(job.payload()); });
//     co_await worker.run();  // until it is stopped or drained
#pragma once

#include <gyre/base/move_only_function.hpp>
#include <gyre/engines/postgres/client.hpp>
#include <gyre/engines/work/job.hpp>
#include <gyre/engines/work/worker_options.hpp>
#include <gyre/task/as_task.hpp>
#include <gyre/task/task.hpp>

#include <concepts>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

namespace gyre::work {

/// A function `handler(job&)` that returns an awaitable, without a result or with the job's result:
/// bytes in a std::string.
template <class Handler>
concept job_handler =
    std::invocable<Handler&, job&> && awaitable<std::invoke_result_t<Handler&, job&>> &&
    (std::is_void_v<task_result_t<std::invoke_result_t<Handler&, job&>>> ||
     std::convertible_to<task_result_t<std::invoke_result_t<Handler&, job&>>, std::string>);

namespace detail {

using type_erased_handler = move_only_function<task<std::string>(job&)>;

template <job_handler Handler>
task<std::string> run_handler(Handler& handler, job& current) {
  if constexpr (std::is_void_v<task_result_t<std::invoke_result_t<Handler&, job&>>>) {
    co_await handler(current);
    co_return std::string();
  } else {
    co_return co_await handler(current);
  }
}

}  // namespace detail

/// Takes jobs of a database, runs their handlers, and stores how they ended. Any number of workers,
/// in any number of processes and machines, share the jobs.
///
/// An attempt fails if its handler throws, or has not ended when its time limit has passed: the job
/// is tried again after a delay, until it has failed `max_attempts` times and is dead. A handler
/// that is asked to stop, and returns all the same, has finished its job.
///
/// The worker has a lease, which it extends all the time. If it does not (its process was killed,
/// its loop is blocked, the network is gone), other workers take over its jobs. Such a late
/// worker's handlers are asked to stop; what they store counts for nothing, and transactions with
/// once() are rolled back. If the database is away or overloaded, the worker tries again; if it
/// refuses the login or a statement for good, run() ends.
///
/// Connections: handlers may hold all connections of the client. The worker extends its lease over
/// one of its own with the client's options, and opens a second one for schedules while some are
/// due.
///
/// Thread-safety: the loop's thread of the client.
/// Lifetime: the client, and the executors of handlers, must outlive the worker. run() must have
/// ended before the destructor.
/// Complexity: a statement takes all jobs that there are free slots for, and one stores the ends of
/// all handlers that have ended meanwhile.
class worker {
 public:
  /// Throws std::invalid_argument for options that make no sense.
  explicit worker(postgres::client& db, worker_options options = {});
  worker(const worker&) = delete;
  worker& operator=(const worker&) = delete;
  ~worker();

  /// Runs jobs of this kind by calls of `handler`, which may overlap. Call it before run(). Throws
  /// std::invalid_argument for options that make no sense, and for a kind that has a handler.
  template <job_handler Handler>
  void handle(std::string kind, Handler handler, handler_options options = {}) {
    add(
        std::move(kind),
        [handler = std::move(handler)](job& current) mutable {
          return detail::run_handler(handler, current);
        },
        options);
  }

  /// Runs jobs until the awaiting coroutine is stopped, or drain() was called: then it takes no
  /// more jobs, awaits the handlers, stores how they ended and returns; handlers that have not
  /// ended after `drain_timeout` are asked to stop, and their jobs are released to other workers. A
  /// server that does not reply delays the end by at most some `drain_timeout`, `lease` and
  /// `statement_timeout`.
  ///
  /// Errors: std::system_error with errc::schema_missing; postgres::server_error if the database
  /// refuses the worker's login (SQLSTATE class 28) or statements for good (rights, for instance),
  /// after the handlers were stopped and have ended; gyre::operation_cancelled after a stop.
  /// std::logic_error if it was called before.
  [[nodiscard]] task<> run();
  /// Begins the orderly end of run(). Idempotent.
  void drain() noexcept;

  [[nodiscard]] worker_metrics metrics() const;

 private:
  void add(std::string kind, detail::type_erased_handler handler, const handler_options& options);

  std::unique_ptr<detail::worker_core> core_;
};

}  // namespace gyre::work
