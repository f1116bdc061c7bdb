// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/postgres/detail/row_collector.hpp>

#include <gyre/engines/postgres/error.hpp>

#include <string>

namespace gyre::postgres::detail {

void require_columns(std::size_t count, std::size_t columns) {
  if (count == columns) return;
  throw_error(errc::column_count,
              std::to_string(count) + " columns, and the row type has " + std::to_string(columns));
}

void throw_no_rows(const statement& text) { throw_error(errc::no_rows, excerpt_of(text.text())); }

void throw_too_many_rows(const statement& text) {
  throw_error(errc::too_many_rows, excerpt_of(text.text()));
}

}  // namespace gyre::postgres::detail
