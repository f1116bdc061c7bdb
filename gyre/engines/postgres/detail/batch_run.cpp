// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/postgres/detail/batch_run.hpp>

#include <gyre/engines/postgres/batch.hpp>
#include <gyre/engines/postgres/detail/client_core.hpp>
#include <gyre/engines/postgres/detail/run_on_core.hpp>
#include <gyre/engines/postgres/detail/transaction_state.hpp>
#include <gyre/engines/postgres/error.hpp>
#include <gyre/task/detail/this_context.hpp>
#include <gyre/trace/detail/event.hpp>
#include <gyre/trace/detail/named_wait.hpp>

#include <map>
#include <string>
#include <system_error>

namespace gyre::postgres::detail {
namespace {

std::string name_of(std::size_t index) { return "the statement at index " + std::to_string(index); }

/// The results of a batch go to its items.
class item_results final : public batch_results {
 public:
  explicit item_results(batch_items& work) noexcept : items_(work.items) {}

  void begin() noexcept { current_index_ = 0; }
  void add(const row_view& row) override { items_[current_index_]->rows().add(row); }
  void complete(std::uint64_t rows) override { items_[current_index_++]->complete(rows); }
  std::string_view text_at(std::size_t index) const noexcept override {
    return items_[index]->text().text();
  }

 private:
  std::vector<std::unique_ptr<batch_item>>& items_;
  std::size_t current_index_ = 0;
};

/// The different statements of a batch, and which of them each item executes.
struct distinct_statements {
  std::vector<const statement*> statements;
  std::vector<std::size_t> places;

  explicit distinct_statements(const batch_items& work) {
    std::map<std::string_view, std::size_t> indices;
    places.reserve(work.items.size());
    for (const auto& item : work.items) {
      const statement& text = item->text();
      const auto [entry, is_new] = indices.try_emplace(text.text(), statements.size());
      if (is_new) statements.push_back(&text);
      places.push_back(entry->second);
    }
  }
};

}  // namespace

void throw_at(std::size_t index, const std::system_error& error) {
  std::string_view text = error.what();
  // The constructor below appends the reason again.
  const std::string reason = ": " + error.code().message();
  if (text.ends_with(reason)) text.remove_suffix(reason.size());
  throw std::system_error(error.code(), name_of(index).append(", ").append(text));
}

// --- The reply ---

void batch_reply::on_complete(std::string_view tag) noexcept {
  statement_reply::on_complete(tag);
  if (has_error()) return;
  try {
    results_.complete(affected());
    ++completed_items_;
  } catch (...) {
    fail(std::current_exception());
  }
}

// --- The run ---

batch_run::batch_run(joined_transaction transaction, std::vector<const statement*> statements,
                     batch_results& results)
    : transaction_(std::move(transaction)),
      statements_(std::move(statements)),
      results_(results),
      reply_(transaction_.state->core(), results,
             transaction_.state->lease().client().options().max_result) {
  transaction_.state->lease().has_open_batch = true;
}

batch_run::~batch_run() { end(); }

void batch_run::end() noexcept {
  if (std::exchange(is_open_, false)) transaction_.state->lease().has_open_batch = false;
}

task<std::unique_ptr<batch_run>> batch_run::begin(shared_runner runner,
                                                  std::vector<const statement*> statements,
                                                  batch_results& results) {
  task<joined_transaction> join_task = runner->join(false);
  joined_transaction transaction = co_await std::move(join_task);
  const task_context& context = co_await gyre::detail::this_context();
  require_caller(context, transaction.state->core().loop());
  transaction.state->require_usable();
  auto result = std::make_unique<batch_run>(std::move(transaction), std::move(statements), results);
  task<> prepare_task = result->prepare_statements();
  co_await std::move(prepare_task);
  co_return result;
}

task<> batch_run::prepare_statements() {
  prepared_statements_.reserve(statements_.size());
  for (const statement* const source : statements_) {
    task<connection_core::shared_statement> prepare_task =
        transaction_.state->prepare(source->text());
    connection_core::shared_statement statement = co_await std::move(prepare_task);
    prepared_statements_.push_back(std::move(statement));
  }
}

void batch_run::begin_rows(std::size_t statement_place, row_sink& rows) try {
  rows.begin(prepared_statements_[statement_place]->columns());
} catch (const std::system_error& error) {
  throw_at(added_items_, error);
}

void batch_run::add(std::size_t statement_place, const argument_list& arguments) {
  const prepared_statement& statement = *prepared_statements_[statement_place];
  const std::size_t size = bytes_.size();
  try {
    message_writer writer(bytes_);
    writer.bind(
        {}, statement.name(),
        [&](io::buffer& output) { arguments.write(output, statement.parameters()); },
        statement.result_formats());
    writer.execute({}, 0);
  } catch (const std::system_error& error) {
    bytes_.drop_last(bytes_.size() - size);
    throw_at(added_items_, error);
  } catch (...) {
    bytes_.drop_last(bytes_.size() - size);
    throw;
  }
  ++added_items_;
}

task<> batch_run::begin_request() {
  transaction_state& state = *transaction_.state;
  task<> turn = state.admit();
  co_await std::move(turn);
  try {
    state.set_limit(state.limit_of(*statements_.front()));
    const std::vector<std::string_view> prefix = state.prefix();
    state.core().begin_batch(reply_, prefix);
  } catch (...) {
    state.core().cancel_admission();
    throw;
  }
  state.note_prefix_sent();
  has_begun_ = true;
}

task<bool> batch_run::send_items() {
  if (!has_begun_) {
    task<> begin_task = begin_request();
    co_await std::move(begin_task);
  }
  connection_core& core = transaction_.state->core();
  core.append_to_batch(reply_, bytes_.bytes());
  bytes_.clear();
  task<> turn = core.writable();
  co_await std::move(turn);
  co_return !reply_.has_error() && !reply_.server_failure();
}

task<bool> batch_run::finish(bool may_repeat) {
  const trace::detail::named_wait record(trace::detail::event_kind::statement,
                                         statements_.front()->text());
  if (added_items_ == 0) {
    end();
    co_return true;
  }
  connection_core& core = transaction_.state->core();
  if (!has_begun_) {
    task<> begin_task = begin_request();
    co_await std::move(begin_task);
  }
  // If a row could not be read, the batch is not completed, so that no statement of it takes
  // effect.
  if (reply_.has_error()) {
    core.fail_batch(reply_);
  } else {
    core.append_to_batch(reply_, bytes_.bytes());
    core.end_batch(reply_);
  }
  bytes_.clear();
  co_await reply_.wait();
  end();
  const bool is_refused = reply_.server_failure() && is_stale(*reply_.server_failure());
  forget_statements(is_refused);
  if (is_refused && may_repeat && core.status() == transaction_status::idle) co_return false;
  if (reply_.has_error() || reply_.server_failure()) throw_failure();
  co_return true;
}

void batch_run::forget_statements(bool is_refused) noexcept {
  connection_core& core = transaction_.state->core();
  for (std::size_t place = 0; place < prepared_statements_.size(); ++place) {
    if (!is_refused && statements_[place]->options().is_prepared) continue;
    try {
      core.forget_prepared(*prepared_statements_[place]);
    } catch (...) {
      return;  // without memory, the statement remains prepared
    }
  }
}

void batch_run::throw_failure() {
  const std::size_t index = reply_.completed();
  if (reply_.has_error()) {
    try {
      reply_.throw_if_failed({});
    } catch (const std::system_error& error) {
      if (reply_.result() != statement_reply::outcome::complete) throw;
      throw_at(index, error);
    }
  }
  const server_message& failure = *reply_.server_failure();
  const errc code = errc_of(failure.sqlstate);
  const bool has_limit = transaction_.state->has_limit(*statements_.front());
  // An error before the first statement, as of BEGIN, belongs to no statement.
  throw batch_error(index,
                    has_limit && code == errc::query_canceled ? errc::statement_timeout : code,
                    failure, index < added_items_ ? results_.text_at(index) : std::string_view());
}

task<> execute_items(shared_runner runner, batch_items& work) {
  require_runner(runner);
  for (const auto& item : work.items) item->set_result(false);
  if (work.items.empty()) co_return;
  const distinct_statements statements(work);
  item_results results(work);
  bool may_repeat = true;
  for (;;) {
    results.begin();
    auto begin_task = batch_run::begin(runner, statements.statements, results);
    const std::unique_ptr<batch_run> run = co_await std::move(begin_task);
    for (std::size_t index = 0; index < work.items.size(); ++index) {
      batch_item& item = *work.items[index];
      run->begin_rows(statements.places[index], item.rows());
      run->add(statements.places[index], item.arguments());
      if (!run->is_full()) continue;
      task<bool> send_task = run->send_items();
      const bool continues = co_await std::move(send_task);
      if (!continues) break;
    }
    task<bool> finish_task = run->finish(std::exchange(may_repeat, false));
    const bool is_done = co_await std::move(finish_task);
    if (is_done) break;
  }
  for (const auto& item : work.items) item->set_result(true);
}

}  // namespace gyre::postgres::detail
