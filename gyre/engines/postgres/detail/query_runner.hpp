// SPDX-License-Identifier: Apache-2.0
// query_runner: what executes the statements of a querier.
#pragma once

#include <gyre/engines/postgres/detail/bound_arguments.hpp>
#include <gyre/engines/postgres/detail/prepared_statement.hpp>
#include <gyre/engines/postgres/detail/row_view.hpp>
#include <gyre/engines/postgres/statement.hpp>
#include <gyre/task/task.hpp>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <utility>

namespace gyre::postgres::detail {

class transaction_state;

/// Takes the rows of a statement, within the connection's turns.
class row_sink {
 public:
  row_sink() noexcept = default;
  row_sink& operator=(row_sink&&) = delete;

  /// Begins a result, and drops one that was begun before. `columns` live as long as rows come.
  virtual void begin(std::span<const column_description> columns) = 0;
  virtual void add(const row_view& row) = 0;

 protected:
  ~row_sink() = default;
};

/// A sink that drops rows.
class no_rows final : public row_sink {
 public:
  void begin(std::span<const column_description>) override {}
  void add(const row_view&) override {}
};

/// The transaction, or the session, of a stream or a COPY.
struct joined_transaction {
  std::shared_ptr<transaction_state> state;
  bool is_own;  ///< whether it was begun for the stream or COPY, whose end ends it
};

/// Thread-safety: the loop's thread.
/// Lifetime: shared by queriers and their calls.
class query_runner {
 public:
  query_runner() noexcept = default;
  query_runner& operator=(query_runner&&) = delete;
  virtual ~query_runner() = default;

  /// Executes a statement, and returns the number of rows that it has affected. All that it is
  /// given must outlive the call.
  virtual task<std::uint64_t> run(const statement& text, const argument_list& arguments,
                                  row_sink& rows) = 0;
  virtual task<> run_script(std::string script) = 0;
  /// Takes the transaction that runs, or a connection. `needs_transaction`: begins one unless one
  /// runs.
  virtual task<joined_transaction> join(bool needs_transaction) = 0;
};

using shared_runner = std::shared_ptr<query_runner>;

/// Throws std::system_error (io::errc::not_open) for a querier that was moved from.
void require_runner(const shared_runner& runner);

template <class... Kept>
task<std::uint64_t> execute_statement(shared_runner runner, statement text,
                                      std::tuple<Kept...> arguments) {
  require_runner(runner);
  const bound_arguments<Kept...> parameters(arguments);
  no_rows rows;
  task<std::uint64_t> run_task = runner->run(text, parameters, rows);
  co_return co_await std::move(run_task);
}
task<> run_script(shared_runner runner, std::string script);
task<> notify(shared_runner runner, std::string channel, std::string payload);

}  // namespace gyre::postgres::detail
