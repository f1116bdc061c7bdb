// SPDX-License-Identifier: Apache-2.0
// stream_rows: the rows of a statement in batches, by a portal.
#pragma once

#include <gyre/engines/postgres/detail/query_runner.hpp>
#include <gyre/engines/postgres/detail/row_collector.hpp>
#include <gyre/engines/postgres/detail/statement_reply.hpp>
#include <gyre/engines/postgres/detail/transaction_state.hpp>
#include <gyre/engines/postgres/row_traits.hpp>
#include <gyre/engines/postgres/statement.hpp>
#include <gyre/task/async_generator.hpp>
#include <gyre/task/task.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace gyre::postgres::detail {

/// A portal of a transaction, from which rows are fetched in batches. If the transaction is the
/// stream's own, a batch is on its way while the batch before is read; a stream that is given up
/// then affects no other transaction.
class portal_stream {
 public:
  portal_stream(statement text, row_sink& rows) noexcept : text_(std::move(text)), rows_(rows) {}
  portal_stream& operator=(portal_stream&&) = delete;
  ~portal_stream();

  /// Asks for the first batch.
  task<> open(shared_runner runner, const argument_list& arguments);
  /// Waits for the batch that was asked for; whether another one may follow.
  task<bool> receive();
  bool fetches_ahead() const noexcept { return transaction_->is_own; }
  /// Asks for the next batch.
  task<> request_next();
  /// Ends the portal, and the transaction if it is the stream's own.
  task<> finish();

 private:
  /// A batch, with its size in bytes.
  class batch_sink final : public row_sink {
   public:
    explicit batch_sink(row_sink& target) noexcept : target_(target) {}
    void begin(std::span<const column_description> columns) override { target_.begin(columns); }
    void add(const row_view& row) override {
      ++rows;
      bytes += row.bytes();
      target_.add(row);
    }
    std::size_t rows = 0;
    std::size_t bytes = 0;

   private:
    row_sink& target_;
  };

  std::uint32_t next_size() const noexcept;
  std::size_t max_result() const noexcept;

  const statement text_;
  row_sink& rows_;
  std::optional<joined_transaction> transaction_;
  connection_core::shared_statement prepared_statement_;
  std::string name_;
  std::optional<batch_sink> batch_;
  std::optional<statement_reply> reply_;
  bool is_finished_ = false;
};

template <class Row, class... Kept>
async_generator<Row> stream_rows(shared_runner runner, statement text,
                                 std::tuple<Kept...> arguments) {
  require_runner(runner);
  row_collector<Row> rows;
  portal_stream portal(std::move(text), rows);
  const bound_arguments<Kept...> parameters(arguments);
  task<> open_task = portal.open(std::move(runner), parameters);
  co_await std::move(open_task);
  for (;;) {
    task<bool> receive_task = portal.receive();
    const bool has_more = co_await std::move(receive_task);
    std::vector<Row> batch = rows.take();
    if (has_more && portal.fetches_ahead()) {
      task<> request_task = portal.request_next();
      co_await std::move(request_task);
    }
    for (Row& row : batch) co_yield std::move(row);
    if (!has_more) break;
    if (!portal.fetches_ahead()) {
      task<> request_task = portal.request_next();
      co_await std::move(request_task);
    }
  }
  task<> finish_task = portal.finish();
  co_await std::move(finish_task);
}

}  // namespace gyre::postgres::detail
