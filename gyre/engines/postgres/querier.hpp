// SPDX-License-Identifier: Apache-2.0
// querier: statements of SQL, which a client, a transaction and a session execute in the same way.
//
//     struct item {
//       std::int64_t id;
//       std::string name;
//       std::optional<double> weight;
//     };
//     gyre::task<> show(gyre::postgres::querier& db) {  // a client or a transaction
//       auto light = co_await db.query<item>("select id, name, weight from item where weight < $1", 5);
//       auto one = co_await db.query_one<std::string>("select name from item where id = $1", 7);
//       auto changed = co_await db.execute("delete from item where name = $1", "bolt");
//       std::cout << light.size() << ' ' << one << ' ' << changed << '\n';
//     }
#pragma once

#include <gyre/engines/detail/kept_argument.hpp>
#include <gyre/engines/postgres/argument_traits.hpp>
#include <gyre/engines/postgres/batch.hpp>
#include <gyre/engines/postgres/copy_writer.hpp>
#include <gyre/engines/postgres/detail/batch_run.hpp>
#include <gyre/engines/postgres/detail/bound_arguments.hpp>
#include <gyre/engines/postgres/detail/copy_rows.hpp>
#include <gyre/engines/postgres/detail/query_runner.hpp>
#include <gyre/engines/postgres/detail/row_collector.hpp>
#include <gyre/engines/postgres/detail/row_stream.hpp>
#include <gyre/engines/postgres/row_traits.hpp>
#include <gyre/engines/postgres/statement.hpp>
#include <gyre/task/async_generator.hpp>
#include <gyre/task/task.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gyre::postgres {

/// Executes statements. Arguments are those of argument_traits, for the parameters $1, $2 …; a Row
/// is a type of row_traits: a std::tuple, a struct, or the type of a single column.
///
/// Statements of several coroutines may be in flight at the same time; the server executes those of
/// one connection in their order. An error of one does not affect the others, unless they are
/// statements of one transaction.
///
/// Thread-safety: the loop's thread.
/// Lifetime: arguments and texts that are neither temporaries nor numbers must outlive the call.
/// Errors: server_error, after which the querier remains of use; std::system_error
/// (postgres::errc; errors of net::connect() with the server's name; io::errc::waiting_limit,
/// closed, not_open, wrong_thread); time_limit_errc::expired after statement_options::timeout;
/// gyre::operation_cancelled after a stop. A call that is stopped, or destroyed, ends at once; the
/// server is asked to cancel its statement, which may be executed all the same.
/// Complexity: two coroutine frames; memory is allocated for results only. The first use of a text
/// on a connection costs a message to the server and back, which prepares it.
class querier {
 public:
  /// Executes a statement, and returns its rows, which may be none.
  template <row Row, argument... Arguments>
  [[nodiscard]] task<std::vector<Row>> query(statement text, Arguments&&... arguments) {
    return detail::query_rows<Row>(runner_, std::move(text),
                                   engines::detail::keep(std::forward<Arguments>(arguments)...));
  }
  /// Executes a statement with exactly one row, and returns the row. Errors: errc::no_rows,
  /// too_many_rows; what the statement has changed remains.
  template <row Row, argument... Arguments>
  [[nodiscard]] task<Row> query_one(statement text, Arguments&&... arguments) {
    return detail::query_one_row<Row>(runner_, std::move(text),
                                      engines::detail::keep(std::forward<Arguments>(arguments)...));
  }
  /// Executes a statement as query_one() does, but there may be no row.
  template <row Row, argument... Arguments>
  [[nodiscard]] task<std::optional<Row>> query_optional(statement text, Arguments&&... arguments) {
    return detail::query_optional_row<Row>(
        runner_, std::move(text), engines::detail::keep(std::forward<Arguments>(arguments)...));
  }
  /// Executes a statement, and returns the number of rows that it has inserted, updated, deleted,
  /// copied or found; 0 for others. Rows themselves are dropped.
  template <argument... Arguments>
  task<std::uint64_t> execute(statement text, Arguments&&... arguments) {
    return detail::execute_statement(runner_, std::move(text),
                                     engines::detail::keep(std::forward<Arguments>(arguments)...));
  }
  /// Executes several statements without arguments, separated by ';', as one transaction unless
  /// they contain statements of their own for that.
  task<> execute_script(std::string text) { return detail::run_script(runner_, std::move(text)); }

  /// Executes the statements of a batch, which are sent together. They take effect together: if
  /// one fails, those before it are undone and those after it skipped. On a client they are a
  /// transaction, on a connection of its own; within a transaction they are a part of it, which
  /// then fails as after any error. On a client or a session the batch may contain statements such
  /// as BEGIN and COMMIT, which end what is undone together.
  ///
  /// Until its end a transaction and a session refuse other statements (std::logic_error). A batch
  /// that is stopped or destroyed before its end has no effect, unless all of it was sent: then it
  /// may take effect. The server's statement_timeout counts for each statement; to limit the whole
  /// batch, await it in with_timeout().
  ///
  /// Lifetime: `work` must outlive the call, and must not be changed meanwhile; it can be executed
  /// again.
  /// Errors: batch_error for an error of the server; other errors of a statement name its index,
  /// too. Rows of all statements together are limited by client_options::max_result.
  task<> execute_batch(batch& work) { return detail::execute_items(runner_, work.items_); }
  /// Executes a statement once for each row of arguments, as a batch (see execute_batch()), and
  /// returns the number of rows that each execution has changed. `rows`: a range, or an
  /// async_generator, of types of row_traits, which are sent as they are taken: in memory are some
  /// 1 MiB of them, and 8 bytes for each number.
  ///
  ///     std::vector<std::tuple<std::string, double>> weights = {{"bolt", 0.5}, {"nut", 0.2}};
  ///     auto changed =
  ///         co_await db.execute_many("update item set weight = $2 where name = $1", weights);
  ///
  /// A generator must not use the same transaction or session. statement_options::timeout is the
  /// server's limit of each execution.
  /// Lifetime: rows that are no temporary must outlive the call.
  template <class Rows>
    requires detail::rows_to_copy<Rows>
  [[nodiscard]] task<std::vector<std::uint64_t>> execute_many(statement text, Rows&& rows) {
    return detail::execute_rows<Rows>(runner_, std::move(text), std::forward<Rows>(rows));
  }

  /// Gives the rows of a statement as they come, so that a result may be larger than memory: a
  /// further batch of them is asked for when the one before is being read.
  ///
  ///     auto items = db.stream<item>("select id, name, weight from item");
  ///     while (item* next = co_await items.next()) total += next->weight.value_or(0);
  ///
  /// It is a part of the transaction, or on a client a transaction of its own, which is committed
  /// when the last row was taken. A stream that is destroyed before its end gives up the statement.
  template <row Row, argument... Arguments>
  [[nodiscard]] async_generator<Row> stream(statement text, Arguments&&... arguments) {
    return detail::stream_rows<Row>(runner_, std::move(text),
                                    engines::detail::keep(std::forward<Arguments>(arguments)...));
  }

  /// Begins a COPY … FROM STDIN of any format, whose bytes the writer sends. Until it is finished,
  /// a transaction and a session refuse other statements (std::logic_error).
  [[nodiscard]] task<copy_writer> copy_in(statement text) {
    return detail::begin_copy_in(runner_, std::move(text));
  }
  /// Copies rows into a table, and returns their number; the fastest way to insert many. `target`:
  /// the table and its columns as COPY names them. The rows are a range, or an async_generator, of
  /// types of row_traits.
  ///
  ///     std::vector<std::tuple<int, std::string>> rows = {{1, "bolt"}, {2, "nut"}};
  ///     co_await db.copy_rows("item (id, name)", rows);
  ///
  /// Values are sent in the binary format of their columns, so that only types that argument_traits
  /// list for the column's type can be copied.
  /// Lifetime: rows that are no temporary must outlive the call.
  template <class Rows>
    requires detail::rows_to_copy<Rows>
  task<std::uint64_t> copy_rows(std::string target, Rows&& rows) {
    return detail::copy_all_rows<Rows>(runner_, std::move(target), std::forward<Rows>(rows));
  }
  /// Gives the bytes of a COPY … TO STDOUT as they come, in pieces that end with a row. Until the
  /// last one was taken, a transaction and a session refuse other statements.
  ///
  ///     auto lines = db.copy_out("copy item to stdout (format csv)");
  ///     while (auto* line = co_await lines.next()) std::cout << *line;
  [[nodiscard]] async_generator<std::string> copy_out(statement text) {
    return detail::copy_out_bytes(runner_, std::move(text));
  }

  /// Sends a notification (NOTIFY) to all that listen to the channel; within a transaction, when it
  /// is committed. `payload` has fewer than 8000 bytes.
  task<> notify(std::string channel, std::string payload = {}) {
    return detail::notify(runner_, std::move(channel), std::move(payload));
  }

 protected:
  explicit querier(std::shared_ptr<detail::query_runner> runner) noexcept
      : runner_(std::move(runner)) {}
  querier(querier&&) noexcept = default;
  querier& operator=(querier&&) noexcept = default;
  ~querier() = default;

  std::shared_ptr<detail::query_runner> runner_;
};

}  // namespace gyre::postgres
