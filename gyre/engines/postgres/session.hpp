// SPDX-License-Identifier: Apache-2.0
// session: a connection to PostgreSQL for one coroutine alone.
//
//     gyre::postgres::session own = co_await db.acquire_session();
//     co_await own.execute("select pg_advisory_lock($1)", 7);
#pragma once

#include <gyre/engines/postgres/querier.hpp>

#include <memory>
#include <utility>

namespace gyre::postgres {

/// A connection of its own, for statements that change the state of a connection: SET, LISTEN,
/// temporary tables, advisory locks, BEGIN. The destructor closes the connection, and thereby
/// undoes such changes. After the connection was lost every call fails: no statement ever runs on
/// another connection.
///
/// Thread-safety, errors: as querier.
/// Lifetime: may outlive the client, whose close() ends it.
class session : public querier {
 public:
  explicit session(std::shared_ptr<detail::query_runner> runner) noexcept
      : querier(std::move(runner)) {}
  session(session&&) noexcept = default;
  session& operator=(session&&) noexcept = default;
  ~session() = default;
};

}  // namespace gyre::postgres
