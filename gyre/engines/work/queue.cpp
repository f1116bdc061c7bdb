// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/work/queue.hpp>

#include <gyre/engines/postgres/column_traits.hpp>
#include <gyre/engines/work/cron_expression.hpp>
#include <gyre/engines/work/detail/milliseconds.hpp>
#include <gyre/engines/work/detail/translate_error.hpp>
#include <gyre/engines/work/error.hpp>
#include <gyre/metrics/exposition.hpp>
#include <gyre/task/as_expected.hpp>
#include <gyre/task/with_timeout.hpp>

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <tuple>
#include <utility>

template <>
struct gyre::postgres::column_traits<gyre::work::job_state> {
  static gyre::work::job_state read(const column_value& value) {
    using gyre::work::job_state;
    const std::string text = column_traits<std::string>::read(value);
    for (const job_state state : {job_state::scheduled, job_state::ready, job_state::running,
                                  job_state::finished, job_state::dead, job_state::cancelled}) {
      if (text == name_of(state)) return state;
    }
    throw std::system_error(gyre::work::errc::schema_missing,
                            "work: the state \"" + text + "\" of a newer version");
  }
};

namespace gyre::work {
namespace {

using detail::to_milliseconds;

constexpr std::size_t max_jobs_of_submission = 10'000;
constexpr std::size_t max_bytes_of_submission = std::size_t{16} << 20;
/// The interval at which a waiting call polls, because a notification may be lost with a
/// connection.
constexpr std::chrono::seconds look_interval{5};

constexpr std::string_view status_columns =
    "select id, kind, state::text, attempt, failures, progress::float8, coalesce(progress_note, "
    "''),"
    " coalesce(error, ''), coalesce(result, '') from work.job ";

[[noreturn]] void refuse(const std::string& reason) {
  throw std::invalid_argument("work: " + reason);
}

void check_kind(std::string_view kind) {
  if (kind.empty() || kind.size() > 200) refuse("a kind has 1 to 200 bytes");
}

void check_payload(std::string_view payload) {
  if (payload.size() > queue::max_payload) {
    refuse("a payload of " + std::to_string(payload.size()) + " bytes; " +
           std::to_string(queue::max_payload) + " are allowed: store it elsewhere");
  }
}

void check_key(std::string_view key) {
  if (key.size() > 1000) refuse("a key of more than 1000 bytes");
}

void check_options(const job_options& options) {
  if (options.max_attempts < 1) refuse("max_attempts of less than 1");
  if (options.time_limit && *options.time_limit <= duration::zero()) refuse("no time_limit");
  if (options.keep && *options.keep < duration::zero()) refuse("a negative keep");
}

std::optional<std::string_view> text_or_null(std::string_view text) {
  return text.empty() ? std::nullopt : std::optional(text);
}

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

/// The arguments of work.submit_many() and work.submit_batch().
struct job_arrays {
  explicit job_arrays(const std::vector<new_job>& jobs) {
    if (jobs.size() > max_jobs_of_submission) refuse("more than 10000 jobs in a submission");
    std::size_t bytes = 0;
    for (const new_job& job : jobs) {
      check_payload(job.payload);
      check_key(job.key);
      bytes += job.payload.size();
      payloads.push_back(bytes_of(job.payload));
      keys.push_back(text_or_null(job.key));
      priorities.push_back(job.priority);
      run_ats.push_back(job.run_at);
    }
    if (bytes > max_bytes_of_submission) refuse("payloads of more than 16 MiB in a submission");
  }

  std::vector<std::span<const std::byte>> payloads;
  std::vector<std::optional<std::string_view>> keys;
  std::vector<std::int16_t> priorities;
  std::vector<std::optional<server_time>> run_ats;
};

}  // namespace

task<submitted_job> queue::submit(postgres::querier& tx, std::string kind, std::string payload,
                                  submit_options options) {
  check_kind(kind);
  check_payload(payload);
  check_key(options.key);
  check_options({options.max_attempts, options.time_limit, options.keep});
  co_return co_await detail::translated(tx.query_one<submitted_job>(
      "select id, is_new from work.submit($1, $2, $3, $4, $5, $6, $7, $8)", kind, bytes_of(payload),
      text_or_null(options.key), options.priority, options.run_at, options.max_attempts,
      to_milliseconds(options.time_limit), to_milliseconds(options.keep)));
}

task<std::vector<submitted_job>> queue::submit_many(postgres::querier& tx, std::string kind,
                                                    std::vector<new_job> jobs,
                                                    job_options options) {
  check_kind(kind);
  check_options(options);
  const job_arrays arrays(jobs);
  if (jobs.empty()) co_return std::vector<submitted_job>();
  co_return co_await detail::translated(tx.query<submitted_job>(
      "select id, is_new from work.submit_many($1, $2, $3, $4, $5, $6, $7, $8, null)"
      " order by ordinal",
      kind, arrays.payloads, arrays.keys, arrays.priorities, arrays.run_ats, options.max_attempts,
      to_milliseconds(options.time_limit), to_milliseconds(options.keep)));
}

task<batch_id> queue::submit_batch(postgres::querier& tx, std::string kind,
                                   std::vector<new_job> jobs, job_options options,
                                   batch_options batch) {
  check_kind(kind);
  check_options(options);
  const job_arrays arrays(jobs);
  if (!batch.then_kind.empty()) check_kind(batch.then_kind);
  check_payload(batch.then_payload);
  co_return co_await detail::translated(tx.query_one<batch_id>(
      "select work.submit_batch($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)", kind, arrays.payloads,
      arrays.keys, arrays.priorities, arrays.run_ats, options.max_attempts,
      to_milliseconds(options.time_limit), to_milliseconds(options.keep),
      text_or_null(batch.then_kind), bytes_of(batch.then_payload)));
}

task<std::optional<job_status>> queue::status(job_id id) {
  static const std::string text = std::string(status_columns) + "where id = $1";
  co_return co_await detail::translated(db_->query_optional<job_status>(text, id));
}

async_generator<job_status> queue::watch(job_id id) {
  const std::string word = std::to_string(id);
  // The subscription begins before the first look, so that no change falls between the two.
  postgres::subscription changes = co_await db_->listen("work_changed");
  std::optional<job_status> last;
  while (true) {
    std::optional<job_status> now = co_await status(id);
    if (!now) co_return;
    const bool is_last = has_ended(now->state);
    if (now != last) {
      last = now;
      co_yield *now;
    }
    if (is_last) co_return;
    co_await wait_for_change(changes, word);
  }
}

task<std::string> queue::result(job_id id) {
  auto changes = watch(id);
  std::optional<job_status> last;
  while (job_status* change = co_await changes.next()) last = std::move(*change);
  if (!last || !has_ended(last->state)) {
    throw std::system_error(errc::unknown_job, "work: job " + std::to_string(id));
  }
  if (last->state == job_state::cancelled) {
    throw std::system_error(errc::job_cancelled, "work: job " + std::to_string(id));
  }
  if (last->state == job_state::dead) {
    throw std::system_error(errc::job_dead, "work: job " + std::to_string(id) + ": " + last->error);
  }
  co_return std::move(last->result);
}

task<batch_status> queue::status_of_batch(batch_id id) {
  std::optional<batch_status> status =
      co_await detail::translated(db_->query_optional<batch_status>(
          "select size, pending, finished, dead, cancelled from work.batch where id = $1", id));
  if (!status) throw std::system_error(errc::unknown_batch, "work: batch " + std::to_string(id));
  co_return *status;
}

task<batch_status> queue::wait_for_batch(batch_id id) {
  std::string word = "b";
  word += std::to_string(id);
  postgres::subscription changes = co_await db_->listen("work_changed");
  while (true) {
    const batch_status status = co_await status_of_batch(id);
    if (status.pending == 0) co_return status;
    co_await wait_for_change(changes, word);
  }
}

task<> queue::wait_for_change(postgres::subscription& changes, std::string_view word) {
  const auto is_told = [word](std::string_view payload) {
    while (!payload.empty()) {
      const std::size_t blank = std::min(payload.find(' '), payload.size());
      if (payload.substr(0, blank) == word) return true;
      payload.remove_prefix(std::min(blank + 1, payload.size()));
    }
    return false;
  };
  const auto wait = [&]() -> task<> {
    while (auto message = co_await changes.next()) {
      if (message->follows_gap || is_told(message->payload)) co_return;
    }
  };
  // An expired limit is no error: the loop below polls the state.
  static_cast<void>(co_await as_expected(with_timeout(wait(), look_interval)));
}

task<cancel_result> queue::cancel(postgres::querier& tx, job_id id) {
  const auto state_text = co_await detail::translated(
      tx.query_one<std::optional<std::string>>("select work.cancel($1)", id));
  if (!state_text) co_return cancel_result::unknown;
  if (*state_text == "requested") co_return cancel_result::requested;
  // A job that was already cancelled counts as cancelled, too.
  co_return *state_text == "cancelled" ? cancel_result::cancelled : cancel_result::had_ended;
}

task<bool> queue::revive(postgres::querier& tx, job_id id) {
  co_return co_await detail::translated(tx.query_one<bool>("select work.revive($1)", id));
}

task<std::vector<job_status>> queue::dead_jobs(std::string kind, job_id predecessor,
                                               std::size_t max_jobs) {
  static const std::string text = std::string(status_columns) +
                                  "where state = 'dead' and kind = $1 and id > $2"
                                  " order by id limit $3";
  co_return co_await detail::translated(db_->query<job_status>(text, kind, predecessor, max_jobs));
}

task<> queue::set_schedule(postgres::querier& tx, std::string name, schedule entry) {
  if (name.empty() || name.size() > 500) refuse("the name of a schedule has 1 to 500 bytes");
  check_kind(entry.kind);
  check_payload(entry.payload);
  check_options({entry.max_attempts, entry.time_limit, std::nullopt});
  static_cast<void>(cron_expression(entry.cron));
  co_await detail::translated(tx.execute("select work.set_schedule($1, $2, $3, $4, $5, $6, $7, $8)",
                                         name, entry.kind, entry.cron, entry.zone,
                                         bytes_of(entry.payload), entry.priority,
                                         entry.max_attempts, to_milliseconds(entry.time_limit)));
}

task<bool> queue::remove_schedule(postgres::querier& tx, std::string name) {
  const std::uint64_t removed_count =
      co_await detail::translated(tx.execute("delete from work.schedule where name = $1", name));
  co_return removed_count != 0;
}

task<> queue::set_limits(postgres::querier& tx, std::string kind, kind_limits limits) {
  check_kind(kind);
  if (limits.max_running && *limits.max_running < 1) {
    refuse("max_running of less than 1: use is_paused");
  }
  if (limits.max_waiting < 1) refuse("max_waiting of less than 1");
  co_await detail::translated(
      tx.execute("insert into work.kind (kind, max_running, max_waiting, paused)"
                 " values ($1, $2, $3, $4)"
                 " on conflict (kind) do update set max_running = excluded.max_running,"
                 " max_waiting = excluded.max_waiting, paused = excluded.paused",
                 kind, limits.max_running, limits.max_waiting, limits.is_paused));
}

task<std::vector<kind_statistics>> queue::statistics() {
  co_return co_await detail::translated(
      db_->query<kind_statistics>("select * from work.statistics()"));
}

void write_metrics(metrics::exposition& output, const kind_statistics& counts) {
  const auto& [kind, scheduled, ready, running, finished, dead, cancelled, oldest_ready_ms] =
      counts;
  const metrics::label of_kind = {"kind", kind};
  const auto add_jobs = [&](std::string_view state, std::int64_t jobs) {
    output.add_gauge("gyre_queue_jobs", "Jobs by their kind and state.", jobs,
                     {of_kind, {"state", state}});
  };
  add_jobs("scheduled", scheduled);
  add_jobs("ready", ready);
  add_jobs("running", running);
  add_jobs("finished", finished);
  add_jobs("dead", dead);
  add_jobs("cancelled", cancelled);
  output.add_gauge("gyre_queue_oldest_ready_seconds",
                   "Age of the job that has been due for longest.",
                   duration(std::chrono::milliseconds{oldest_ready_ms.value_or(0)}), {of_kind});
}

}  // namespace gyre::work
