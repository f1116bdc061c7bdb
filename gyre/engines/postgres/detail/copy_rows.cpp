// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/postgres/detail/copy_rows.hpp>

#include <gyre/engines/postgres/detail/quoted.hpp>
#include <gyre/engines/postgres/error.hpp>

#include <stdexcept>
#include <string_view>

namespace gyre::postgres::detail {
namespace {

using namespace std::string_view_literals;

// The signature, flags, and the size of an extension.
constexpr std::string_view header = "PGCOPY\n\377\r\n\0\0\0\0\0\0\0\0\0"sv;

}  // namespace

task<std::unique_ptr<row_copy>> row_copy::begin(shared_runner runner, std::string schema,
                                                std::string table, std::vector<std::string> columns,
                                                std::size_t row_size) {
  if (columns.empty()) {
    throw std::invalid_argument("gyre::postgres::querier::copy_rows: names no columns");
  }
  if (columns.size() != row_size) {
    throw_error(errc::column_count, std::to_string(columns.size()) +
                                        " columns, and the row type has " +
                                        std::to_string(row_size));
  }
  std::string names;
  for (const std::string& each : columns) {
    names.append(names.empty() ? "" : ", ").append(quoted(each));
  }
  const std::string whole_table = (schema.empty() ? "" : quoted(schema) + '.') + quoted(table);
  task<joined_transaction> joining = runner->join(false);
  joined_transaction joined = co_await std::move(joining);
  // The server tells the types of columns only for a statement that reads them.
  const std::string reading = "select " + names + " from " + whole_table;
  task<connection_core::shared_statement> preparing = joined.state->prepare(reading);
  const connection_core::shared_statement prepared = co_await std::move(preparing);
  auto copy = std::make_unique<row_copy>();
  for (const column_description& each : prepared->columns()) copy->types_.push_back(each.type);
  auto beginning = copy_request::begin(
      std::move(joined), "copy " + whole_table + " (" + names + ") from stdin (format binary)",
      true);
  copy->request_ = co_await std::move(beginning);
  copy->bytes_.append(header);
  co_return copy;
}

void row_copy::begin_row() { bytes_.append(static_cast<std::uint16_t>(types_.size())); }

task<> row_copy::send() {
  task<> writing = copy_request::write(request_, bytes_.bytes());
  co_await std::move(writing);
  bytes_.clear();
}

task<std::uint64_t> row_copy::finish() {
  bytes_.append(std::int16_t{-1});
  task<> sending = send();
  co_await std::move(sending);
  task<std::uint64_t> ending = copy_request::finish(request_);
  co_return co_await std::move(ending);
}

}  // namespace gyre::postgres::detail
