// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/postgres/detail/copy_rows.hpp>

#include <gyre/engines/postgres/detail/row_collector.hpp>

#include <stdexcept>
#include <string_view>

namespace gyre::postgres::detail {
namespace {

using namespace std::string_view_literals;

// The header of the binary format: the signature, the flags, and the size of the extension.
constexpr std::string_view header = "PGCOPY\n\377\r\n\0\0\0\0\0\0\0\0\0"sv;

// Returns the beginning of the list of columns: a '(' that is not a part of a quoted name.
std::size_t find_columns(std::string_view target) noexcept {
  bool is_quoted = false;
  for (std::size_t index = 0; index < target.size(); ++index) {
    if (target[index] == '"') is_quoted = !is_quoted;
    if (target[index] == '(' && !is_quoted) return index;
  }
  return target.size();
}

// Returns a statement that reads the columns, because the server reports types only for such a
// statement.
std::string reading_text(std::string_view target) {
  const std::size_t begin = find_columns(target);
  const std::string_view table = target.substr(0, begin);
  std::string_view columns = target.substr(begin);
  if (columns.empty()) return std::string("select * from ").append(table);
  const std::size_t end = columns.rfind(')');
  if (end == std::string_view::npos || table.empty()) {
    throw std::invalid_argument(
        "gyre::postgres::querier::copy_rows: the target is no table with a list of columns, such "
        "as \"item (id, name)\"");
  }
  columns = columns.substr(1, end - 1);
  return std::string("select ").append(columns).append(" from ").append(table);
}

}  // namespace

task<std::unique_ptr<row_copy>> row_copy::begin(shared_runner runner, std::string target,
                                                std::size_t row_size) {
  const std::string query_text = reading_text(target);
  task<joined_transaction> join_task = runner->join(false);
  joined_transaction transaction = co_await std::move(join_task);
  task<connection_core::shared_statement> prepare_task = transaction.state->prepare(query_text);
  const connection_core::shared_statement statement = co_await std::move(prepare_task);
  require_columns(statement->columns().size(), row_size);
  auto copy = std::make_unique<row_copy>();
  for (const column_description& column : statement->columns()) copy->types_.push_back(column.type);
  auto begin_task = copy_request::begin(std::move(transaction),
                                        "copy " + target + " from stdin (format binary)", true);
  copy->request_ = co_await std::move(begin_task);
  copy->bytes_.append(header);
  co_return copy;
}

void row_copy::begin_row() { bytes_.append(static_cast<std::uint16_t>(types_.size())); }

task<> row_copy::send() {
  task<> write_task = copy_request::write(request_, bytes_.bytes());
  co_await std::move(write_task);
  bytes_.clear();
}

task<std::uint64_t> row_copy::finish() {
  bytes_.append(std::int16_t{-1});
  task<> send_task = send();
  co_await std::move(send_task);
  task<std::uint64_t> end_task = copy_request::finish(request_);
  co_return co_await std::move(end_task);
}

}  // namespace gyre::postgres::detail
