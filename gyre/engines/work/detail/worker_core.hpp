// SPDX-License-Identifier: Apache-2.0
// worker_core: the coroutines of a worker, which take jobs, run them, store how they ended, and
// extend the lease.
#pragma once

#include <gyre/base/clock.hpp>
#include <gyre/base/detail/splitmix64.hpp>
#include <gyre/base/move_only_function.hpp>
#include <gyre/engines/postgres/client.hpp>
#include <gyre/engines/postgres/client_options.hpp>
#include <gyre/engines/postgres/statement.hpp>
#include <gyre/engines/postgres/transaction.hpp>
#include <gyre/engines/work/job.hpp>
#include <gyre/engines/work/worker_options.hpp>
#include <gyre/sync/event.hpp>
#include <gyre/task/async_scope.hpp>
#include <gyre/task/executor.hpp>
#include <gyre/task/task.hpp>
#include <gyre/trace/label.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gyre::work::detail {

using type_erased_handler = move_only_function<task<std::string>(job&)>;
using type_erased_transaction_handler = move_only_function<task<std::vector<std::string>>(
    std::span<job* const>, postgres::transaction&)>;

/// Runs the jobs of a worker. Its coroutines:
///
/// - take_jobs() takes as many jobs as there are free slots for, and sleeps when there are none;
/// - run_job(), one for each job, runs a handler, and adds a report of how the attempt ended;
/// - run_jobs(), one for several jobs, runs a handler in a transaction that ends them;
/// - store_reports() stores these reports, all that there are with one statement;
/// - keep_lease() extends the lease, over a connection of its own;
/// - watch_lease() stops the handlers when the lease has expired nevertheless;
/// - store_progress() stores what handlers report;
/// - run_maintenance() takes over jobs, removes old rows, and submits the jobs of schedules;
/// - listen_for_ready_jobs() and listen_for_cancelled_jobs() receive notifications.
///
/// When run() ends, no more jobs are taken (drain()); run_job() and run_jobs() are awaited, and
/// after `drain_timeout` requested to stop; store_reports() stores the remaining reports; the other
/// coroutines are stopped; the lease is given back.
///
/// A lease that another worker has taken over (errc::attempt_taken_over) ends the registration: its
/// handlers are stopped, the reports of its jobs dropped, and take_jobs() registers again. Each job
/// knows its registration, so a job of the old one is never taken for a job of the new one.
class worker_core {
 public:
  worker_core(postgres::client& db, worker_options options);
  worker_core(const worker_core&) = delete;
  worker_core& operator=(const worker_core&) = delete;
  ~worker_core();

  void add(std::string kind, type_erased_handler handler, const handler_options& options);
  void add(std::string kind, type_erased_transaction_handler handler,
           const transaction_handler_options& options);
  task<> run();
  void drain() noexcept;
  [[nodiscard]] worker_metrics metrics() const;

 private:
  struct handled_kind {
    std::string name;
    trace::label label;  // the kind's name in the flight recorder
    handler_options options;
    type_erased_handler handler = {};
    type_erased_transaction_handler transaction_handler = {};
    std::size_t max_jobs = 0;  // the jobs of a transaction; 0: `handler` runs each job alone
    std::vector<taken_job> taken_jobs = {};  // jobs whose transaction has yet to begin
    std::size_t running = 0;
    bool may_be_ready = true;   // false after a take that has found fewer jobs than slots
    bool is_notified = false;   // whether the kind was notified since the last take was sent
    bool is_announced = false;  // whether the database knows that the worker waits for this kind
  };
  /// How an attempt ended, until the database has stored it.
  struct attempt_report {
    worker_id worker = 0;
    job_id id = 0;
    std::int32_t attempt = 0;
    std::string_view outcome = {};
    std::string result = {};
    std::optional<std::string> error = {};
    std::int64_t delay_ms = 0;
  };
  using running_job = std::list<job>::iterator;
  /// How a transaction of jobs ended.
  struct transaction_result {
    std::exception_ptr error;  // null if the transaction was committed
    // Whether a statement has begun it, so that a job may have caused the error.
    bool was_begun = false;
  };
  enum class error_kind : std::uint8_t {
    transient,  ///< a further attempt at the statement may succeed
    lasting,    ///< a further attempt would only repeat the error
  };
  struct free_slots {
    std::vector<std::string_view> kinds;
    std::vector<std::int32_t> limits;  // the free slots of each of these kinds
    std::int32_t total = 0;            // the free slots of all kinds together
  };

  task<> check_schema();
  task<> register_worker();
  void end_registration(worker_id worker) noexcept;

  task<> take_jobs();
  task<> take_ready_jobs();
  task<> fill_slots(const free_slots& slots);
  task<> release_unknown_jobs();
  [[nodiscard]] free_slots find_free_slots() const;
  /// `due_ms`: the time until the first scheduled job, if there is one.
  void plan_next_look(bool has_new_announcement, std::optional<std::int64_t> due_ms);
  task<> wait_for_work();
  void start_job(handled_kind& kind, taken_job next_job);
  task<> run_job(running_job current_job, handled_kind& kind);
  void start_transactions(handled_kind& kind);
  void start_jobs(handled_kind& kind, std::span<taken_job> jobs);
  task<> run_jobs(std::vector<running_job> jobs, handled_kind& kind);
  task<transaction_result> run_in_transaction(std::span<const running_job> jobs,
                                              handled_kind& kind);
  /// The body of the transaction.
  task<> run_and_finish(std::span<job* const> jobs, handled_kind& kind, postgres::transaction& tx,
                        bool& was_begun);
  /// Frees the job's slot. `report`: what to store; none if a transaction has ended the job.
  void retire_job(running_job current_job, handled_kind& kind,
                  std::optional<attempt_report> report);
  attempt_report report_failure(const job& current_job, const handled_kind& kind,
                                const std::exception_ptr& error);

  task<> store_reports();
  task<> store_some_reports();

  task<> keep_lease();
  task<> send_heartbeat();
  task<> watch_lease();
  task<> store_progress();
  task<> store_some_progress();
  task<> run_maintenance();
  task<> maintain_tables();
  task<> submit_due_schedules();

  task<> listen_for_ready_jobs();
  task<> listen_for_cancelled_jobs();

  task<> shut_down(async_scope& services, async_scope& takers);
  task<> end_handlers();

  /// Runs `step()` again and again until the worker fails, or, if `ends_with_draining`, drains.
  template <class Step>
  task<> repeat(Step step, bool ends_with_draining);
  /// Counts and stores an error of a statement, and returns its kind. Rethrows other exceptions.
  error_kind note_error(const std::exception_ptr& error);
  [[nodiscard]] postgres::statement limited(std::string_view text) const;
  [[nodiscard]] postgres::client_options lease_client_options() const;
  [[nodiscard]] duration tick() const noexcept;
  [[nodiscard]] steady_time now() const noexcept { return timers_->now(); }
  /// Adds a kind of jobs. Throws std::invalid_argument for a kind or options that make no sense,
  /// and std::logic_error after run().
  handled_kind& add_kind(std::string kind, const handler_options& options);
  [[nodiscard]] handled_kind* find_kind(std::string_view name) noexcept;

  postgres::client& db_;
  /// For the lease and for schedules: handlers may hold all connections of `db_`, or have long
  /// statements on its shared ones.
  std::optional<postgres::client> lease_db_;
  const worker_options options_;
  gyre::detail::splitmix64 generator_;
  timer_service* timers_ = nullptr;  // the timers of the coroutine that runs the worker

  std::deque<handled_kind> kinds_;
  std::list<job> running_jobs_;
  std::deque<attempt_report> unreported_attempts_;
  /// The number of reports to store one by one, because a statement with all of them was refused.
  std::size_t single_reports_ = 0;

  worker_id worker_ = 0;   // 0 while the worker is not registered
  steady_time lease_end_;  // the end of the lease unless it is extended
  steady_time next_heartbeat_;
  steady_time next_look_;  // the next time to look for ready jobs
  // The next time to release jobs that only the database believes to run here.
  steady_time next_release_;
  steady_time next_take_over_;
  steady_time next_clean_;
  std::size_t fruitless_looks_ = 0;
  // Looks in a row that left a due job, which another transaction has locked.
  std::size_t blocked_looks_ = 0;

  bool has_run_ = false;
  bool is_draining_ = false;
  std::exception_ptr fatal_;
  manual_reset_event drain_requested_;
  auto_reset_event registration_event_;  // wakes watch_lease()
  // Wakes take_jobs(): slots, jobs, the registration, or draining have changed.
  auto_reset_event change_event_;
  auto_reset_event report_event_;  // wakes store_reports()
  // Wakes shut_down(): a handler has ended, or reports were stored.
  auto_reset_event progress_event_;
  std::optional<async_scope> handlers_;
  worker_metrics metrics_;
};

}  // namespace gyre::work::detail
