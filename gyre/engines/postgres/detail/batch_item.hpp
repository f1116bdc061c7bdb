// SPDX-License-Identifier: Apache-2.0
// batch_item: a statement of a batch, its arguments, and its result.
#pragma once

#include <gyre/engines/postgres/detail/bound_arguments.hpp>
#include <gyre/engines/postgres/detail/query_runner.hpp>
#include <gyre/engines/postgres/detail/row_collector.hpp>
#include <gyre/engines/postgres/statement.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

namespace gyre::postgres::detail {

/// Throws std::logic_error: the batch was not executed, or has failed.
[[noreturn, gnu::cold]] void throw_no_result();

class batch_item {
 public:
  explicit batch_item(statement text) noexcept : text_(std::move(text)) {}
  batch_item& operator=(batch_item&&) = delete;
  virtual ~batch_item() = default;

  const statement& text() const noexcept { return text_; }
  virtual const argument_list& arguments() const noexcept = 0;
  /// Takes the rows; begins without any.
  virtual row_sink& rows() noexcept = 0;
  virtual void complete(std::uint64_t /*affected*/) noexcept {}

  /// Whether the batch has succeeded, so that there is a result.
  bool has_result() const noexcept { return has_result_; }
  void set_result(bool has_result) noexcept { has_result_ = has_result; }

 private:
  const statement text_;
  bool has_result_ = false;
};

/// An item that gives a `Result&`.
template <class Result>
class result_item : public batch_item {
 public:
  using batch_item::batch_item;

  Result& get() {
    if (!has_result()) throw_no_result();
    return result();
  }

 private:
  virtual Result& result() = 0;
};

class affected_item : public result_item<std::uint64_t> {
 public:
  using result_item::result_item;

  row_sink& rows() noexcept override { return rows_; }
  void complete(std::uint64_t rows) noexcept override { affected_rows_ = rows; }

 private:
  std::uint64_t& result() override { return affected_rows_; }

  no_rows rows_;
  std::uint64_t affected_rows_ = 0;
};

template <class Row>
class rows_item : public result_item<std::vector<Row>> {
 public:
  using result_item<std::vector<Row>>::result_item;

  row_sink& rows() noexcept override { return rows_; }

 private:
  std::vector<Row>& result() override { return rows_.rows(); }

  row_collector<Row> rows_;
};

template <class Row>
class optional_row_item : public result_item<std::optional<Row>> {
 public:
  using result_item<std::optional<Row>>::result_item;

  row_sink& rows() noexcept override { return row_; }

 private:
  std::optional<Row>& result() override { return row_.get(this->text()); }

  single_row<Row> row_;
};

template <class Row>
class one_row_item : public result_item<Row> {
 public:
  using result_item<Row>::result_item;

  row_sink& rows() noexcept override { return row_; }

 private:
  Row& result() override {
    std::optional<Row>& row = row_.get(this->text());
    if (!row) throw_no_rows(this->text());
    return *row;
  }

  single_row<Row> row_;
};

/// An item, and the arguments that it keeps.
template <class Item, class... Kept>
class bound_item final : public Item {
 public:
  bound_item(statement text, std::tuple<Kept...> arguments)
      : Item(std::move(text)), values_(std::move(arguments)), bound_values_(values_) {}

  const argument_list& arguments() const noexcept override { return bound_values_; }

 private:
  const std::tuple<Kept...> values_;
  const bound_arguments<Kept...> bound_values_;
};

/// The statements of a batch.
struct batch_items {
  std::vector<std::unique_ptr<batch_item>> items;

  void clear() noexcept { items.clear(); }
};

}  // namespace gyre::postgres::detail
