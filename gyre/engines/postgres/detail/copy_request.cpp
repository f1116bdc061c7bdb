// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/postgres/detail/copy_request.hpp>

#include <gyre/engines/postgres/detail/run_on_core.hpp>
#include <gyre/engines/postgres/error.hpp>
#include <gyre/task/detail/this_context.hpp>
#include <gyre/trace/detail/event.hpp>
#include <gyre/trace/detail/named_wait.hpp>

#include <algorithm>
#include <exception>

namespace gyre::postgres::detail {
namespace {

// The size of one message to the server.
constexpr std::size_t piece_size = 64 * 1024;
// Reading pauses while this many bytes wait for the caller.
constexpr std::size_t high_water = 256 * 1024;

}  // namespace

// --- The reply ---

void copy_request::reply::on_copy_data(std::span<const std::byte> bytes) noexcept {
  try {
    bytes_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  } catch (...) {
    fail(std::current_exception());
  }
  if (bytes_.size() >= high_water && !is_paused_) {
    is_paused_ = true;
    core().pause_reading();
  }
  change_event_.set();
}

void copy_request::reply::on_ready(transaction_status status) noexcept {
  statement_reply::on_ready(status);
  change_event_.set();
}

void copy_request::reply::on_lost(const std::exception_ptr& error, bool was_sent) noexcept {
  statement_reply::on_lost(error, was_sent);
  change_event_.set();
}

void copy_request::reply::on_error(server_message error) noexcept {
  statement_reply::on_error(std::move(error));
  change_event_.set();
}

std::string copy_request::reply::take_bytes() {
  std::string result = std::exchange(bytes_, {});
  if (std::exchange(is_paused_, false)) core().resume_reading();
  return result;
}

// --- The request ---

copy_request::copy_request(joined_transaction transaction, std::string text, bool is_in)
    : transaction_(std::move(transaction)),
      text_(std::move(text)),
      reply_(transaction_.state->core(), is_in) {}

void copy_request::end() noexcept {
  if (std::exchange(is_open_, false)) transaction_.state->lease().has_open_copy = false;
}

connection_core& copy_request::core() const noexcept { return transaction_.state->core(); }

task<std::shared_ptr<copy_request>> copy_request::begin(joined_transaction transaction,
                                                        std::string text, bool is_in) {
  const transaction_state::shared state = transaction.state;
  const task_context& context = co_await gyre::detail::this_context();
  require_caller(context, state->core().loop());
  state->require_usable();
  task<> begin_task = state->send_prefix();
  co_await std::move(begin_task);
  // All replies must have come, because the server reads everything after the COPY as its data.
  task<> wait_task = state->wait_until_idle();
  co_await std::move(wait_task);
  std::shared_ptr<copy_request> result;
  try {
    result = std::make_shared<copy_request>(std::move(transaction), std::move(text), is_in);
  } catch (...) {
    state->core().cancel_admission();
    throw;
  }
  state->core().query(result->reply_, result->text_);
  result->is_open_ = true;
  state->lease().has_open_copy = true;
  while (!result->reply_.has_begun() && !result->reply_.has_ended())
    co_await result->reply_.changed();
  if (!result->reply_.has_begun()) {
    result->end();
    result->reply_.throw_if_failed(result->text_);
    throw_error(errc::not_a_copy, excerpt_of(result->text_));
  }
  co_return result;
}

task<> copy_request::write(std::shared_ptr<copy_request> self, std::span<const std::byte> bytes) {
  do {
    if (self == nullptr || self->is_finished_) throw_error(errc::not_a_copy, "it has ended");
    if (self->reply_.has_error() || self->reply_.has_ended()) {
      task<std::uint64_t> end_task = wait_for_end(self);
      co_await std::move(end_task);
      throw_error(errc::not_a_copy, "it has ended");
    }
    const auto piece = bytes.first(std::min(bytes.size(), piece_size));
    if (!piece.empty()) self->core().copy_data(piece);
    bytes = bytes.subspan(piece.size());
    task<> turn = self->core().writable();
    co_await std::move(turn);
  } while (!bytes.empty());
}

task<std::uint64_t> copy_request::finish(std::shared_ptr<copy_request> self) {
  if (self == nullptr || self->is_finished_) throw_error(errc::not_a_copy, "it has ended");
  if (!self->reply_.has_error() && !self->reply_.has_ended()) self->core().copy_done();
  task<std::uint64_t> end_task = wait_for_end(self);
  co_return co_await std::move(end_task);
}

task<std::uint64_t> copy_request::wait_for_end(std::shared_ptr<copy_request> self) {
  const trace::detail::named_wait record(trace::detail::event_kind::statement, self->text_);
  co_await self->reply_.wait();
  self->end();
  self->reply_.throw_if_failed(self->text_);
  self->is_finished_ = true;
  if (self->transaction_.is_own) {
    task<> end_task =
        transaction_state::commit(self->transaction_.state, transaction_options().commit_timeout);
    co_await std::move(end_task);
  }
  co_return self->reply_.affected();
}

task<std::string> copy_request::receive(std::shared_ptr<copy_request> self) {
  while (!self->reply_.has_bytes() && !self->reply_.has_ended()) {
    co_await self->reply_.changed();
  }
  if (self->reply_.has_bytes()) co_return self->reply_.take_bytes();
  task<std::uint64_t> end_task = wait_for_end(self);
  co_await std::move(end_task);
  co_return std::string();
}

task<copy_writer> begin_copy_in(shared_runner runner, statement text) {
  require_runner(runner);
  task<joined_transaction> join_task = runner->join(false);
  joined_transaction transaction = co_await std::move(join_task);
  auto begin_task = copy_request::begin(std::move(transaction), std::string(text.text()), true);
  std::shared_ptr<copy_request> request = co_await std::move(begin_task);
  co_return copy_request::make_writer(std::move(request));
}

async_generator<std::string> copy_out_bytes(shared_runner runner, statement text) {
  require_runner(runner);
  task<joined_transaction> join_task = runner->join(false);
  joined_transaction transaction = co_await std::move(join_task);
  auto begin_task = copy_request::begin(std::move(transaction), std::string(text.text()), false);
  const std::shared_ptr<copy_request> request = co_await std::move(begin_task);
  for (;;) {
    task<std::string> receive_task = copy_request::receive(request);
    std::string bytes = co_await std::move(receive_task);
    if (bytes.empty()) co_return;
    co_yield std::move(bytes);
  }
}

}  // namespace gyre::postgres::detail
