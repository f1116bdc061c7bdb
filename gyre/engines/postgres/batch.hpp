// SPDX-License-Identifier: Apache-2.0
// batch: statements that are sent together, without waiting for their replies, and take effect
// together.
//
//     gyre::postgres::batch work;
//     work.execute("update item set weight = weight * 2 where id = $1", 7);
//     auto names = work.query<std::string>("select name from item where weight > $1", 5);
//     co_await db.execute_batch(work);
//     std::cout << names.get().size() << '\n';
#pragma once

#include <gyre/engines/detail/kept_argument.hpp>
#include <gyre/engines/postgres/argument_traits.hpp>
#include <gyre/engines/postgres/detail/batch_item.hpp>
#include <gyre/engines/postgres/error.hpp>
#include <gyre/engines/postgres/row_traits.hpp>
#include <gyre/engines/postgres/statement.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace gyre::postgres {

/// An error of the server about one statement of a batch; what() names its index, too.
class batch_error : public server_error {
 public:
  batch_error(std::size_t index, errc code, server_message message, std::string_view statement);

  /// Returns the place of the statement in the batch, or of the row in execute_many(), from 0.
  [[nodiscard]] std::size_t index() const noexcept { return index_; }

 private:
  std::size_t index_;
};

/// The result of a statement of a batch.
///
/// Lifetime: must not be used after its batch was destroyed or cleared; the batch may be moved.
template <class Result>
class batch_result {
 public:
  /// Returns the result. Errors: std::logic_error unless the batch has succeeded; of
  /// batch::query_one(): std::system_error (errc::no_rows, too_many_rows), and of query_optional()
  /// the latter. The changes that the batch has made then remain.
  [[nodiscard]] const Result& get() const { return item_->get(); }
  /// Returns the result as get() does, and moves it out of the batch.
  [[nodiscard]] Result take() { return std::move(item_->get()); }

 private:
  friend class batch;
  explicit batch_result(detail::result_item<Result>& item) noexcept : item_(&item) {}

  detail::result_item<Result>* item_;
};

/// Statements for querier::execute_batch(), in the order in which the server executes them. Costs
/// the client and the server much less than as many calls, as the server replies when all are done.
///
/// Thread-safety: none.
/// Lifetime: arguments and texts that are neither temporaries nor numbers must outlive
/// execute_batch().
/// Errors: std::bad_alloc.
/// Complexity: allocates once for each statement, and for results. A batch is in memory; for very
/// many executions of one statement see querier::execute_many().
class batch {
 public:
  batch() = default;
  batch(batch&&) noexcept = default;
  batch& operator=(batch&&) noexcept = default;
  ~batch() = default;

  /// Adds a statement. Its result is the number of rows that it has inserted, updated, deleted,
  /// copied or found; 0 for others. statement_options::timeout is ignored, and so is max_result.
  template <argument... Arguments>
  batch_result<std::uint64_t> execute(statement text, Arguments&&... arguments) {
    return add<detail::affected_item, std::uint64_t>(std::move(text),
                                                     std::forward<Arguments>(arguments)...);
  }
  /// Adds a statement whose result is its rows, which may be none.
  template <row Row, argument... Arguments>
  batch_result<std::vector<Row>> query(statement text, Arguments&&... arguments) {
    return add<detail::rows_item<Row>, std::vector<Row>>(std::move(text),
                                                         std::forward<Arguments>(arguments)...);
  }
  /// Adds a statement with exactly one row, which is its result.
  template <row Row, argument... Arguments>
  batch_result<Row> query_one(statement text, Arguments&&... arguments) {
    return add<detail::one_row_item<Row>, Row>(std::move(text),
                                               std::forward<Arguments>(arguments)...);
  }
  /// Adds a statement with one row or none, which is its result.
  template <row Row, argument... Arguments>
  batch_result<std::optional<Row>> query_optional(statement text, Arguments&&... arguments) {
    return add<detail::optional_row_item<Row>, std::optional<Row>>(
        std::move(text), std::forward<Arguments>(arguments)...);
  }

  [[nodiscard]] std::size_t size() const noexcept { return items_.items.size(); }
  [[nodiscard]] bool empty() const noexcept { return items_.items.empty(); }
  /// Removes all statements, and their results.
  void clear() noexcept { items_.clear(); }

 private:
  friend class querier;

  template <class Item, class Result, class... Arguments>
  batch_result<Result> add(statement text, Arguments&&... arguments) {
    auto new_object =
        std::make_unique<detail::bound_item<Item, engines::detail::kept_argument_t<Arguments>...>>(
            std::move(text), engines::detail::keep(std::forward<Arguments>(arguments)...));
    Item& item = *new_object;
    items_.items.push_back(std::move(new_object));
    return batch_result<Result>(item);
  }

  detail::batch_items items_;
};

}  // namespace gyre::postgres
