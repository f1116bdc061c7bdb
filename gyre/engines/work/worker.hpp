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
#include <gyre/engines/postgres/transaction.hpp>
#include <gyre/engines/work/job.hpp>
#include <gyre/engines/work/worker_options.hpp>
#include <gyre/task/as_task.hpp>
#include <gyre/task/task.hpp>

#include <concepts>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace gyre::work {

/// A function `handler(job&)` that returns an awaitable, without a result or with the job's result:
/// bytes in a std::string.
template <class Handler>
concept job_handler =
    std::invocable<Handler&, job&> && awaitable<std::invoke_result_t<Handler&, job&>> &&
    (std::is_void_v<task_result_t<std::invoke_result_t<Handler&, job&>>> ||
     std::convertible_to<task_result_t<std::invoke_result_t<Handler&, job&>>, std::string>);

/// A function `handler(jobs, tx)` that gives an awaitable, without a result or with the results of
/// the jobs, in their order. `jobs`: a std::span<job* const>.
template <class Handler>
concept transaction_handler =
    std::invocable<Handler&, std::span<job* const>, postgres::transaction&> &&
    awaitable<std::invoke_result_t<Handler&, std::span<job* const>, postgres::transaction&>> &&
    (std::is_void_v<task_result_t<
         std::invoke_result_t<Handler&, std::span<job* const>, postgres::transaction&>>> ||
     std::convertible_to<task_result_t<std::invoke_result_t<Handler&, std::span<job* const>,
                                                            postgres::transaction&>>,
                         std::vector<std::string>>);

namespace detail {

using type_erased_handler = move_only_function<task<std::string>(job&)>;
using type_erased_transaction_handler = move_only_function<task<std::vector<std::string>>(
    std::span<job* const>, postgres::transaction&)>;

template <job_handler Handler>
task<std::string> run_handler(Handler& handler, job& current_job) {
  if constexpr (std::is_void_v<task_result_t<std::invoke_result_t<Handler&, job&>>>) {
    co_await handler(current_job);
    co_return std::string();
  } else {
    co_return co_await handler(current_job);
  }
}

/// No results: each of the jobs has an empty one.
template <transaction_handler Handler>
task<std::vector<std::string>> run_handler(Handler& handler, std::span<job* const> jobs,
                                           postgres::transaction& tx) {
  using given = std::invoke_result_t<Handler&, std::span<job* const>, postgres::transaction&>;
  auto run_task = handler(jobs, tx);
  if constexpr (std::is_void_v<task_result_t<given>>) {
    co_await std::move(run_task);
    co_return std::vector<std::string>();
  } else {
    co_return co_await std::move(run_task);
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
/// Complexity: a statement takes all jobs that there are free slots for, and one stores how all
/// handlers that have ended meanwhile did so.
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
        [handler = std::move(handler)](job& current_job) mutable {
          return detail::run_handler(handler, current_job);
        },
        options);
  }

  /// Runs jobs of this kind by calls of `handler(jobs, tx)`: up to `max_jobs` at a time, in one
  /// transaction, which also ends the jobs. So what the handler does with `tx` happens exactly once
  /// for each job, without a key, and small jobs share the cost of a transaction.
  ///
  ///     const auto visit = [](auto jobs, gyre::postgres::transaction& tx) -> gyre::task<> {
  ///       std::vector<std::string> pages;
  ///       for (const gyre::work::job* each : jobs) pages.push_back(each->payload());
  ///       co_await tx.execute("insert into visit (page) select unnest($1::text[])", pages);
  ///     };
  ///     worker.handle_in_transaction("visit", visit, {.max_jobs = 100});
  ///
  /// If a transaction of several jobs fails, each of them gets one of its own, so that a bad job
  /// spoils no attempt of the others. If the connection was lost, the attempts of all have failed,
  /// and each of them runs alone next time;
  /// while the database cannot be reached, no attempts are used up. As in client::transaction(),
  /// the handler runs again after a serialisation failure or a deadlock, so it must do nothing
  /// besides its statements that must not be repeated. Cancelling one of the jobs rolls back the
  /// transaction of all of them, which are then run one by one.
  ///
  /// Leave COMMIT and ROLLBACK to the worker: a handler that ends the transaction has failed. Wait
  /// for nothing but `tx` for longer than the lease: the server ends the session of a transaction
  /// that is idle for so long, and the connection is lost.
  ///
  /// Isolation: read committed. Connections: each transaction takes one of the client's
  /// `max_open`. Lifetime and errors: as handle().
  template <transaction_handler Handler>
  void handle_in_transaction(std::string kind, Handler handler,
                             transaction_handler_options options = {}) {
    add(
        std::move(kind),
        [handler = std::move(handler)](std::span<job* const> jobs,
                                       postgres::transaction& tx) mutable {
          return detail::run_handler(handler, jobs, tx);
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
  void add(std::string kind, detail::type_erased_transaction_handler handler,
           const transaction_handler_options& options);

  std::unique_ptr<detail::worker_core> core_;
};

}  // namespace gyre::work
