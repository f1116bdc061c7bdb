// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/postgres/detail/transaction_state.hpp>

#include <gyre/engines/postgres/detail/client_core.hpp>
#include <gyre/engines/postgres/detail/run_on_core.hpp>
#include <gyre/engines/postgres/error.hpp>
#include <gyre/io/error.hpp>
#include <gyre/task/detail/cancelled.hpp>
#include <gyre/task/detail/this_context.hpp>
#include <gyre/task/shielded.hpp>
#include <gyre/task/with_timeout.hpp>
#include <gyre/trace/detail/event.hpp>
#include <gyre/trace/detail/named_wait.hpp>

#include <algorithm>
#include <chrono>
#include <exception>
#include <stdexcept>
#include <system_error>

namespace gyre::postgres::detail {
namespace {

// The time limit of a rollback. After it the connection is closed.
constexpr std::chrono::seconds rollback_timeout{10};

std::string begin_text(const transaction_options& options) {
  std::string text = "begin";
  switch (options.isolation) {
    case isolation::server_default: break;
    case isolation::read_committed: text += " isolation level read committed"; break;
    case isolation::repeatable_read: text += " isolation level repeatable read"; break;
    case isolation::serializable: text += " isolation level serializable"; break;
  }
  if (options.is_read_only) text += " read only";
  if (options.is_deferrable) text += " deferrable";
  return text;
}

}  // namespace

// --- connection_lease ---

connection_lease::connection_lease(std::shared_ptr<client_core> client, pooled connection)
    : client_(std::move(client)),
      pooled_connection_(std::move(connection)),
      core_(pooled_connection_->core()) {}

connection_lease::~connection_lease() {
  if (is_for_others_ && pooled_connection_->is_reusable()) pooled_connection_.give_back();
}

void connection_lease::require_connected() const {
  if (core_->is_ready()) return;
  if (client_->is_closed()) {
    throw std::system_error(make_error_code(io::errc::closed), core_->describe());
  }
  throw_error(errc::connection_lost, core_->describe());
}

// --- Levels ---

transaction_state::transaction_state(std::shared_ptr<connection_lease> lease, std::string begin,
                                     ending statements, std::optional<duration> statement_timeout)
    : lease_(std::move(lease)),
      begin_(std::move(begin)),
      ends_(std::move(statements)),
      statement_timeout_(statement_timeout),
      depth_(lease_->depth) {
  if (!begin_.empty()) lease_->pending_statements.push_back(begin_);
}

transaction_state::shared transaction_state::session(std::shared_ptr<connection_lease> lease) {
  return std::make_shared<transaction_state>(std::move(lease), "", ending(), std::nullopt);
}

transaction_state::shared transaction_state::transaction(std::shared_ptr<connection_lease> lease,
                                                         const transaction_options& options) {
  return std::make_shared<transaction_state>(std::move(lease), begin_text(options),
                                             ending{"commit", "rollback"},
                                             options.statement_timeout);
}

transaction_state::shared transaction_state::savepoint() {
  require_usable();
  const std::string name = next_name("gyre_savepoint_");
  ++lease_->depth;
  try {
    return std::make_shared<transaction_state>(
        lease_, "savepoint " + name,
        ending{"release savepoint " + name,
               "rollback to savepoint " + name + "; release savepoint " + name},
        statement_timeout_);
  } catch (...) {
    --lease_->depth;
    throw;
  }
}

std::optional<duration> transaction_state::limit_of(const statement& text) const noexcept {
  return text.options().timeout ? text.options().timeout : statement_timeout_;
}

bool transaction_state::has_limit(const statement& text) const noexcept {
  const duration client_limit = lease_->client().options().statement_timeout;
  return limit_of(text).value_or(client_limit) != duration::max();
}

std::string transaction_state::next_name(std::string_view kind) {
  return std::string(kind) + std::to_string(++lease_->names);
}

void transaction_state::require_usable() const {
  if (has_ended_) throw_error(errc::transaction_ended, lease_->core()->describe());
  if (lease_->depth > depth_) {
    throw std::logic_error(
        "gyre::postgres::transaction: it is used while a savepoint of it is open; use the "
        "transaction that the savepoint's function is given");
  }
  if (lease_->has_open_copy) {
    throw std::logic_error(
        "gyre::postgres::querier: a COPY is under way on the connection; finish it first");
  }
  if (lease_->has_open_batch) {
    throw std::logic_error(
        "gyre::postgres::querier: a batch is under way on the connection; wait for its end first");
  }
  lease_->require_connected();
}

bool transaction_state::is_begun() const noexcept {
  return std::ranges::find(lease_->pending_statements, begin_) == lease_->pending_statements.end();
}

void transaction_state::end() noexcept {
  if (std::exchange(has_ended_, true)) return;
  std::erase(lease_->pending_statements, begin_);
  if (depth_ > 0) lease_->depth = depth_ - 1;
}

// --- Statements ---

task<std::uint64_t> transaction_state::run(const statement& text, const argument_list& arguments,
                                           row_sink& rows) {
  const std::optional<duration> own_limit = limit_of(text);
  const duration limit = own_limit.value_or(lease_->client().options().statement_timeout);
  if (limit == duration::max()) return run_unlimited(text, arguments, rows, own_limit);
  return with_timeout(run_unlimited(text, arguments, rows, own_limit), limit);
}

task<std::uint64_t> transaction_state::run_unlimited(const statement& text,
                                                     const argument_list& arguments, row_sink& rows,
                                                     std::optional<duration> limit) {
  const task_context& context = co_await gyre::detail::this_context();
  require_caller(context, lease_->client().loop());
  require_usable();
  const trace::detail::named_wait record(trace::detail::event_kind::statement, text.text());
  task<connection_core::shared_statement> prepare_task = prepare(text.text());
  const connection_core::shared_statement prepared_text = co_await std::move(prepare_task);
  rows.begin(prepared_text->columns());
  if (!core().try_admit()) {
    task<> turn = admit();
    co_await std::move(turn);
  }
  statement_reply reply(core(), &rows, lease_->client().max_result_of(text));
  try {
    require_usable();
    set_limit(limit);
  } catch (...) {
    core().cancel_admission();
    throw;
  }
  const std::vector<std::string_view> statement_prefix = prefix();
  core().execute(reply, *prepared_text,
                 [&](io::buffer& output) { arguments.write(output, prepared_text->parameters()); },
                 {.prefix = statement_prefix});
  note_prefix_sent();
  co_await reply.wait();
  if (reply.server_failure() && is_stale(*reply.server_failure())) {
    core().forget_prepared(*prepared_text);
  }
  const bool has_limit =
      limit.value_or(lease_->client().options().statement_timeout) != duration::max();
  reply.throw_if_failed(text.text(), has_limit);
  if (!text.options().is_prepared) core().forget_prepared(*prepared_text);
  co_return reply.affected();
}

task<> transaction_state::run_script(std::string script) {
  const task_context& context = co_await gyre::detail::this_context();
  require_caller(context, lease_->client().loop());
  require_usable();
  task<> send_task = send_prefix();
  co_await std::move(send_task);
  const trace::detail::named_wait record(trace::detail::event_kind::statement, script);
  task<> turn = admit();
  co_await std::move(turn);
  statement_reply reply(core());
  core().query(reply, script);
  co_await reply.wait();
  reply.throw_if_failed(script);
}

task<joined_transaction> transaction_state::join(bool needs_transaction) {
  require_usable();
  if (!needs_transaction || is_in_transaction()) {
    co_return joined_transaction{shared_from_this(), false};
  }
  ++lease_->depth;
  co_return joined_transaction{transaction(lease_, {}), true};
}

task<> transaction_state::send_prefix() {
  if (lease_->pending_statements.empty()) co_return;
  const statement empty_statement("select");
  no_rows rows;
  const std::tuple<> no_arguments;
  const bound_arguments<> arguments(no_arguments);
  task<std::uint64_t> run_task = run_unlimited(empty_statement, arguments, rows, std::nullopt);
  co_await std::move(run_task);
}

task<connection_core::shared_statement> transaction_state::prepare(std::string_view text) {
  connection_core::shared_statement entry = core().find_prepared(text);
  if (entry != nullptr) co_return entry;
  task<connection_core::shared_statement> prepare_task =
      connection_core::prepare(lease_->core(), text);
  try {
    entry = co_await std::move(prepare_task);
  } catch (const std::system_error&) {
    lease_->require_connected();
    throw;
  }
  co_return entry;
}

task<> transaction_state::admit() {
  if (core().try_admit()) co_return;
  task<> turn = core().admit();
  try {
    co_await std::move(turn);
  } catch (const std::system_error&) {
    lease_->require_connected();
    throw;
  }
}

task<> transaction_state::wait_until_idle() {
  for (;;) {
    task<> turn = admit();
    co_await std::move(turn);
    if (core().in_flight() == 0) co_return;
    // An empty query's reply comes after the replies to all earlier requests.
    statement_reply reply(core());
    core().query(reply, "");
    co_await reply.wait();
    reply.throw_if_failed({});
  }
}

std::vector<std::string_view> transaction_state::prefix() const {
  return {lease_->pending_statements.begin(), lease_->pending_statements.end()};
}

void transaction_state::note_prefix_sent() noexcept { lease_->pending_statements.clear(); }

void transaction_state::set_limit(std::optional<duration> limit) {
  // Outside of a transaction, a local limit ends with its request.
  if (!is_in_transaction()) {
    lease_->limit.reset();
    lease_->is_limit_known = true;
  }
  const std::optional<std::int64_t> limit_at_server = server_limit(limit);
  if (lease_->is_limit_known && lease_->limit == limit_at_server) return;
  lease_->pending_statements.push_back(limit_text(limit_at_server));
  lease_->limit = limit_at_server;
  lease_->is_limit_known = true;
}

// --- Ends ---

task<> transaction_state::send_ending(std::string text, bool is_commit) {
  const trace::detail::named_wait record(trace::detail::event_kind::statement, text);
  task<> turn = admit();
  co_await std::move(turn);
  statement_reply reply(core());
  core().query(reply, text);
  has_sent_commit_ = is_commit && depth_ == 0;
  co_await reply.wait();
  using outcome = statement_reply::outcome;
  if (reply.result() == outcome::unsent) has_sent_commit_ = false;
  if (reply.result() == outcome::lost && has_sent_commit_) {
    throw_error(errc::commit_unknown, core().describe());
  }
  // A COMMIT ends the transaction even if the server refuses it.
  if (is_commit == false || depth_ == 0) end();
  lease_->is_limit_known = false;
  reply.throw_if_failed(text);
  end();
  if (is_commit && reply.is_rollback()) {
    throw_error(errc::transaction_aborted, core().describe());
  }
}

task<> transaction_state::commit(shared self, duration limit) {
  const task_context& context = co_await gyre::detail::this_context();
  if (context.stop.stop_requested()) gyre::detail::throw_cancelled(context);
  self->require_usable();
  if (self->ends_.commit.empty() || !self->is_begun()) {
    self->end();
    co_return;
  }
  task<> end_task = shielded(self->send_ending(self->ends_.commit, true), limit);
  try {
    co_await std::move(end_task);
  } catch (const std::system_error& error) {
    if (error.code() != std::errc::timed_out || !self->has_sent_commit_) throw;
    self->lease_->keep_from_others();
    self->end();
    throw_error(errc::commit_unknown, self->core().describe() + ", after the commit_timeout");
  }
}

task<> transaction_state::roll_back(shared self) {
  if (self->has_ended_) co_return;
  const bool is_to_be_sent = !self->ends_.rollback.empty() && self->is_begun() &&
                             self->core().is_ready() && !self->has_sent_commit_;
  if (is_to_be_sent) {
    // The rollback ends open inner levels, too, so their depth is reset.
    self->lease_->depth = self->depth_;
    task<> end_task =
        with_timeout(self->send_ending(self->ends_.rollback, false), rollback_timeout);
    try {
      co_await std::move(end_task);
    } catch (...) {
      self->lease_->keep_from_others();
    }
  }
  self->end();
}

}  // namespace gyre::postgres::detail
