// SPDX-License-Identifier: Apache-2.0
// migrate: makes the tables of durable jobs in a database, or brings them up to date.
//
//     co_await gyre::work::migrate(db);  // at the start of each program: it costs one statement
#pragma once

#include <gyre/engines/postgres/querier.hpp>
#include <gyre/task/task.hpp>

#include <string_view>

namespace gyre::work {

/// Makes the schema `work` with its tables and functions, or adds what an earlier version lacks.
/// Programs that call it at the same time wait for each other. Workers of an earlier version may
/// run meanwhile, and afterwards. The database's role needs the right to create a schema, unless
/// the schema is up to date.
///
/// Errors: those of postgres::querier.
[[nodiscard]] task<> migrate(postgres::querier& db);

/// The statement that migrate() executes, for tools of your own, such as psql. Any thread.
std::string_view schema_text() noexcept;

}  // namespace gyre::work
