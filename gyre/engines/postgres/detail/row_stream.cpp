// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/postgres/detail/row_stream.hpp>

#include <gyre/engines/postgres/detail/client_core.hpp>
#include <gyre/engines/postgres/detail/run_on_core.hpp>
#include <gyre/task/detail/this_context.hpp>
#include <gyre/task/spawn.hpp>
#include <gyre/trace/detail/event.hpp>
#include <gyre/trace/detail/named_wait.hpp>

#include <algorithm>
#include <exception>

namespace gyre::postgres::detail {
namespace {

// The rows of the first batch. Each later batch has about `batch_bytes` bytes.
constexpr std::uint32_t first_rows = 64;
constexpr std::uint32_t most_rows = 16 * 1024;
constexpr std::size_t batch_bytes = 256 * 1024;

}  // namespace

portal_stream::~portal_stream() {
  if (!transaction_ || !transaction_->is_own || is_finished_) return;
  // The batch in flight is cancelled first, so that the rollback does not wait for its rows.
  reply_.reset();
  const transaction_state::shared state = transaction_->state;
  try {
    spawn(state->core().loop(), transaction_state::roll_back(state),
          {.name = "gyre::postgres stream"});
  } catch (...) {
    state->lease().keep_from_others();
  }
}

std::size_t portal_stream::max_result() const noexcept {
  return transaction_->state->lease().client().max_result_of(text_);
}

std::uint32_t portal_stream::next_size() const noexcept {
  if (batch_->rows == 0) return first_rows;
  const std::size_t row_bytes = std::max<std::size_t>(batch_->bytes / batch_->rows, 1);
  return static_cast<std::uint32_t>(std::clamp<std::size_t>(batch_bytes / row_bytes, 1, most_rows));
}

task<> portal_stream::open(shared_runner runner, const argument_list& arguments) {
  task<joined_transaction> join_task = runner->join(true);
  transaction_ = co_await std::move(join_task);
  transaction_state& state = *transaction_->state;
  const task_context& context = co_await gyre::detail::this_context();
  require_caller(context, state.core().loop());
  task<connection_core::shared_statement> prepare_task = state.prepare(text_.text());
  prepared_statement_ = co_await std::move(prepare_task);
  batch_.emplace(rows_);
  batch_->begin(prepared_statement_->columns());
  name_ = state.next_name("gyre_portal_");
  task<> turn = state.admit();
  co_await std::move(turn);
  try {
    state.require_usable();
    state.set_limit(text_.options().timeout);
    reply_.emplace(state.core(), &*batch_, max_result());
  } catch (...) {
    state.core().cancel_admission();
    throw;
  }
  const std::vector<std::string_view> prefix = state.prefix();
  state.core().execute(
      *reply_, *prepared_statement_,
      [&](io::buffer& output) { arguments.write(output, prepared_statement_->parameters()); },
      {.prefix = prefix, .portal = name_, .max_rows = first_rows});
  state.note_prefix_sent();
}

task<bool> portal_stream::receive() {
  const trace::detail::named_wait record(trace::detail::event_kind::statement, text_.text());
  co_await reply_->wait();
  reply_->throw_if_failed(text_.text(), text_.options().timeout.has_value());
  co_return reply_->is_suspended();
}

task<> portal_stream::request_next() {
  transaction_state& state = *transaction_->state;
  state.require_usable();
  const std::uint32_t size = next_size();
  batch_->rows = 0;
  batch_->bytes = 0;
  reply_.reset();
  task<> turn = state.admit();
  co_await std::move(turn);
  reply_.emplace(state.core(), &*batch_, max_result());
  state.core().execute_portal(*reply_, name_, size);
}

task<> portal_stream::finish() {
  reply_.reset();
  const transaction_state::shared state = transaction_->state;
  if (transaction_->is_own) {
    is_finished_ = true;
    task<> end_task = transaction_state::commit(state, transaction_options().commit_timeout);
    co_await std::move(end_task);
    co_return;
  }
  task<> turn = state->admit();
  co_await std::move(turn);
  statement_reply close_reply(state->core());
  state->core().close_portal(close_reply, name_);
  co_await close_reply.wait();
  close_reply.throw_if_failed(text_.text());
}

}  // namespace gyre::postgres::detail
