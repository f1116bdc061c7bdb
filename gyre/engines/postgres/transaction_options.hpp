// SPDX-License-Identifier: Apache-2.0
// transaction_options: the settings of a transaction of PostgreSQL.
#pragma once

#include <gyre/base/duration.hpp>
#include <gyre/base/exponential_backoff.hpp>

#include <chrono>
#include <cstddef>
#include <optional>

namespace gyre::postgres {

/// The isolation of a transaction from others, as PostgreSQL defines it.
enum class isolation {
  server_default,  ///< `default_transaction_isolation` of the connection
  read_committed,
  repeatable_read,
  serializable,
};

/// Options of a transaction.
struct transaction_options {
  postgres::isolation isolation = isolation::server_default;
  /// Whether statements that change data are refused.
  bool is_read_only = false;
  /// Whether a read-only serializable transaction waits at its beginning until it can neither fail
  /// nor make others fail.
  bool is_deferrable = false;
  /// Times that the body runs at most, the first included; at least 1. It runs again after a
  /// serialisation failure, a deadlock, and a connection that was lost before COMMIT.
  std::size_t max_attempts = 5;
  /// The delays between them: random times of at most these.
  exponential_backoff delay = {.initial = std::chrono::milliseconds{5},
                               .longest = std::chrono::seconds{1}};
  /// The limit of each statement that has none of its own: see statement_options. The limit of each
  /// statement; none: that of the client.
  std::optional<duration> statement_timeout = std::nullopt;
  /// The time for the server to reply to COMMIT, after which the transaction fails with
  /// errc::commit_unknown. A stop does not reach COMMIT.
  duration commit_timeout = std::chrono::seconds{30};
};

}  // namespace gyre::postgres
