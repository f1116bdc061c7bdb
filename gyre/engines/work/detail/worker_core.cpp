// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/work/detail/worker_core.hpp>

#include <gyre/base/duration.hpp>
#include <gyre/engines/postgres/error.hpp>
#include <gyre/engines/postgres/subscription.hpp>
#include <gyre/engines/postgres/transaction.hpp>
#include <gyre/engines/work/cron_expression.hpp>
#include <gyre/engines/work/detail/milliseconds.hpp>
#include <gyre/engines/work/detail/printable_text.hpp>
#include <gyre/engines/work/detail/translate_error.hpp>
#include <gyre/engines/work/error.hpp>
#include <gyre/engines/work/queue.hpp>
#include <gyre/io/error.hpp>
#include <gyre/task/as_expected.hpp>
#include <gyre/task/as_result.hpp>
#include <gyre/task/operation_cancelled.hpp>
#include <gyre/task/schedule.hpp>
#include <gyre/task/shielded.hpp>
#include <gyre/task/sleep.hpp>
#include <gyre/task/stop_when.hpp>
#include <gyre/task/with_timeout.hpp>
#include <gyre/trace/detail/event.hpp>
#include <gyre/trace/detail/recorder.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <new>
#include <span>
#include <stdexcept>
#include <system_error>
#include <tuple>
#include <utility>

namespace gyre::work::detail {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::int32_t schema_version = 1;
/// The delays of the polls that follow the announcement that this worker waits for a kind: a
/// transaction whose snapshot is older than the announcement does not notify. Later polls follow
/// each other after poll_interval.
constexpr std::array<milliseconds, 3> early_looks = {milliseconds{10}, milliseconds{50},
                                                     milliseconds{250}};
/// The delay of the poll for a due job that a transaction has locked. Each poll that finds it so
/// doubles the delay, up to poll_interval.
constexpr milliseconds first_blocked_look{5};
/// The longest tick of the coroutines that extend the lease and maintain the tables.
constexpr seconds longest_tick{1};
/// The delay before a job may be taken again whose transaction could not begin.
constexpr milliseconds release_delay{1000};
constexpr seconds clean_interval{10};
constexpr std::int32_t max_rows_at_once = 1000;
// The maximum in a tick, so that other tables have their turn.
constexpr std::size_t max_clean_calls = 20;
constexpr std::size_t max_jobs_at_once = 1000;
constexpr std::size_t max_bytes_at_once = std::size_t{4} << 20;
constexpr std::size_t max_error = 4000;
constexpr std::size_t max_progress_note = 1000;
/// Delays between attempts at a statement of the worker.
constexpr exponential_backoff statement_delay = {.initial = milliseconds{100},
                                                 .longest = seconds{1}};

struct taken_row {
  std::optional<job_id> id;
  std::optional<std::string> kind;
  std::optional<std::int32_t> attempt;
  std::optional<std::int32_t> failures;
  std::optional<std::int32_t> max_attempts;
  std::optional<std::int64_t> time_limit_ms;
  std::optional<std::string> payload;
  std::optional<std::string> key;
  std::optional<std::int64_t> due_ms;
};

struct due_schedule {
  std::string name;
  std::string cron;
  std::int64_t local_now = 0;
};

[[noreturn]] void refuse(const std::string& reason) {
  throw std::invalid_argument("work::worker: " + reason);
}

std::string describe(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& exception) {
    return exception.what();
  } catch (const operation_cancelled&) {
    return "the handler ended with operation_cancelled";
  } catch (...) {
    return "the handler threw an object that is not a std::exception";
  }
}

bool is_permanent(const std::exception_ptr& error) noexcept {
  try {
    std::rethrow_exception(error);
  } catch (const permanent_failure&) {
    return true;
  } catch (...) {
    return false;
  }
}

/// Whether a statement that failed by this error may succeed later without a change of the program
/// or of the database's tables and rights.
bool is_transient(const postgres::server_error& error) noexcept {
  constexpr std::array<std::string_view, 7> classes = {"08", "25", "40", "53", "55", "57", "58"};
  return std::ranges::find(classes, std::string_view(error.sqlstate()).substr(0, 2)) !=
         classes.end();
}

/// Whether a transaction failed because its connection ended, so that the outcome of its jobs may
/// be unknown, and which of them is to blame, if any.
bool is_loss_of_connection(const std::exception_ptr& error) noexcept {
  try {
    std::rethrow_exception(error);
  } catch (const postgres::server_error& failure) {
    const std::string_view state = failure.sqlstate();
    return state.starts_with("08") || state.starts_with("57P");
  } catch (const std::system_error& failure) {
    return failure.code() == postgres::errc::connection_lost ||
           failure.code() == postgres::errc::commit_unknown ||
           failure.code() == postgres::errc::no_reply;
  } catch (...) {
    return false;
  }
}

std::string too_large_result(std::string_view result) {
  return "a result of " + std::to_string(result.size()) + " bytes; " +
         std::to_string(queue::max_payload) + " are allowed";
}

/// Whether the server has refused a statement for a lasting reason (a full queue, or an error that
/// is not transient), so that it would refuse the statement again.
bool is_refusal(const std::system_error& error) noexcept {
  if (error.code() == errc::queue_full) return true;
  const auto* const failure = dynamic_cast<const postgres::server_error*>(&error);
  return failure != nullptr && !is_transient(*failure);
}

}  // namespace

worker_core::worker_core(postgres::client& db, worker_options options)
    : db_(db), options_(std::move(options)), generator_(gyre::detail::random_seed()) {
  if (options_.lease < seconds{1}) refuse("a lease of less than 1 s");
  if (options_.max_running < 1) refuse("max_running of less than 1");
  if (options_.poll_interval <= duration::zero()) refuse("no poll_interval");
  if (options_.statement_timeout <= duration::zero()) refuse("no statement_timeout");
  if (options_.keep_dead < duration::zero() || options_.keep_done < duration::zero()) {
    refuse("a negative time to keep rows");
  }
}

worker_core::~worker_core() = default;

worker_core::handled_kind& worker_core::add_kind(std::string kind, const handler_options& options) {
  if (has_run_) throw std::logic_error("work::worker: handle() after run()");
  if (kind.empty() || kind.size() > 200) refuse("a kind has 1 to 200 bytes");
  if (kind.contains('\0')) refuse("a kind with a zero byte");
  if (find_kind(kind) != nullptr) refuse("a second handler for \"" + kind + "\"");
  if (options.max_running < 1) refuse("max_running of less than 1 for \"" + kind + "\"");
  if (options.time_limit <= duration::zero()) refuse("no time_limit for \"" + kind + "\"");
  const trace::label label = trace::intern(kind);
  return kinds_.emplace_back(
      handled_kind{.name = std::move(kind), .label = label, .options = options});
}

void worker_core::add(std::string kind, type_erased_handler handler,
                      const handler_options& options) {
  add_kind(std::move(kind), options).handler = std::move(handler);
}

void worker_core::add(std::string kind, type_erased_transaction_handler handler,
                      const transaction_handler_options& options) {
  if (options.max_jobs < 1) refuse("max_jobs of less than 1 for \"" + kind + "\"");
  handled_kind& new_kind = add_kind(std::move(kind), {.max_running = options.max_running,
                                                      .time_limit = options.time_limit,
                                                      .delay = options.delay});
  new_kind.transaction_handler = std::move(handler);
  new_kind.max_jobs = options.max_jobs;
}

task<> worker_core::run() {
  if (std::exchange(has_run_, true))
    throw std::logic_error("work::worker: run() was called before");
  executor& own_executor = co_await current_executor();
  timers_ = own_executor.timers();
  if (timers_ == nullptr)
    throw std::logic_error("work::worker: run() needs an executor with timers");

  lease_db_.emplace(db_.loop(), lease_client_options());
  handlers_.emplace(own_executor);
  async_scope services(own_executor);
  async_scope takers(own_executor);
  std::exception_ptr stop;
  takers.spawn(take_jobs(), "work: take jobs");
  services.spawn(store_reports(), "work: store reports");
  services.spawn(keep_lease(), "work: keep the lease");
  services.spawn(watch_lease(), "work: watch the lease");
  services.spawn(store_progress(), "work: store progress");
  services.spawn(run_maintenance(), "work: maintain the tables");
  services.spawn(listen_for_ready_jobs(), "work: listen for ready jobs");
  services.spawn(listen_for_cancelled_jobs(), "work: listen for cancelled jobs");
  try {
    co_await drain_requested_.wait();
  } catch (const operation_cancelled&) {
    stop = std::current_exception();
    drain();
  }
  co_await shielded(shut_down(services, takers));
  lease_db_.reset();
  if (fatal_ != nullptr) std::rethrow_exception(fatal_);
  if (stop != nullptr) std::rethrow_exception(stop);
}

void worker_core::drain() noexcept {
  is_draining_ = true;
  drain_requested_.set();
  change_event_.set();
}

worker_metrics worker_core::metrics() const {
  worker_metrics counts = metrics_;
  counts.running = running_jobs_.size();
  counts.unreported = unreported_attempts_.size();
  return counts;
}

// --- The registration ---

task<> worker_core::check_schema() {
  const auto version = co_await translated(
      db_.query_one<std::optional<std::int32_t>>(limited("select max(version) from work.version")));
  if (version.value_or(0) < schema_version) {
    throw std::system_error(
        errc::schema_missing,
        "work: version " + std::to_string(version.value_or(0)) + " of the schema is too old");
  }
}

task<> worker_core::register_worker() {
  co_await check_schema();
  const steady_time begin = now();
  worker_ = co_await translated(db_.query_one<worker_id>(
      limited("select work.register($1, $2)"), options_.name, to_milliseconds(options_.lease)));
  lease_end_ = gyre::detail::later(begin, options_.lease);
  next_heartbeat_ = begin + options_.lease / 3;
  next_release_ = lease_end_;
  registration_event_.set();
  for (handled_kind& kind : kinds_) {
    kind.may_be_ready = true;
    kind.is_announced = false;
  }
}

void worker_core::end_registration(worker_id worker) noexcept {
  if (worker_ != worker) return;
  worker_ = 0;
  ++metrics_.leases_lost;
  for (job& job : running_jobs_) {
    if (job.worker_ == worker) job.request_stop(stop_reason::lease_lost);
  }
  change_event_.set();
}

// --- Taking jobs ---

task<> worker_core::take_jobs() {
  return repeat([this] { return take_ready_jobs(); }, true);
}

task<> worker_core::take_ready_jobs() {
  if (worker_ == 0) co_await register_worker();
  if (now() >= next_release_) co_await release_unknown_jobs();
  const free_slots slots = find_free_slots();
  if (slots.kinds.empty()) {
    co_await wait_for_work();
    co_return;
  }
  const steady_time planned_release = std::exchange(next_release_, steady_time::min());
  co_await fill_slots(slots);
  // If the reply is lost, the time stays in the past: the next tick tries again.
  next_release_ = planned_release;
}

task<> worker_core::fill_slots(const free_slots& slots) {
  const worker_id worker = worker_;
  ++metrics_.takes;
  for (handled_kind& kind : kinds_) kind.is_notified = false;
  std::vector<taken_row> rows;
  try {
    rows =
        co_await translated(db_.query<taken_row>(limited("select * from work.take($1, $2, $3, $4)"),
                                                 worker, slots.kinds, slots.limits, slots.total));
  } catch (const std::system_error& error) {
    if (error.code() != errc::attempt_taken_over) throw;
    end_registration(worker);
    co_return;
  }
  if (worker_ != worker) co_return;  // the lease was lost: other workers take the jobs over

  const auto taken_jobs =
      std::ranges::count_if(rows, [](const taken_row& row) { return row.id.has_value(); });
  const bool has_taken_all_it_may = taken_jobs >= slots.total;
  bool has_new_announcement = false;
  for (handled_kind& kind : kinds_) {
    kind.taken_jobs.clear();  // a rest of an earlier call that has thrown
    const auto position = std::ranges::find(slots.kinds, kind.name) - slots.kinds.begin();
    const auto index = static_cast<std::size_t>(position);
    const std::int32_t limit = index < slots.limits.size() ? slots.limits[index] : 0;
    const auto taken_count = std::ranges::count_if(
        rows, [&](const taken_row& row) { return row.id && row.kind == kind.name; });
    // The database notifies this worker only of the kinds of this take.
    const bool is_waited_for = taken_count < limit;
    has_new_announcement |= is_waited_for && !kind.is_announced;
    kind.is_announced = is_waited_for;
    kind.may_be_ready = !is_waited_for || kind.is_notified || has_taken_all_it_may;
  }
  std::optional<std::int64_t> due_ms;
  for (taken_row& row : rows) {
    if (!row.id) {
      due_ms = row.due_ms;
      continue;
    }
    handled_kind* const kind = find_kind(*row.kind);
    if (kind == nullptr) continue;
    taken_job result{*row.id,
                     std::move(*row.kind),
                     row.attempt.value_or(0),
                     row.failures.value_or(0),
                     row.max_attempts.value_or(1),
                     row.time_limit_ms,
                     std::move(row.payload).value_or(""),
                     std::move(row.key).value_or("")};
    if (kind->max_jobs > 0) {
      kind->taken_jobs.push_back(std::move(result));
    } else {
      start_job(*kind, std::move(result));
    }
  }
  for (handled_kind& kind : kinds_) start_transactions(kind);
  plan_next_look(has_new_announcement, due_ms);
}

task<> worker_core::release_unknown_jobs() {
  std::vector<job_id> ids;
  std::vector<std::int32_t> attempts;
  for (const job& job : running_jobs_) {
    if (job.worker_ != worker_) continue;
    ids.push_back(job.id());
    attempts.push_back(job.attempt());
  }
  for (const attempt_report& report : unreported_attempts_) {
    if (report.worker != worker_) continue;
    ids.push_back(report.id);
    attempts.push_back(report.attempt);
  }
  co_await translated(db_.query_one<std::int32_t>(
      limited("select work.release_unknown($1, $2, $3)"), worker_, ids, attempts));
  next_release_ = now() + options_.lease;
}

worker_core::free_slots worker_core::find_free_slots() const {
  free_slots slots;
  const std::size_t occupied_slots = running_jobs_.size() + unreported_attempts_.size();
  constexpr std::size_t max_taken = std::size_t{1} << 16;
  const std::size_t free_count =
      std::min(options_.max_running - std::min(options_.max_running, occupied_slots), max_taken);
  slots.total = static_cast<std::int32_t>(free_count);
  bool may_be_ready = false;
  for (const handled_kind& kind : kinds_) {
    const std::size_t limit = std::min(free_count, kind.options.max_running - kind.running);
    if (limit == 0) continue;
    // Each take asks for all kinds with free slots, because the database notifies a worker only of
    // the kinds of its last take.
    slots.kinds.push_back(kind.name);
    slots.limits.push_back(static_cast<std::int32_t>(limit));
    may_be_ready |= kind.may_be_ready;
  }
  return may_be_ready ? slots : free_slots();
}

void worker_core::plan_next_look(bool has_new_announcement, std::optional<std::int64_t> due_ms) {
  if (has_new_announcement) fruitless_looks_ = 0;
  const duration delay = fruitless_looks_ < early_looks.size()
                             ? duration(early_looks[fruitless_looks_++])
                             : options_.poll_interval;
  blocked_looks_ = due_ms == 0 ? blocked_looks_ + 1 : 0;
  duration wait = delay;
  if (blocked_looks_ > 0) {
    const exponential_backoff backoff{.initial = first_blocked_look,
                                      .longest = options_.poll_interval};
    wait = std::min<duration>(delay, backoff.delay(blocked_looks_));
  } else if (due_ms) {
    wait = std::min<duration>(delay, milliseconds{*due_ms});
  }
  next_look_ = gyre::detail::later(now(), wait);
}

task<> worker_core::wait_for_work() {
  const steady_time deadline = std::min(next_look_, next_release_);
  const auto wait_result =
      co_await as_expected(with_timeout(change_event_.wait(), deadline - now()));
  if (wait_result || now() < next_look_) co_return;
  for (handled_kind& kind : kinds_) kind.may_be_ready = true;
  next_look_ = gyre::detail::later(now(), options_.poll_interval);
}

// --- Running jobs ---

void worker_core::start_job(handled_kind& kind, taken_job next_job) {
  running_jobs_.emplace_back(std::move(next_job), worker_);
  const auto current_job = std::prev(running_jobs_.end());
  try {
    handlers_->spawn(run_job(current_job, kind), "work: run a job");
  } catch (...) {
    // The database still counts the job as running; release_unknown_jobs() releases it.
    running_jobs_.erase(current_job);
    throw;
  }
  ++kind.running;
  ++metrics_.taken;
}

task<> worker_core::run_job(running_job current_job, handled_kind& kind) {
  attempt_report report{.worker = current_job->worker_,
                        .id = current_job->id(),
                        .attempt = current_job->attempt(),
                        .outcome = "finished"};
  std::exception_ptr error;
  try {
    const duration limit = current_job->row_.time_limit_ms
                               ? duration(milliseconds{*current_job->row_.time_limit_ms})
                               : kind.options.time_limit;
    task<std::string> work = kind.handler(*current_job);
    if (kind.options.executor != nullptr) work = on(*kind.options.executor, std::move(work));
    const attempt_token token{report.id, report.attempt, report.worker};
    auto stoppable_call = stop_when(current_attempt.with(std::optional(token), std::move(work)),
                                    current_job->stop_.get_token());
    auto result = co_await as_result(with_timeout(std::move(stoppable_call), limit));
    if (result) {
      report.result = std::move(*result);
    } else {
      error = std::move(result.error());
    }
  } catch (...) {
    error = std::current_exception();
  }
  if (error == nullptr && report.result.size() > queue::max_payload) {
    error = std::make_exception_ptr(permanent_failure(too_large_result(report.result)));
  }
  if (error != nullptr) report = report_failure(*current_job, kind, error);
  retire_job(current_job, kind, std::move(report));
}

void worker_core::retire_job(running_job current_job, handled_kind& kind,
                             std::optional<attempt_report> report) {
  trace::detail::record_since(current_job->begin_ticks_, trace::detail::event_kind::job,
                              trace::detail::address_of(kind.label.c_str()),
                              static_cast<std::uint64_t>(current_job->id()));
  if (report) {
    unreported_attempts_.push_back(std::move(*report));
    report_event_.set();
  } else {
    ++metrics_.finished;
  }
  running_jobs_.erase(current_job);
  --kind.running;
  change_event_.set();
  progress_event_.set();
}

// --- Running several jobs in a transaction ---

void worker_core::start_transactions(handled_kind& kind) {
  // A job that has failed runs alone: it may have ended the connection of the jobs that ran with
  // it.
  for (taken_job& job : kind.taken_jobs) {
    if (job.failures > 0) start_jobs(kind, std::span(&job, 1));
  }
  std::erase_if(kind.taken_jobs, [](const taken_job& job) { return job.failures > 0; });
  std::span<taken_job> rest(kind.taken_jobs);
  while (!rest.empty()) {
    const std::size_t size = std::min(rest.size(), kind.max_jobs);
    start_jobs(kind, rest.first(size));
    rest = rest.subspan(size);
  }
  kind.taken_jobs.clear();
}

void worker_core::start_jobs(handled_kind& kind, std::span<taken_job> jobs) {
  std::vector<running_job> new_jobs;
  new_jobs.reserve(jobs.size());
  try {
    for (taken_job& job : jobs) {
      running_jobs_.emplace_back(std::move(job), worker_);
      new_jobs.push_back(std::prev(running_jobs_.end()));
    }
    handlers_->spawn(run_jobs(new_jobs, kind), "work: run jobs in a transaction");
  } catch (...) {
    for (const running_job& job : new_jobs) running_jobs_.erase(job);  // start_job() explains why
    throw;
  }
  kind.running += jobs.size();
  metrics_.taken += jobs.size();
}

task<> worker_core::run_jobs(std::vector<running_job> jobs, handled_kind& kind) {
  const transaction_result common_result = co_await run_in_transaction(jobs, kind);
  const bool is_split = common_result.error != nullptr && common_result.was_begun &&
                        jobs.size() > 1 && !is_loss_of_connection(common_result.error);
  for (const running_job& job : jobs) {
    transaction_result result = common_result;
    if (is_split && job->reason_ == stop_reason::none) {
      result = co_await run_in_transaction(std::span(&job, 1), kind);
    }
    if (result.error == nullptr) {
      retire_job(job, kind, std::nullopt);
    } else if (result.was_begun || job->reason_ != stop_reason::none ||
               note_error(result.error) == error_kind::lasting) {
      retire_job(job, kind, report_failure(*job, kind, result.error));
    } else {
      // An unreachable database is no failure of the job, so the attempt does not count.
      retire_job(job, kind,
                 attempt_report{.worker = job->worker_,
                                .id = job->id(),
                                .attempt = job->attempt(),
                                .outcome = "released",
                                .delay_ms = release_delay.count()});
    }
  }
}

task<worker_core::transaction_result> worker_core::run_in_transaction(
    std::span<const running_job> jobs, handled_kind& kind) {
  transaction_result result;
  inplace_stop_source stop;
  try {
    std::vector<job*> job_pointers;
    for (const running_job& job : jobs) job_pointers.push_back(&*job);
    const auto body = [&](postgres::transaction& tx) {
      return run_and_finish(job_pointers, kind, tx, result.was_begun);
    };
    for (job* const job : job_pointers) {
      job->shared_stop_ = &stop;
      if (job->reason_ != stop_reason::none) stop.request_stop();
    }
    // The worker itself changes the rows of running jobs meanwhile, which a stricter isolation
    // would report as a conflict.
    const postgres::transaction_options options{.isolation = postgres::isolation::read_committed};
    auto attempt = as_result(stop_when(db_.transaction(body, options), stop.get_token()));
    const auto execution = co_await std::move(attempt);
    if (!execution) result.error = execution.error();
  } catch (...) {
    result.error = std::current_exception();
  }
  for (const running_job& job : jobs) job->shared_stop_ = nullptr;
  co_return result;
}

task<> worker_core::run_and_finish(std::span<job* const> jobs, handled_kind& kind,
                                   postgres::transaction& tx, bool& was_begun) {
  was_begun = false;  // reset for each repetition of the transaction
  const worker_id worker = jobs.front()->worker_;
  std::vector<job_id> ids;
  std::vector<std::int32_t> attempts;
  duration limit = duration::max();
  for (const job* const job : jobs) {
    ids.push_back(job->id());
    attempts.push_back(job->attempt());
    const auto& own_limit = job->row_.time_limit_ms;
    limit =
        std::min(limit, own_limit ? duration(milliseconds{*own_limit}) : kind.options.time_limit);
  }
  co_await tx.execute("select work.begin_attempts($1)", worker);
  was_begun = true;
  auto run_task = with_timeout(kind.transaction_handler(jobs, tx), limit);
  const std::vector<std::string> results = co_await std::move(run_task);
  if (!results.empty() && results.size() != jobs.size()) {
    throw permanent_failure(std::to_string(results.size()) + " results of " +
                            std::to_string(jobs.size()) + " jobs");
  }
  std::vector<std::optional<std::span<const std::byte>>> stored_results(jobs.size());
  for (std::size_t n = 0; n != results.size(); ++n) {
    if (results[n].size() > queue::max_payload)
      throw permanent_failure(too_large_result(results[n]));
    stored_results[n] = std::as_bytes(std::span(results[n]));
  }
  co_await translated(tx.execute("select work.finish_attempts($1, $2, $3, $4)", worker, ids,
                                 attempts, stored_results));
}

worker_core::attempt_report worker_core::report_failure(const job& current_job,
                                                        const handled_kind& kind,
                                                        const std::exception_ptr& error) {
  attempt_report report{
      .worker = current_job.worker_, .id = current_job.id(), .attempt = current_job.attempt()};
  switch (current_job.reason_) {
    case stop_reason::cancelled: report.outcome = "cancelled"; return report;
    case stop_reason::lease_lost:
    case stop_reason::draining: report.outcome = "released"; return report;
    case stop_reason::none: break;
  }
  ++metrics_.failed;
  report.outcome = is_permanent(error) ? "dead" : "failed";
  report.error = printable_text(describe(error), max_error);
  // Half of the delay is random, so that jobs that have failed together do not return together.
  const exponential_backoff& delay = kind.options.delay;
  const auto failures = static_cast<std::size_t>(current_job.failures()) + 1;
  const exponential_backoff half_delay{.initial = delay.initial / 2, .longest = delay.longest / 2};
  report.delay_ms = to_milliseconds(
      duration(half_delay.delay(failures) + half_delay.jittered_delay(failures, generator_)));
  return report;
}

// --- Storing the reports of attempts ---

task<> worker_core::store_reports() {
  return repeat([this] { return store_some_reports(); }, false);
}

task<> worker_core::store_some_reports() {
  if (unreported_attempts_.empty()) {
    co_await report_event_.wait();
    co_return;
  }
  const worker_id worker = unreported_attempts_.front().worker;
  std::vector<job_id> ids;
  std::vector<std::int32_t> attempts;
  std::vector<std::string_view> outcomes;
  std::vector<std::optional<std::span<const std::byte>>> results;
  std::vector<std::optional<std::string_view>> errors;
  std::vector<std::int64_t> delays;
  std::size_t bytes = 0;
  const std::size_t max_reports = single_reports_ > 0 ? 1 : max_jobs_at_once;
  // A reference stays valid, as appending to a deque moves no element.
  for (const attempt_report& report : unreported_attempts_) {
    bytes += report.result.size() + (report.error ? report.error->size() : 0);
    if (report.worker != worker || ids.size() == max_reports ||
        (bytes > max_bytes_at_once && !ids.empty())) {
      break;
    }
    ids.push_back(report.id);
    attempts.push_back(report.attempt);
    outcomes.push_back(report.outcome);
    results.emplace_back(report.outcome == "finished"
                             ? std::optional(std::as_bytes(std::span(report.result)))
                             : std::nullopt);
    errors.emplace_back(report.error);
    delays.push_back(report.delay_ms);
  }
  std::vector<std::tuple<job_id, std::string>> stored_reports;
  try {
    stored_reports = co_await translated(db_.query<std::tuple<job_id, std::string>>(
        limited("select id, state::text from work.end_attempts($1, $2, $3, $4, $5, $6, $7, $8)"),
        worker, ids, attempts, outcomes, results, errors, delays,
        to_milliseconds(options_.keep_dead)));
  } catch (const std::system_error& error) {
    if (!is_refusal(error)) throw;
    if (ids.size() > 1) {
      single_reports_ = ids.size();
      ++metrics_.errors;
      metrics_.last_error = error.what();
      co_return;
    }
    // A refused report moves to the back, so that it does not hold back the reports after it.
    if (single_reports_ > 0) --single_reports_;
    unreported_attempts_.push_back(std::move(unreported_attempts_.front()));
    unreported_attempts_.pop_front();
    throw;
  }
  if (single_reports_ > 0) --single_reports_;

  std::uint64_t released_count = 0;
  for (std::size_t n = 0; n != ids.size(); ++n) released_count += outcomes[n] == "released" ? 1 : 0;
  for (const auto& [id, state] : stored_reports) {
    metrics_.finished += state == "finished" ? 1 : 0;
    metrics_.cancelled += state == "cancelled" ? 1 : 0;
  }
  metrics_.released += released_count;
  metrics_.lost += ids.size() - stored_reports.size();
  unreported_attempts_.erase(
      unreported_attempts_.begin(),
      unreported_attempts_.begin() + static_cast<std::ptrdiff_t>(ids.size()));
  change_event_.set();
  progress_event_.set();
}

// --- Extending the lease, and maintaining the tables ---

task<> worker_core::keep_lease() {
  const auto step = [this]() -> task<> {
    if (worker_ != 0) co_await send_heartbeat();
    co_await sleep_for(tick());
  };
  co_await repeat(step, false);
}

task<> worker_core::send_heartbeat() {
  const worker_id worker = worker_;
  const steady_time begin = now();
  if (begin >= lease_end_) {
    // The handlers must not continue, as other workers may have taken their jobs over.
    end_registration(worker);
    co_return;
  }
  if (begin < next_heartbeat_) co_return;
  std::vector<job_id> stopped_jobs;
  try {
    stopped_jobs = co_await translated(
        lease_db_->query<job_id>(limited("select * from work.heartbeat($1)"), worker));
  } catch (const std::system_error& error) {
    if (error.code() != errc::attempt_taken_over) throw;
    end_registration(worker);
    co_return;
  }
  if (worker_ == worker) {
    lease_end_ = gyre::detail::later(begin, options_.lease);
    next_heartbeat_ = begin + options_.lease / 3;
  }
  for (job& job : running_jobs_) {
    if (job.worker_ == worker && std::ranges::find(stopped_jobs, job.id()) != stopped_jobs.end()) {
      job.request_stop(stop_reason::cancelled);
    }
  }
}

task<> worker_core::watch_lease() {
  const auto step = [this]() -> task<> {
    if (worker_ == 0) {
      co_await registration_event_.wait();
    } else if (const steady_time time = now(); time < lease_end_) {
      co_await sleep_for(lease_end_ - time);
    } else {
      end_registration(worker_);
    }
  };
  co_await repeat(step, false);
}

task<> worker_core::store_progress() {
  const auto step = [this]() -> task<> {
    co_await store_some_progress();
    co_await sleep_for(tick());
  };
  co_await repeat(step, false);
}

task<> worker_core::store_some_progress() {
  const worker_id worker = worker_;
  std::vector<job_id> ids;
  std::vector<std::int32_t> attempts;
  std::vector<float> shares;
  std::vector<std::string> notes;
  for (job& job : running_jobs_) {
    if (job.worker_ != worker || ids.size() == max_jobs_at_once) continue;
    if (auto progress = job.take_progress()) {
      ids.push_back(job.id());
      attempts.push_back(job.attempt());
      shares.push_back(progress->share);
      notes.push_back(printable_text(progress->note, max_progress_note));
    }
  }
  if (ids.empty()) co_return;
  co_await translated(db_.execute(limited("select work.store_progress($1, $2, $3, $4, $5)"), worker,
                                  ids, attempts, shares, notes));
}

task<> worker_core::run_maintenance() {
  const auto step = [this]() -> task<> {
    co_await maintain_tables();
    co_await sleep_for(tick());
  };
  co_await repeat(step, false);
}

task<> worker_core::maintain_tables() {
  if (now() >= next_take_over_) {
    co_await translated(db_.query_one<std::int32_t>(limited("select work.take_over($1, $2)"),
                                                    max_rows_at_once,
                                                    to_milliseconds(options_.keep_dead)));
    next_take_over_ = now() + std::min<duration>(options_.lease / 3, seconds{5});
  }
  for (std::size_t calls = 0; calls != max_clean_calls && now() >= next_clean_; ++calls) {
    const auto removed_rows = co_await translated(
        db_.query_one<std::int32_t>(limited("select work.clean($1, $2)"), max_rows_at_once,
                                    to_milliseconds(options_.keep_done)));
    if (removed_rows < max_rows_at_once) next_clean_ = now() + clean_interval;
  }
  co_await submit_due_schedules();
}

task<> worker_core::submit_due_schedules() {
  const bool is_due = co_await translated(
      db_.query_one<bool>(limited("select exists (select from work.schedule where not paused"
                                  " and (next_at is null or next_at <= clock_timestamp()))")));
  if (!is_due) co_return;
  co_await translated(lease_db_->transaction([this](postgres::transaction& tx) -> task<> {
    const auto schedules =
        co_await tx.query<due_schedule>(limited("select * from work.due_schedules()"));
    for (const due_schedule& schedule : schedules) {
      std::optional<std::int64_t> next_time;
      try {
        const std::chrono::local_seconds now_there{seconds{schedule.local_now}};
        if (const auto time = cron_expression(schedule.cron).next(now_there)) {
          next_time = time->time_since_epoch().count();
        }
      } catch (const std::invalid_argument& error) {
        // A program has bypassed queue::set_schedule(); this schedule never fires.
        ++metrics_.errors;
        metrics_.last_error = error.what();
      }
      co_await tx.execute(limited("select work.advance_schedule($1, $2)"), schedule.name,
                          next_time);
    }
  }));
}

// --- Listening for notifications ---

task<> worker_core::listen_for_ready_jobs() {
  const auto step = [this]() -> task<> {
    postgres::subscription ready_jobs = co_await db_.listen("work_ready");
    // The server keeps no notification of the time before the subscription, so the jobs are looked
    // for now.
    for (handled_kind& kind : kinds_) kind.may_be_ready = kind.is_notified = true;
    change_event_.set();
    while (auto message = co_await ready_jobs.next()) {
      for (handled_kind& kind : kinds_) {
        if (!message->follows_gap && kind.name != message->payload) continue;
        kind.may_be_ready = true;
        kind.is_notified = true;
      }
      change_event_.set();
    }
    throw std::system_error(io::errc::closed, "work::worker: the client was closed");
  };
  co_await repeat(step, false);
}

task<> worker_core::listen_for_cancelled_jobs() {
  const auto step = [this]() -> task<> {
    postgres::subscription stops = co_await db_.listen("work_stop");
    // A job may have been cancelled before the subscription, so a heartbeat asks for it now.
    next_heartbeat_ = now();
    while (auto message = co_await stops.next()) {
      if (message->follows_gap) next_heartbeat_ = now();
      // The payload is "WORKER JOB". The next heartbeat replaces a notification that was lost.
      const std::string& text = message->payload;
      worker_id worker = 0;
      job_id id = 0;
      const char* const end = text.data() + text.size();
      const auto [blank, error] = std::from_chars(text.data(), end, worker);
      if (error != std::errc() || blank == end) continue;
      std::from_chars(blank + 1, end, id);
      for (job& job : running_jobs_) {
        if (job.worker_ == worker && job.id() == id) job.request_stop(stop_reason::cancelled);
      }
    }
    throw std::system_error(io::errc::closed, "work::worker: the client was closed");
  };
  co_await repeat(step, false);
}

// --- Shutting down ---

task<> worker_core::shut_down(async_scope& services, async_scope& takers) {
  const auto wait_for_takes = [&]() -> task<> { co_await takers.join(); };
  // A hanging server must not delay the end: drain_timeout stops the statements under way.
  static_cast<void>(co_await as_expected(with_timeout(wait_for_takes(), options_.drain_timeout)));
  co_await end_handlers();
  const auto wait_for_store = [this]() -> task<> {
    while (!unreported_attempts_.empty() && fatal_ == nullptr) co_await progress_event_.wait();
  };
  // A longer wait is useless: other workers take the jobs over when the lease has expired.
  static_cast<void>(co_await as_expected(with_timeout(wait_for_store(), options_.lease)));
  services.request_stop();
  co_await services.join();
  if (worker_ == 0 || fatal_ != nullptr) co_return;
  const auto give_up_lease = [this]() -> task<> {
    if (now() >= next_release_) co_await release_unknown_jobs();
    co_await db_.execute(limited("select work.unregister($1)"), worker_);
  };
  static_cast<void>(co_await as_result(give_up_lease()));
}

task<> worker_core::end_handlers() {
  const auto wait_for_handlers = [this]() -> task<> {
    while (!running_jobs_.empty()) co_await progress_event_.wait();
  };
  if (fatal_ == nullptr) {
    static_cast<void>(
        co_await as_expected(with_timeout(wait_for_handlers(), options_.drain_timeout)));
  }
  for (job& job : running_jobs_) job.request_stop(stop_reason::draining);
  co_await handlers_->join();
}

// --- Handling errors ---

template <class Step>
task<> worker_core::repeat(Step step, bool ends_with_draining) {
  std::size_t failures = 0;
  while (fatal_ == nullptr && !(ends_with_draining && is_draining_)) {
    const auto result = co_await as_result(step());
    if (result) {
      failures = 0;
      continue;
    }
    if (note_error(result.error()) == error_kind::lasting) {
      if (fatal_ == nullptr) fatal_ = result.error();
      drain();
      progress_event_.set();
      report_event_.set();
      co_return;
    }
    const duration delay =
        statement_delay.jittered_delay(++failures, generator_) + milliseconds{20};
    if (ends_with_draining) {
      static_cast<void>(co_await as_expected(with_timeout(drain_requested_.wait(), delay)));
    } else {
      co_await sleep_for(delay);
    }
  }
}

worker_core::error_kind worker_core::note_error(const std::exception_ptr& error) {
  ++metrics_.errors;
  try {
    std::rethrow_exception(error);
  } catch (const postgres::server_error& failure) {
    metrics_.last_error = failure.what();
    return is_transient(failure) ? error_kind::transient : error_kind::lasting;
  } catch (const std::system_error& failure) {
    metrics_.last_error = failure.what();
    const bool is_lasting =
        failure.code() == errc::schema_missing || failure.code() == io::errc::closed;
    return is_lasting ? error_kind::lasting : error_kind::transient;
  } catch (const std::bad_alloc& failure) {
    metrics_.last_error = failure.what();
    return error_kind::transient;
  } catch (const std::exception& failure) {
    metrics_.last_error = failure.what();
    return error_kind::lasting;
  }
}

postgres::client_options worker_core::lease_client_options() const {
  postgres::client_options options = db_.options();
  options.max_shared = 1;
  options.max_open = 1;
  // The time limit replaces a hanging connection while the lease still lasts.
  options.reply_timeout = std::min(options_.statement_timeout, options_.lease);
  return options;
}

duration worker_core::tick() const noexcept {
  return std::min<duration>(longest_tick, options_.lease / 6);
}

postgres::statement worker_core::limited(std::string_view text) const {
  return {text, {.timeout = options_.statement_timeout}};
}

worker_core::handled_kind* worker_core::find_kind(std::string_view name) noexcept {
  const auto match = std::ranges::find(kinds_, name, &handled_kind::name);
  return match != kinds_.end() ? &*match : nullptr;
}

}  // namespace gyre::work::detail
