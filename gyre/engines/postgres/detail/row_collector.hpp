// SPDX-License-Identifier: Apache-2.0
// row_collector, single_row: rows of a statement as C++ values.
#pragma once

#include <gyre/engines/postgres/detail/query_runner.hpp>
#include <gyre/engines/postgres/row_traits.hpp>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

namespace gyre::postgres::detail {

/// Throws std::system_error (errc::column_count) unless there are as many columns as the row type
/// has members.
void require_columns(std::size_t count, std::size_t columns);
[[noreturn, gnu::cold]] void throw_no_rows(const statement& text);
[[noreturn, gnu::cold]] void throw_too_many_rows(const statement& text);

template <class Row>
class row_collector final : public row_sink {
 public:
  void begin(std::span<const column_description> columns) override {
    require_columns(columns.size(), row_traits<Row>::column_count);
    columns_ = columns;
    rows_.clear();
  }
  void add(const row_view& row) override {
    column_cursor columns(row, columns_);
    rows_.push_back(row_traits<Row>::read(columns));
  }
  std::vector<Row>& rows() noexcept { return rows_; }
  std::vector<Row> take() noexcept { return std::exchange(rows_, {}); }

 private:
  std::span<const column_description> columns_;
  std::vector<Row> rows_;
};

template <class Row>
class single_row final : public row_sink {
 public:
  void begin(std::span<const column_description> columns) override {
    require_columns(columns.size(), row_traits<Row>::column_count);
    columns_ = columns;
    row_.reset();
    count_ = 0;
  }
  void add(const row_view& row) override {
    if (++count_ > 1) return;
    column_cursor columns(row, columns_);
    row_.emplace(row_traits<Row>::read(columns));
  }
  std::optional<Row>& get(const statement& text) {
    if (count_ > 1) throw_too_many_rows(text);
    return row_;
  }
  std::optional<Row> take(const statement& text) { return std::move(get(text)); }

 private:
  std::span<const column_description> columns_;
  std::optional<Row> row_;
  std::size_t count_ = 0;
};

template <class Row, class... Kept>
task<std::vector<Row>> query_rows(shared_runner runner, statement text,
                                  std::tuple<Kept...> arguments) {
  require_runner(runner);
  const bound_arguments<Kept...> parameters(arguments);
  row_collector<Row> rows;
  task<std::uint64_t> run_task = runner->run(text, parameters, rows);
  co_await std::move(run_task);
  co_return rows.take();
}

template <class Row, class... Kept>
task<std::optional<Row>> query_optional_row(shared_runner runner, statement text,
                                            std::tuple<Kept...> arguments) {
  require_runner(runner);
  const bound_arguments<Kept...> parameters(arguments);
  single_row<Row> row;
  task<std::uint64_t> run_task = runner->run(text, parameters, row);
  co_await std::move(run_task);
  co_return row.take(text);
}

template <class Row, class... Kept>
task<Row> query_one_row(shared_runner runner, statement text, std::tuple<Kept...> arguments) {
  require_runner(runner);
  const bound_arguments<Kept...> parameters(arguments);
  single_row<Row> row;
  task<std::uint64_t> run_task = runner->run(text, parameters, row);
  co_await std::move(run_task);
  std::optional<Row> result = row.take(text);
  if (!result) throw_no_rows(text);
  co_return std::move(*result);
}

}  // namespace gyre::postgres::detail
