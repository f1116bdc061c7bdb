// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/work/migrate.hpp>

#include <gyre/engines/postgres/statement.hpp>

namespace gyre::work {

task<> migrate(postgres::querier& db) {
  const postgres::statement schema(schema_text(), {.is_prepared = false});
  co_await db.execute(schema);
}

}  // namespace gyre::work
